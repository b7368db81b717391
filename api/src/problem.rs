//! A refusal as the client sees it: `application/problem+json` of RFC 9457.

use std::fmt::Display;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The media type of every error.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A kind of refusal: what a program looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    status: u16,
    name: &'static str,
    title: &'static str,
}

impl Code {
    pub(crate) const fn new(status: u16, name: &'static str, title: &'static str) -> Code {
        Code { status, name, title }
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }
}

/// One refusal, with the place it is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    code: Code,
    /// The code's own, unless the place makes it another one.
    status: u16,
    detail: String,
    fault: Option<Box<Fault>>,
    retry_after_seconds: Option<u32>,
    allow: Option<Box<str>>,
    /// The rows of the body that were stored before.
    stored: usize,
    /// Whether 401 has to say how a key is sent.
    is_unauthenticated: bool,
    /// The numbers a refusal follows from.
    verdict: Option<Box<Value>>,
}

/// What is wrong where.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
struct Fault {
    /// A JSON pointer into the body; the empty one is the body itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// A parameter of the query string.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// The line of a body of lines, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// The members of the response. The detail comes first: Qdrant's client shows no more than 200 bytes of an error.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Members<'a> {
    detail: &'a str,
    code: &'a str,
    status: u16,
    r#type: String,
    title: &'a str,
    /// The request that was refused, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[schema(value_type = Vec<Fault>)]
    errors: Vec<&'a Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    verdict: Option<&'a Value>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Problem {
        let (status, detail) = (code.status, detail.into());
        Problem {
            code,
            status,
            detail,
            fault: None,
            retry_after_seconds: None,
            allow: None,
            stored: 0,
            is_unauthenticated: false,
            verdict: None,
        }
    }

    /// Says where in the body.
    pub(crate) fn at(mut self, pointer: impl Display) -> Problem {
        self.fault_mut().pointer = Some(pointer.to_string());
        self
    }

    /// Says which parameter of the query string.
    pub(crate) fn in_parameter(mut self, parameter: &str) -> Problem {
        self.fault_mut().parameter = Some(parameter.to_owned());
        self
    }

    /// Says what would have been right.
    pub(crate) fn wanted(mut self, wanted: impl Display) -> Problem {
        self.fault_mut().wanted = Some(wanted.to_string());
        self
    }

    /// Says what was given.
    pub(crate) fn found(mut self, found: impl Display) -> Problem {
        self.fault_mut().found = Some(found.to_string());
        self
    }

    /// Says on which line, from 1.
    pub(crate) fn line(mut self, line: u64) -> Problem {
        self.fault_mut().line = Some(line);
        self
    }

    /// The same, in words too.
    pub(crate) fn on_line(mut self, line: u64) -> Problem {
        self.detail = format!("line {line}: {}", self.detail);
        if let Some(fault) = &mut self.fault {
            fault.reason.clone_from(&self.detail);
        }
        self.line(line)
    }

    /// The row of the body it is about, from 0, as its pointer says.
    pub(crate) fn row(&self) -> Option<u64> {
        let pointer = self.fault.as_ref()?.pointer.as_ref()?;
        pointer.strip_prefix("/rows/")?.split('/').next()?.parse().ok()
    }

    /// Says how many rows of the body were stored all the same, before it.
    pub(crate) fn stored(mut self, rows: usize) -> Problem {
        if rows > 0 {
            self.detail = format!("{} (the {rows} rows before are stored)", self.detail);
        }
        self.stored = rows;
        self
    }

    /// The request is well addressed, but names something that is not there: 422 in place of 404.
    pub(crate) fn unprocessable(mut self) -> Problem {
        self.status = 422;
        self
    }

    /// The same, if it is that a name leads nowhere.
    pub(crate) fn unprocessable_if_unknown(self) -> Problem {
        if self.status == 404 { self.unprocessable() } else { self }
    }

    /// The body that it is about is a part of another one, at this pointer; `note` says what became of the rest.
    pub(crate) fn below(mut self, pointer: &str, note: &str) -> Problem {
        self.detail = format!("`{pointer}`: {}; {note}", self.detail);
        let fault = self.fault_mut();
        fault.pointer = Some(format!("{pointer}{}", fault.pointer.as_deref().unwrap_or_default()));
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Problem {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// The methods there are, as 405 has to say.
    pub(crate) fn allow(mut self, methods: &str) -> Problem {
        self.allow = Some(methods.into());
        self
    }

    /// Says how a key is sent, as 401 has to.
    pub(crate) fn authenticate(mut self) -> Problem {
        self.is_unauthenticated = true;
        self
    }

    /// The numbers it follows from, as a member of their own.
    pub(crate) fn verdict(mut self, verdict: Value) -> Problem {
        self.verdict = Some(Box::new(verdict));
        self
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    fn fault_mut(&mut self) -> &mut Fault {
        let Problem { detail, fault, .. } = self;
        fault.get_or_insert_with(|| Box::new(Fault { reason: detail.clone(), ..Fault::default() }))
    }

    /// The members of the answer.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self.members(None)).expect("text and numbers always have a JSON form")
    }

    /// The body of the answer to the request of this id.
    pub(crate) fn body(&self, request: Option<&str>) -> Vec<u8> {
        serde_json::to_vec(&self.members(request)).expect("text and numbers always have a JSON form")
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code.name
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    fn members(&self, request: Option<&str>) -> Members<'_> {
        Members {
            detail: &self.detail,
            code: self.code.name,
            status: self.status(),
            r#type: format!("urn:dehub:problem:{}", self.code.name),
            title: self.code.title,
            instance: request.map(|id| format!("urn:dehub:request:{id}")),
            errors: self.fault.iter().map(Box::as_ref).collect(),
            stored: (self.stored > 0).then_some(self.stored),
            verdict: self.verdict.as_deref(),
        }
    }

    /// The answer, with the problem as an extension for whoever watches requests.
    pub(crate) fn response(&self) -> HttpResponse {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = HttpResponse::build(status);
        if let Some(seconds) = self.retry_after_seconds {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        if let Some(methods) = &self.allow {
            response.insert_header((header::ALLOW, methods.as_ref()));
        }
        if self.is_unauthenticated {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        response.extensions_mut().insert(self.clone());
        response.insert_header((header::CONTENT_TYPE, MEDIA_TYPE)).body(self.body(None))
    }
}
