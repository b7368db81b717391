//! What type a body has, and of which an answer is to be.

use actix_web::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::errors::{NOT_ACCEPTABLE, WRONG_CONTENT_TYPE};
use crate::problem::Problem;

/// The type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// JSON values, one a line.
    Lines,
    Arrow,
    Parquet,
}

impl Media {
    /// All of them: those of lists of rows.
    pub(crate) const ALL: [Media; 4] = [Media::Json, Media::Lines, Media::Arrow, Media::Parquet];

    fn names(self) -> &'static [&'static str] {
        match self {
            Media::Json => &["application/json"],
            Media::Lines => &["application/x-ndjson", "application/jsonl", "application/x-jsonlines"],
            Media::Arrow => &["application/vnd.apache.arrow.stream"],
            Media::Parquet => &["application/vnd.apache.parquet"],
        }
    }

    /// The name it goes by.
    pub(crate) fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The type that the headers of a request say its body has, if it is one of those `allowed`.
    pub(crate) fn of(headers: &HeaderMap, allowed: &[Media]) -> Result<Media, Problem> {
        let found = text(headers.get(CONTENT_TYPE), "none");
        let essence = found.split(';').next().unwrap_or_default().trim();
        let is_it = |media: &&Media| media.names().iter().any(|name| essence.eq_ignore_ascii_case(name));
        let media = allowed.iter().find(is_it).filter(|_| is_utf8(found));
        media.copied().ok_or_else(|| {
            let wanted = allowed.iter().map(|media| media.name()).collect::<Vec<_>>().join(", ");
            let detail = format!("the content type is {found}, wanted {wanted}, and text in UTF-8");
            Problem::new(WRONG_CONTENT_TYPE, detail).wanted(wanted).found(found)
        })
    }
}

/// Whether a content type names no other encoding of text than UTF-8, of which ASCII is a part.
fn is_utf8(content_type: &str) -> bool {
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    charsets.all(|(_, value)| {
        let value = value.trim().trim_matches('"');
        ["utf-8", "utf8", "us-ascii"].iter().any(|known| value.eq_ignore_ascii_case(known))
    })
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Arrow,
}

impl Form {
    pub(crate) fn media(self) -> &'static str {
        match self {
            Form::Json => Media::Json.name(),
            Form::Arrow => Media::Arrow.name(),
        }
    }
}

/// What a client says it takes.
#[derive(Debug, Clone)]
pub(crate) struct Accepted(Option<HeaderValue>);

impl Accepted {
    pub(crate) fn new(headers: &HeaderMap) -> Accepted {
        Accepted(headers.get(ACCEPT).cloned())
    }

    /// The form of the answer: that of the `given` ones which the client likes best, and the first of those if it
    /// likes several as much.
    pub(crate) fn form(&self, given: &[Form]) -> Result<Form, Problem> {
        let accepted = text(self.0.as_ref(), "*/*");
        let mut best: Option<(Form, f32)> = None;
        for &form in given {
            let liking = liking(accepted, form.media());
            if liking > best.map_or(0.0, |(_, most)| most) {
                best = Some((form, liking));
            }
        }
        best.map(|(form, _)| form).ok_or_else(|| {
            let wanted = given.iter().map(|form| form.media()).collect::<Vec<_>>().join(", ");
            let detail = format!("the answer cannot be {accepted}; it can be {wanted}");
            Problem::new(NOT_ACCEPTABLE, detail).wanted(wanted).found(accepted)
        })
    }
}

/// Whether the client takes answers that are packed with gzip.
pub(crate) fn packs(headers: &HeaderMap) -> bool {
    let accepted = text(headers.get(ACCEPT_ENCODING), "");
    let named = |name: &str| {
        accepted.split(',').map(parts).find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, q)| q > 0.0)
    };
    named("gzip").or_else(|| named("*")).unwrap_or(false)
}

/// How much a media type is liked, by the range that says most about it: 0 if not at all.
fn liking(accepted: &str, media: &str) -> f32 {
    let family = media.split('/').next().unwrap_or_default();
    let narrowness = |range: &str| match range.split_once('/') {
        _ if range.eq_ignore_ascii_case(media) => Some(2),
        Some((own, "*")) if own.eq_ignore_ascii_case(family) => Some(1),
        Some(("*", "*")) => Some(0),
        Some(_) | None => None,
    };
    let ranges = accepted.split(',').map(parts);
    let best =
        ranges.filter_map(|(range, q)| Some((narrowness(range)?, q))).max_by_key(|&(narrow, _)| narrow);
    best.map_or(0.0, |(_, q)| q)
}

/// An entry of a list with its weight, 1 if it has none.
fn parts(entry: &str) -> (&str, f32) {
    let mut parts = entry.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    (name, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

fn text<'a>(value: Option<&'a HeaderValue>, missing: &'a str) -> &'a str {
    value.map_or(missing, |value| value.to_str().unwrap_or("one that is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: actix_web::http::header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        headers
    }

    #[test]
    fn the_form_of_an_answer_is_the_one_liked_best() {
        let arrow = "application/vnd.apache.arrow.stream";
        let cases = [
            ("*/*", Some(Form::Json)),
            ("application/json", Some(Form::Json)),
            (arrow, Some(Form::Arrow)),
            ("application/*", Some(Form::Json)),
            ("application/vnd.apache.arrow.stream, */*;q=0.1", Some(Form::Arrow)),
            ("application/vnd.apache.arrow.stream;q=0, */*", Some(Form::Json)),
            ("application/json; q=0.5, application/vnd.apache.arrow.stream; q=0.6", Some(Form::Arrow)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("", None),
            ("nonsense", None),
        ];
        for (accepted, wanted) in cases {
            let form = Accepted::new(&headers(ACCEPT, accepted)).form(&[Form::Json, Form::Arrow]);
            assert_eq!(form.ok(), wanted, "{accepted}");
        }
        assert_eq!(Accepted::new(&HeaderMap::new()).form(&[Form::Json]).ok(), Some(Form::Json));
    }

    #[test]
    fn gzip_is_used_only_where_it_is_taken() {
        let cases = [
            ("gzip", true),
            ("GZip", true),
            ("deflate, gzip;q=0.5, br", true),
            ("*", true),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("", false),
        ];
        for (accepted, wanted) in cases {
            assert_eq!(packs(&headers(ACCEPT_ENCODING, accepted)), wanted, "{accepted}");
        }
    }
}
