//! Whether pages of other origins may use the server from a browser: no, but for those the operator lists.

use actix_web::HttpRequest;
use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::http::{Method, Uri};

/// What a page may send.
const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "api-key, authorization, content-encoding, content-type, x-request-id";

/// What a page may see of an answer, beside what it always may.
const EXPOSED: &str = "retry-after, x-request-id";

/// Seconds for which a browser may remember what it was told.
const MAX_AGE: &str = "600";

/// The origins whose pages may ask.
#[derive(Debug, Default)]
pub(crate) struct Cors(Vec<String>);

impl Cors {
    /// Takes origins as browsers send them: a scheme, a host and perhaps a port, and nothing else.
    pub(crate) fn new(origins: &[String]) -> Result<Cors, String> {
        for origin in origins {
            check(origin)?;
        }
        Ok(Cors(origins.to_vec()))
    }

    /// The origin of a request, if its page may ask.
    pub(crate) fn origin(&self, request: &HttpRequest) -> Option<HeaderValue> {
        let origin = request.headers().get(header::ORIGIN)?;
        let is_listed = self.0.iter().any(|listed| listed.as_bytes() == origin.as_bytes());
        is_listed.then(|| origin.clone())
    }

    /// The answer to a browser's question what a page of this origin may send. It needs no key: browsers send none.
    pub(crate) fn preflight(request: &HttpRequest) -> Option<HttpResponse> {
        let asks = request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        asks.then(|| {
            HttpResponse::NoContent()
                .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, METHODS))
                .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS))
                .insert_header((header::ACCESS_CONTROL_MAX_AGE, MAX_AGE))
                .finish()
        })
    }

    /// Says so in the head of an answer. With origins listed, an answer depends on who asks.
    pub(crate) fn mark(&self, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }
}

fn check(origin: &str) -> Result<(), String> {
    let refused = || {
        format!(
            "the origin `{origin}` cannot be one: wanted a scheme, a host and perhaps a port, as in \
             `https://example.org` or `http://localhost:3000`, exactly as browsers send it"
        )
    };
    let uri: Uri = origin.parse().map_err(|_| refused())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(refused()) };
    let is_exact = format!("{scheme}://{authority}") == *origin
        && !authority.as_str().contains('@')
        && !origin.contains('*')
        && origin.to_ascii_lowercase() == *origin;
    if is_exact { Ok(()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_exact_or_none() {
        for origin in ["https://example.org", "http://localhost:3000", "http://[::1]:80", "app://x"] {
            assert!(Cors::new(&[origin.to_owned()]).is_ok(), "{origin}");
        }
        let wrong = [
            "*",
            "https://*.example.org",
            "example.org",
            "https://example.org/",
            "https://u@example.org",
            "",
            "null",
        ];
        for origin in wrong.into_iter().chain(["https://Example.org", "https://example.org/path"]) {
            let error = Cors::new(&[origin.to_owned()]).expect_err(origin);
            assert!(error.contains(&format!("`{origin}`")), "{error}");
        }
    }
}
