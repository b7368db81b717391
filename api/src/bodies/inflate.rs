//! Compressed bodies, unfolded as they arrive and stopped where they unfold to too much.

use std::io::{self, Write};

use actix_web::http::header::{CONTENT_ENCODING, HeaderMap};
use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use crate::errors::{BAD_COMPRESSION, BODY_TOO_LARGE, WRONG_CONTENT_ENCODING};
use crate::problem::Problem;

/// A body may unfold to so many times its size. Vectors as text come to 3, text that repeats itself to 30.
const RATIO_MAX: u64 = 200;

/// What a body may unfold to whatever its size.
const FREE_BYTES: u64 = 1024 * 1024;

/// The logarithm of the largest window that zstd may look back on, which is memory set aside: that of RFC 9659.
const WINDOW_LOG_MAX: u32 = 23;

/// Bytes that zstd is asked for at a time.
const STEP_BYTES: usize = 64 * 1024;

/// The encodings that are taken.
const TAKEN: &str = "gzip, zstd, identity";

/// The first byte of a body in gzip (RFC 1952).
const GZIP_FIRST: u8 = 0x1f;

/// Of one in zstd (RFC 8878): of a frame, and of one to pass over, which has any low digit.
const ZSTD_FIRST: u8 = 0x28;
const ZSTD_SKIPPED_FIRST: u8 = 0x50;

/// Turns the chunks of a body into what they stand for.
pub(crate) struct Inflater {
    coding: Coding,
    received: u64,
    produced: u64,
    first: Option<u8>,
}

enum Coding {
    Identity,
    Gzip(Box<MultiGzDecoder<Sink>>),
    Zstd {
        decoder: Decoder<'static>,
        /// Whether the last byte received ended a frame.
        is_whole: bool,
    },
}

/// Takes no more than there is room for.
#[derive(Debug, Default)]
struct Sink {
    bytes: Vec<u8>,
    room: u64,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.room.checked_sub(bytes.len() as u64);
        self.room = left.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Inflater {
    /// By the encoding that the headers of a request name.
    pub(crate) fn new(headers: &HeaderMap) -> Result<Inflater, Problem> {
        let value = headers.get(CONTENT_ENCODING);
        let found = value.map_or("identity", |value| value.to_str().unwrap_or("one that is not text")).trim();
        let coding = if found.is_empty() || found.eq_ignore_ascii_case("identity") {
            Coding::Identity
        } else if found.eq_ignore_ascii_case("gzip") || found.eq_ignore_ascii_case("x-gzip") {
            Coding::Gzip(Box::new(MultiGzDecoder::new(Sink::default())))
        } else if found.eq_ignore_ascii_case("zstd") {
            let mut decoder = Decoder::new().map_err(|error| damaged(&error))?;
            let window = DParameter::WindowLogMax(WINDOW_LOG_MAX);
            decoder.set_parameter(window).map_err(|error| damaged(&error))?;
            Coding::Zstd { decoder, is_whole: false }
        } else {
            let detail = format!("the content encoding is {found}, wanted one of {TAKEN}");
            return Err(Problem::new(WRONG_CONTENT_ENCODING, detail).wanted(TAKEN).found(found));
        };
        Ok(Inflater { coding, received: 0, produced: 0, first: None })
    }

    /// Whether chunks stand for themselves.
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self.coding, Coding::Identity)
    }

    /// Appends what a chunk stands for to `out`, which may grow by `room` bytes.
    pub(crate) fn push(&mut self, chunk: &[u8], room: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        self.received = self.received.saturating_add(chunk.len() as u64);
        self.first = self.first.or(chunk.first().copied());
        let by_ratio = FREE_BYTES.saturating_add(self.received.saturating_mul(RATIO_MAX));
        let may_unfold = by_ratio.saturating_sub(self.produced);
        let most = may_unfold.min(room as u64);
        let (start, before) = (self.produced, out.len());
        let outcome = match &mut self.coding {
            Coding::Identity if chunk.len() <= room => {
                out.extend_from_slice(chunk);
                Ok(())
            }
            Coding::Identity => Err(io::ErrorKind::StorageFull.into()),
            Coding::Gzip(decoder) => {
                *decoder.get_mut() = Sink { bytes: std::mem::take(out), room: most };
                let outcome = decoder.write_all(chunk).and_then(|()| decoder.flush());
                *out = std::mem::take(decoder.get_mut()).bytes;
                outcome
            }
            Coding::Zstd { decoder, is_whole } => unpack(decoder, is_whole, chunk, most, out),
        };
        self.produced = self.produced.saturating_add((out.len() - before) as u64);
        outcome.map_err(|error| match error.kind() == io::ErrorKind::StorageFull {
            true if room as u64 <= may_unfold => too_large(start.saturating_add(room as u64)),
            true => self.bomb(),
            false => damaged(&error),
        })
    }

    /// Checks that the body ended where its encoding ends, and appends what was held back.
    pub(crate) fn finish(&mut self, room: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        let first = self.first.unwrap_or_default();
        match &mut self.coding {
            Coding::Identity => Ok(()),
            // An empty body is a matter of its type.
            _ if self.received == 0 => Ok(()),
            Coding::Zstd { is_whole: true, .. } => Ok(()),
            Coding::Zstd { .. } => {
                Err(cut_off("zstd", first == ZSTD_FIRST || first & 0xf0 == ZSTD_SKIPPED_FIRST))
            }
            Coding::Gzip(decoder) => {
                *decoder.get_mut() = Sink { bytes: std::mem::take(out), room: room as u64 };
                let outcome = decoder.try_finish();
                *out = std::mem::take(decoder.get_mut()).bytes;
                let is_full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
                outcome.map_err(|error| match is_full(&error) {
                    true => too_large(self.produced.saturating_add(room as u64)),
                    false => cut_off("gzip", first == GZIP_FIRST),
                })
            }
        }
    }

    fn bomb(&self) -> Problem {
        let received = self.received;
        let detail = format!(
            "the first {received} bytes of the body unfold to more than {RATIO_MAX} times as many: \
             send such data in another form"
        );
        Problem::new(BODY_TOO_LARGE, detail).wanted(format_args!("at most {RATIO_MAX} times its size"))
    }
}

