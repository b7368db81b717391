//! What Qdrant's own client needs in the words of Qdrant.
//!
//! Its client reads an error in one case alone: of a 429 with `Retry-After` it takes `status.error` for the message,
//! and has no message if `status` is a number, as RFC 9457 wants it. So that client gets `status` of that one status
//! as Qdrant gives it, and everybody else as the RFC does.

use actix_web::Error;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::{StatusCode, header};
use actix_web::web::Bytes;
use serde_json::{Value, json};

/// How the `User-Agent` of Qdrant's Python client begins.
const CLIENT: &str = "python-client/";

/// Answers a request in the dialect of who asks.
pub(crate) fn speak<S, B>(
    request: ServiceRequest,
    service: &S,
) -> impl Future<Output = Result<ServiceResponse<BoxBody>, Error>> + use<S, B>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let is_qdrants = agent.is_some_and(|agent| agent.starts_with(CLIENT));
    let response = service.call(request);
    async move {
        let response = response.await?;
        if !is_qdrants || response.status() != StatusCode::TOO_MANY_REQUESTS {
            return Ok(response.map_into_boxed_body());
        }
        Ok(response.map_body(|_, body| match body.try_into_bytes() {
            Ok(bytes) => BoxBody::new(reworded(bytes)),
            Err(body) => BoxBody::new(body),
        }))
    }
}

/// The problem with its detail as `status.error`; what is no problem stays as it is.
fn reworded(bytes: Bytes) -> Bytes {
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut members)) if members.get("detail").is_some_and(Value::is_string) => {
            let status = json!({ "error": members["detail"] });
            members.insert("status".to_owned(), status);
            Value::Object(members).to_string().into()
        }
        Ok(_) | Err(_) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_its_detail_where_the_client_looks() {
        let problem = Bytes::from_static(br#"{"detail":"too many","code":"queue_full","status":429}"#);
        let members: Value = serde_json::from_slice(&reworded(problem)).expect("JSON");
        assert_eq!(members["status"]["error"], "too many");
        assert_eq!(members["code"], "queue_full");
        for other in ["busy", "[429]", r#"{"detail":429}"#] {
            assert_eq!(reworded(Bytes::from_static(other.as_bytes())), other);
        }
    }
}
