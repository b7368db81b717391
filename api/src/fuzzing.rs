//! The decoders of everything that comes from outside, by name: for fuzzing, and for a test of what fuzzing looks for.
//!
//! A decoder gives the refusal as a problem document. Whatever the bytes are, it neither panics nor blames the server.

use std::sync::Arc;

use actix_web::http::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use dehub_format::TableFormat;
use dehub_index::{Name, Snapshot};
use dehub_query::{Filter, FilterTextError};
use serde_json::{Value, json};

use crate::bodies::{self, Inflater, LineBatch, Lines};
use crate::decode::{self, Place};
use crate::errors::UNKNOWN_COLLECTION;
use crate::parameters::{Parameters, WAIT_OR_NOT};
use crate::problem::Problem;
use crate::queries::{Elsewhere, Form};
use crate::{banks, collections, corrections, filter, live, points, queries};

/// What a body may unfold to here.
const ROOM: usize = 16 * 1024 * 1024;

/// A decoder of bytes.
pub type Decoder = fn(&[u8]) -> Result<(), Value>;

/// All decoders by name.
pub const DECODERS: [(&str, Decoder); 23] = [
    ("collection", |bytes| json(bytes, |body| collections::wanted(body).map(drop))),
    ("points", |bytes| json(bytes, |body| points::inputs(body, Place::Body).map(drop))),
    ("ids", |bytes| json(bytes, |body| points::ids(body, Place::Body).map(drop))),
    ("bank", |bytes| json(bytes, |body| banks::update(name(), body).map(drop))),
    ("correction", |bytes| json(bytes, |body| corrections::input(name(), body).map(drop))),
    ("live", |bytes| json(bytes, |body| live::policy(body).map(drop))),
    ("rule", |bytes| json(bytes, |body| points::rule(body, Place::Body).map(drop))),
    ("query", |bytes| json(bytes, |body| queries::asked(&Nowhere, body, Place::Body, Form::Query).map(drop))),
    ("search", |bytes| {
        json(bytes, |body| queries::asked(&Nowhere, body, Place::Body, Form::Search).map(drop))
    }),
    ("recommend", |bytes| {
        json(bytes, |body| queries::asked(&Nowhere, body, Place::Body, Form::Recommend).map(drop))
    }),
    ("discover", |bytes| {
        json(bytes, |body| queries::asked(&Nowhere, body, Place::Body, Form::Discover).map(drop))
    }),
    ("batch", |bytes| json(bytes, |body| queries::batch(&Nowhere, body, Form::Query).map(drop))),
    ("filter", |bytes| json(bytes, |body| filter::filter(body, Place::Body).map(drop))),
    ("filter_text", filter_text),
    ("lines", |bytes| told(lines(bytes, |value, place| points::point(value, place).map(drop)))),
    ("query_lines", |bytes| {
        told(lines(bytes, |value, place| queries::asked(&Nowhere, value, place, Form::Query).map(drop)))
    }),
    ("arrow", |bytes| told(table(TableFormat::ArrowStream, bytes))),
    ("parquet", |bytes| told(table(TableFormat::Parquet, bytes))),
    ("gzip", |bytes| told(unfold("gzip", bytes))),
    ("zstd", |bytes| told(unfold("zstd", bytes))),
    ("parameters", |bytes| told(parameters(bytes))),
    ("media", |bytes| {
        media(bytes);
        Ok(())
    }),
    ("id_lines", |bytes| told(lines(bytes, |value, place| decode::id(value, place).map(drop)))),
];

/// A filter in its readable form.
fn filter_text(bytes: &[u8]) -> Result<(), Value> {
    let read = std::str::from_utf8(bytes).map_err(|error| format!("the body: {error}"));
    let read = read.and_then(|text| text.parse().map_err(|error: FilterTextError| error.to_string()));
    read.map(|_: Filter| ()).map_err(|detail| json!({ "status": 400, "code": "filter", "detail": detail }))
}

/// No collection but the one that the path names.
struct Nowhere;

impl Elsewhere for Nowhere {
    fn is_here(&self, found: &Name) -> Result<bool, Problem> {
        Ok(*found == name())
    }

    fn snapshot(&self, name: &Name, place: Place<'_>) -> Result<Arc<Snapshot>, Problem> {
        Err(Problem::new(UNKNOWN_COLLECTION, format!("there is no collection `{name}`")).at(place))
    }
}

fn name() -> Name {
    "name".parse().expect("a name")
}

fn told(outcome: Result<(), Problem>) -> Result<(), Value> {
    outcome.map_err(|problem| problem.to_value())
}

fn json(bytes: &[u8], read: impl FnOnce(Value) -> Result<(), Problem>) -> Result<(), Value> {
    told(decode::body(bytes).and_then(read))
}

