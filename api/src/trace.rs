//! Who asked, and as part of what: ids of requests, and traces of the W3C's `traceparent`.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::HeaderMap;
use tracing::Span;

/// The target of all spans: whoever collects them asks for it by name, and nobody else sees them.
pub const TRACE_TARGET: &str = "dehub_trace";

/// The header with the id of a request, in both directions.
pub(crate) const REQUEST_ID: &str = "x-request-id";

const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

/// The longest id of a request that is taken from its client.
const REQUEST_ID_MAX: usize = 64;

/// The most of a `tracestate` that is passed on, as its specification wants.
const TRACE_STATE_MAX: usize = 512;

/// The length of a `traceparent` of version 0.
const TRACE_PARENT_LENGTH: usize = 55;

/// The trace that a request belongs to, as its client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; never 0.
    pub trace: u128,
    /// The client's span; never 0.
    pub span: u64,
    /// Whether the client records it.
    pub is_sampled: bool,
    /// What others add to the trace, as they wrote it; empty if nothing.
    pub state: String,
}

/// What is done with the spans of requests by whoever collects them.
#[derive(Debug, Clone, Copy)]
pub struct Tracer {
    /// Joins the span of a request to a trace, or begins one, and tells the number of the trace; `None` if the span
    /// is in none.
    pub join: fn(&Span, Option<&TraceParent>) -> Option<u128>,
    /// Gives a span another name, which is known only when the request was answered.
    pub rename: fn(&Span, String),
}

impl PartialEq for Tracer {
    fn eq(&self, other: &Tracer) -> bool {
        std::ptr::fn_addr_eq(self.join, other.join) && std::ptr::fn_addr_eq(self.rename, other.rename)
    }
}

impl Eq for Tracer {}

impl TraceParent {
    /// The trace that headers name. One that is not written as the W3C says is none.
    pub(crate) fn of(headers: &HeaderMap) -> Option<TraceParent> {
        let mut all = headers.get_all(TRACE_PARENT);
        let (first, other) = (all.next()?, all.next());
        let parent = TraceParent::parse(first.to_str().ok()?).filter(|_| other.is_none())?;
        let state: Option<Vec<&str>> =
            headers.get_all(TRACE_STATE).map(|value| value.to_str().ok()).collect();
        let state = state.map(|parts| parts.join(",")).filter(|state| state.len() <= TRACE_STATE_MAX);
        Some(TraceParent { state: state.unwrap_or_default(), ..parent })
    }

    /// `version-trace-span-flags`, all in lower-case hexadecimal. A later version may have more to say behind.
    fn parse(text: &str) -> Option<TraceParent> {
        let head = text.get(..TRACE_PARENT_LENGTH)?;
        let rest = &text[TRACE_PARENT_LENGTH..];
        let mut parts = head.split('-');
        let version = hex(parts.next()?, 2)?;
        let (trace, span) = (hex(parts.next()?, 32)?, hex(parts.next()?, 16)?);
        let flags = hex(parts.next()?, 2)?;
        let is_whole = parts.next().is_none()
            && match version {
                0 => rest.is_empty(),
                0xff => false,
                _ => rest.is_empty() || rest.starts_with('-'),
            };
        let span = u64::try_from(span).ok()?;
        let is_valid = is_whole && trace != 0 && span != 0;
        is_valid.then_some(TraceParent { trace, span, is_sampled: flags & 1 == 1, state: String::new() })
    }
}

/// A number of so many lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Numbers that no one can guess and that come only once. The keys are random, by the standard library.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    random: RandomState,
    drawn: AtomicU64,
}

impl Ids {
    /// 128 random bits.
    pub(crate) fn draw(&self) -> u128 {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let half = |which: u8| u128::from(self.random.hash_one((number, which)));
        (half(0) << 64) | half(1)
    }

    /// The id of a request: its client's, if that is short and harmless, or a new one.
    pub(crate) fn of_request(&self, headers: &HeaderMap) -> Box<str> {
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        given.filter(|id| is_harmless(id)).map_or_else(|| uuid(self.draw()), Box::from)
    }
}

fn is_harmless(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=REQUEST_ID_MAX).contains(&id.len()) && id.bytes().all(is_plain)
}

/// A UUID of version 4 of random bits.
fn uuid(bits: u128) -> Box<str> {
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let part = |shift: u32, width: u32| (bits >> shift) & ((1 << width) - 1);
    let (a, b, c, d, e) = (part(96, 32), part(80, 16), part(64, 16), part(48, 16), part(0, 48));
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}").into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            let value = HeaderValue::from_str(value).expect("a value");
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let text = format!("00-{TRACE}-{SPAN}-01");
        let found = TraceParent::of(&headers(&[(TRACE_PARENT, &text), (TRACE_STATE, "a=1,b=2")]));
        let found = found.expect("a trace");
        assert_eq!(
            (format!("{:032x}", found.trace), format!("{:016x}", found.span)),
            (TRACE.into(), SPAN.into())
        );
        assert!(found.is_sampled);
        assert_eq!(found.state, "a=1,b=2");
        let unsampled = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).expect("a trace");
        assert!(!unsampled.is_sampled);
        assert!(TraceParent::parse(&format!("cc-{TRACE}-{SPAN}-01-more")).is_some(), "a later version");
        let lists = headers(&[(TRACE_PARENT, &text), (TRACE_STATE, "a=1"), (TRACE_STATE, "b=2")]);
        assert_eq!(TraceParent::of(&lists).expect("a trace").state, "a=1,b=2");
        let long = "x".repeat(TRACE_STATE_MAX + 1);
        let long = TraceParent::of(&headers(&[(TRACE_PARENT, &text), (TRACE_STATE, &long)]));
        assert_eq!(long.expect("a trace").state, "");
    }

    #[test]
    fn a_trace_that_is_not_written_as_the_standard_says_is_none() {
        let zeros = |count: usize| "0".repeat(count);
        for text in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01more"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", zeros(32)),
            format!("00-{TRACE}-{}-01", zeros(16)),
            format!("00-{SPAN}-{TRACE}-01"),
            format!("0-{TRACE}0-{SPAN}-01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("+0-{TRACE}-{SPAN}-01"),
            "é".repeat(40),
        ] {
            assert_eq!(TraceParent::parse(&text), None, "{text}");
        }
        let text = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(TraceParent::of(&headers(&[(TRACE_PARENT, &text), (TRACE_PARENT, &text)])), None);
    }

    #[test]
    fn an_id_of_a_client_is_kept_if_it_is_short_and_harmless() {
        let ids = Ids::default();
        let longest = "a".repeat(REQUEST_ID_MAX);
        for id in ["1", "Job-7.step_2:retry", &longest] {
            assert_eq!(&*ids.of_request(&headers(&[(REQUEST_ID, id)])), id);
        }
        let too_long = "a".repeat(REQUEST_ID_MAX + 1);
        for id in ["", "a b", "a\tb", "a\"b", "a/b", "a%0ab", "<a>", &too_long] {
            assert_ne!(&*ids.of_request(&headers(&[(REQUEST_ID, id)])), id);
        }
    }

    #[test]
    fn new_ids_are_uuids_and_come_once() {
        let ids = Ids::default();
        let all: HashSet<_> = (0..1000).map(|_| ids.of_request(&headers(&[]))).collect();
        assert_eq!(all.len(), 1000);
        for id in all {
            let lengths: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(id.as_bytes()[14], b'4', "{id}");
            assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
    }
}