fn unpack(
    decoder: &mut Decoder<'static>,
    is_whole: &mut bool,
    chunk: &[u8],
    mut most: u64,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let mut input = InBuffer::around(chunk);
    let mut step = vec![0; STEP_BYTES];
    loop {
        let mut output = OutBuffer::around(step.as_mut_slice());
        let hint = decoder.run(&mut input, &mut output)?;
        let made = output.as_slice();
        most =
            most.checked_sub(made.len() as u64).ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        out.extend_from_slice(made);
        *is_whole = hint == 0;
        // A full step may have left more behind, unless it ended a frame.
        if input.pos() == chunk.len() && (*is_whole || made.len() < STEP_BYTES) {
            return Ok(());
        }
    }
}

fn too_large(limit: u64) -> Problem {
    let detail = format!("the body unfolds to more than {limit} bytes, the limit: send it in parts");
    Problem::new(BODY_TOO_LARGE, detail).wanted(format_args!("at most {limit} bytes"))
}

fn damaged(error: &io::Error) -> Problem {
    Problem::new(BAD_COMPRESSION, format!("the body cannot be decompressed: {error}"))
}

/// What came is no whole of its encoding, or nothing of it.
fn cut_off(coding: &str, begins_well: bool) -> Problem {
    let reason = match begins_well {
        true => "it was cut off, or its checksum does not fit",
        false => "it does not begin as such a body does",
    };
    Problem::new(BAD_COMPRESSION, format!("the body cannot be decompressed as {coding}: {reason}"))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn inflater(coding: &'static str) -> Inflater {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        Inflater::new(&headers).expect("an encoding that is taken")
    }

    fn packed(coding: &str, bytes: &[u8]) -> Vec<u8> {
        match coding {
            "gzip" => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).expect("written");
                encoder.finish().expect("ended")
            }
            "zstd" => zstd::encode_all(bytes, 3).expect("packed"),
            _ => bytes.to_vec(),
        }
    }

    fn unfolded(coding: &'static str, body: &[u8], step: usize, limit: usize) -> Result<Vec<u8>, Problem> {
        let mut inflater = inflater(coding);
        let mut out = Vec::new();
        for chunk in body.chunks(step) {
            let room = limit - out.len();
            inflater.push(chunk, room, &mut out)?;
        }
        let room = limit - out.len();
        inflater.finish(room, &mut out)?;
        Ok(out)
    }

    #[test]
    fn what_was_packed_comes_back_whatever_the_chunks() {
        let text: Vec<u8> = (0..300_000u64).flat_map(|i| (i * i % 1009).to_string().into_bytes()).collect();
        for coding in ["identity", "gzip", "zstd"] {
            let twice = [packed(coding, &text), packed(coding, b"and more")].concat();
            let wanted = [&text[..], b"and more"].concat();
            for step in [1, 7, 4096, usize::MAX] {
                let found = unfolded(coding, &twice, step, wanted.len()).expect("unfolded");
                assert!(found == wanted, "{coding} by {step}");
            }
            let refused = unfolded(coding, &twice, 4096, wanted.len() - 1).expect_err("no room");
            assert_eq!(refused.status(), 413, "{coding}");
        }
    }

    #[test]
    fn a_body_cut_off_is_refused() {
        for coding in ["gzip", "zstd"] {
            let whole = packed(coding, b"some text that is packed");
            for cut in 1..whole.len() {
                let refused = unfolded(coding, &whole[..cut], 5, 1000).expect_err("cut off");
                assert_eq!(refused.status(), 400, "{coding} cut at {cut}");
                assert!(refused.detail().contains("cut off"), "{coding} cut at {cut}: {refused:?}");
            }
            for other in [&b"x"[..], b"xxx", b"{}"] {
                let refused = unfolded(coding, other, 5, 1000).expect_err("not packed");
                let told = ["does not begin", "Unknown frame descriptor"];
                assert!(told.iter().any(|it| refused.detail().contains(it)), "{coding}: {refused:?}");
            }
            assert!(unfolded(coding, &[&whole[..], b"rubbish"].concat(), 5, 1000).is_err(), "{coding}");
            assert!(unfolded(coding, b"not packed", 3, 1000).is_err(), "{coding}");
        }
    }

    #[test]
    fn a_bomb_is_stopped_as_it_unfolds() {
        let zeros = vec![0; 64 * 1024 * 1024];
        for coding in ["gzip", "zstd"] {
            let bomb = packed(coding, &zeros);
            let mut inflater = inflater(coding);
            let mut out = Vec::new();
            let refused = inflater.push(&bomb, usize::MAX, &mut out).expect_err("a bomb");
            assert_eq!(refused.status(), 413, "{coding}");
            let most = 1024 * 1024 + 200 * bomb.len();
            assert!(out.len() <= most, "{coding}: {} of {most}", out.len());
        }
    }
}
