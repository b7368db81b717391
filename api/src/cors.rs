//! Whether pages of other origins may use the server from a browser: no, but for those the operator lists.

use actix_web::HttpRequest;
use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::http::{Method, Uri};

use crate::errors::FOREIGN_ORIGIN;
use crate::hosts;
use crate::problem::Problem;

/// What a page may send.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const HEADERS: &str = "api-key, authorization, content-encoding, content-type, x-request-id";

/// In which browsers say how a page's origin relates to the server's.
const FETCH_SITE: &str = "sec-fetch-site";

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

    /// Refuses what changes something if a page of another origin asks for it. A browser sends forms and requests
    /// without a body of any page without asking first, and only then withholds the answer.
    pub(crate) fn check(&self, request: &HttpRequest) -> Result<(), Problem> {
        if [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
            return Ok(());
        }
        let headers = request.headers();
        let found = match (headers.get(header::ORIGIN), headers.get(FETCH_SITE)) {
            (Some(origin), _) if self.origin(request).is_some() || is_own(origin, request) => return Ok(()),
            (Some(origin), _) => origin,
            (None, Some(site)) if site != "same-origin" && site != "none" => site,
            (None, Some(_) | None) => return Ok(()),
        };
        let found = String::from_utf8_lossy(found.as_bytes());
        let detail = format!(
            "a page of another origin ({found}) asks for a change: list its origin in `service.cors_origins` to \
             allow it"
        );
        let wanted = "the server's own origin, or one of `service.cors_origins`";
        Err(Problem::new(FOREIGN_ORIGIN, detail).wanted(wanted).found(found))
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

/// Whether it is where the request is sent to.
fn is_own(origin: &HeaderValue, request: &HttpRequest) -> bool {
    let scheme = if request.app_config().secure() { "https" } else { "http" };
    let host = hosts::asked(request).unwrap_or_default();
    let mut parts = origin.to_str().unwrap_or_default().splitn(2, "://");
    parts.next() == Some(scheme) && parts.next().is_some_and(|own| own.eq_ignore_ascii_case(host))
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