/// Lines that arrive in pieces.
fn lines(bytes: &[u8], mut read: impl FnMut(Value, Place<'_>) -> Result<(), Problem>) -> Result<(), Problem> {
    let mut lines = Lines::new(bytes.len() / 2 + 64);
    let mut decoded = |batch: &LineBatch| {
        batch.iter().try_for_each(|(row, line)| bodies::rows::decode_line(row, line, &mut read))
    };
    for chunk in bytes.chunks(61) {
        let known = lines.bytes_mut().len();
        lines.bytes_mut().extend_from_slice(chunk);
        lines.look(known);
        while let Some(batch) = lines.full_batch()? {
            decoded(&batch)?;
        }
    }
    decoded(&lines.into_rest())
}

fn table(format: TableFormat, bytes: &[u8]) -> Result<(), Problem> {
    for batch in bodies::open(format, bytes.to_vec(), ROOM, None)? {
        batch.map_err(|error| bodies::refused(&error))?;
    }
    Ok(())
}

fn unfold(coding: &'static str, bytes: &[u8]) -> Result<(), Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    let mut inflater = Inflater::new(&headers)?;
    let mut out = Vec::new();
    for chunk in bytes.chunks(97) {
        let room = ROOM - out.len();
        inflater.push(chunk, room, &mut out)?;
    }
    let room = ROOM - out.len();
    inflater.finish(room, &mut out)
}

fn parameters(bytes: &[u8]) -> Result<(), Problem> {
    let text = String::from_utf8_lossy(bytes);
    let parameters = Parameters::parse(&text, &[WAIT_OR_NOT, "timeout", "k"])?;
    parameters.seconds("timeout")?;
    parameters.whole("k").map(drop)
}

fn media(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let mut headers = HeaderMap::new();
    for name in [actix_web::http::header::ACCEPT, actix_web::http::header::ACCEPT_ENCODING] {
        headers.insert(name, value.clone());
    }
    headers.insert(actix_web::http::header::CONTENT_TYPE, value);
    // Whatever they say, there is a type or a refusal.
    _ = bodies::Media::of(&headers, &bodies::Media::ALL);
    _ = bodies::Accepted::new(&headers).form(&[bodies::Form::Json, bodies::Form::Arrow]);
    _ = bodies::packs(&headers);
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// What each decoder takes.
    fn valid() -> Vec<(&'static str, Vec<u8>)> {
        let sample = |name: &str| {
            let path = format!("{}/../testdata/bodies/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read(path).expect("a sample")
        };
        let text = |text: &str| text.as_bytes().to_vec();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(b"some text that is packed, packed, packed").expect("packed");
        let point =
            r#"{"id":1,"vector":[1,0.5,-2e-3],"payload":{"a":["b",null,{"c":1.5}]},"text":"é\u00e9"}"#;
        let filter = r#"{"must":[{"has_id":[1,"a"]}],"must_not":{"has_id":[2]}}"#;
        let query = format!(
            r#"{{"query":[1,2.5,3],"limit":3,"offset":1,"params":{{"hnsw_ef":9}},"with_payload":true,
            "filter":{filter}}}"#
        )
        .replace('\n', " ");
        vec![
            ("collection", text(r#"{"vectors":{"size":3,"distance":"Cosine"},"hnsw_config":{"m":16}}"#)),
            ("points", text(&format!(r#"{{"points":[{point},{point}]}}"#))),
            (
                "points",
                text(r#"{"batch":{"ids":[1,"2"],"vectors":[[1,2],[3,4]],"payloads":[null,{"a":1}]}}"#),
            ),
            ("ids", text(r#"[1,"two",18446744073709551615]"#)),
            ("bank", text(r#"{"kind":"query","vectors":[[1,2],[3,4]],"ids":[1,2],"weights":[1,0.5]}"#)),
            ("correction", text(r#"{"method":"IS","parameters":{"beta":20},"query_bank":"b"}"#)),
            ("live", text(r#"{"bank":"b","capacity":100,"rate":0.5}"#)),
            ("rule", text(r#"{"correction":"is","rate":0.05}"#)),
            ("query", text(&query)),
            (
                "query",
                text(r#"{"query":{"nearest":"a"},"hubness":{"correction":"is","alpha":0.5,"explain":true}}"#),
            ),
            (
                "query",
                text(
                    r#"{"query":{"hybrid":{"nearest":[1,2,3],"text":"a b","fields":{"t":2},"operator":"and","depth":9,
                    "fusion":{"convex":{"normalization":"minmax","weights":[1,2]}}}},"highlight":{"pre_tag":"<b>"}}"#,
                ),
            ),
            ("query", text(r#"{"query":{"feedback":{"nearest":1,"depth":2,"beta":0.5}},"highlight":true}"#)),
            ("search", text(r#"{"vector":[1,2,3],"limit":3}"#)),
            (
                "recommend",
                text(r#"{"positive":[1,[1,2,3]],"negative":[2],"strategy":"best_score","limit":3}"#),
            ),
            (
                "discover",
                text(r#"{"target":[1,2,3],"context":[{"positive":1,"negative":[3,2,1]}],"limit":3}"#),
            ),
            ("batch", text(&format!(r#"{{"searches":[{query},{query}]}}"#))),
            ("filter", text(filter)),
            (
                "filter_text",
                text(r#"(lang = "en" AND b.c >= 2.5) OR NOT tags IN [1, 'b'] AND COUNT(x[]) WITHIN [1, 3)"#),
            ),
            ("lines", text(&format!("{point}\n\n{point}\r\n"))),
            ("query_lines", text(&format!("{query}\n{query}"))),
            ("id_lines", text("1\n\"two\"\n")),
            ("arrow", sample("points.arrow")),
            ("arrow", sample("points_zstd.arrow")),
            ("arrow", sample("points_lz4.arrow")),
            ("parquet", sample("points.parquet")),
            ("parquet", sample("points_zstd.parquet")),
            ("gzip", gzip.finish().expect("packed")),
            ("zstd", zstd::encode_all(&b"some text that is packed, packed, packed"[..], 3).expect("packed")),
            ("parameters", text("wait=true&timeout=0.5&k=3")),
            ("media", text("application/json;q=0.5, */*;q=0.1, gzip")),
        ]
    }

    /// Numbers from a seed (SplitMix64).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed >> 33) as usize % limit.max(1)
        }

        /// Bytes changed, put in, taken out, repeated.
        fn mutate(&mut self, bytes: &mut Vec<u8>) {
            const TOKENS: [&[u8]; 14] = [
                b"null",
                b"-1",
                b"1e999",
                b"\"",
                b"[",
                b"]",
                b"{",
                b"}",
                b",",
                b"\\u0000",
                b"\xff",
                b"\n",
                b"18446744073709551616",
                b"true",
            ];
            let place = self.below(bytes.len() + 1);
            match self.below(5) {
                0 if place < bytes.len() => bytes[place] ^= 1 << self.below(8),
                1 => {
                    let token = TOKENS[self.below(TOKENS.len())];
                    bytes.splice(place..place, token.iter().copied());
                }
                2 => {
                    let end = (place + 1 + self.below(8)).min(bytes.len());
                    bytes.drain(place.min(end)..end);
                }
                3 => {
                    let end = (place + self.below(30)).min(bytes.len());
                    let again = bytes[place.min(end)..end].to_vec();
                    bytes.splice(place..place, again);
                }
                _ => bytes.truncate(place),
            }
        }
    }

    /// A refusal has a code, is the client's fault, and says where: in the body, in a parameter, or in words.
    fn check_refusal(decoder: &str, refusal: &Value) {
        let status = refusal["status"].as_u64().expect("a status");
        assert!((400..500).contains(&status), "{decoder}: {refusal}");
        assert!(refusal["code"].as_str().is_some_and(|code| !code.is_empty()), "{decoder}: {refusal}");
        let fault = &refusal["errors"][0];
        let detail = refusal["detail"].as_str().expect("a detail");
        let has_place = fault["pointer"].is_string() || fault["parameter"].is_string();
        let is_told =
            detail.contains("column") || detail.contains("the body") || detail.contains("query string");
        assert!(has_place || is_told, "{decoder} does not say where: {refusal}");
    }

    #[test]
    fn every_decoder_survives_mutations() {
        const MUTANTS: usize = 400;
        let valid = valid();
        let mut numbers = Numbers(20_261);
        std::panic::set_hook(Box::new(|_| {}));
        for (name, decode) in DECODERS {
            let bodies: Vec<_> = valid.iter().filter(|(own, _)| *own == name).collect();
            assert!(!bodies.is_empty(), "{name} has no valid body to begin with");
            let mut refused = 0;
            for (_, body) in bodies {
                assert_eq!(decode(body), Ok(()), "{name}");
                for _ in 0..MUTANTS {
                    let mut body = body.clone();
                    (0..=numbers.below(3)).for_each(|_| numbers.mutate(&mut body));
                    if let Err(refusal) = decode(&body) {
                        check_refusal(name, &refusal);
                        refused += 1;
                    }
                }
            }
            assert!(refused > MUTANTS / 4 || name == "media", "{name} refused {refused}");
        }
        _ = std::panic::take_hook();
    }
}
