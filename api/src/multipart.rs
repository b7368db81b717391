//! The file in a `multipart/form-data` body (RFC 7578), read as it arrives: of the form's one part, nothing but the
//! end of what came is held.

use actix_web::http::header::{CONTENT_TYPE, HeaderMap};

use crate::errors::{BODY_INCOMPLETE, INVALID_VALUE, WRONG_CONTENT_TYPE};
use crate::problem::Problem;

/// The longest boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// The headers of a part: a name, a file name and a type.
const HEADERS_BYTES_MAX: usize = 8192;

/// What a form must have.
const WANTED: &str = "multipart/form-data with one file, of the name `snapshot`";

/// Reads a form with one file.
#[derive(Debug)]
pub(crate) struct FormFile {
    /// A line break, two hyphens, and the boundary.
    delimiter: Vec<u8>,
    /// What came and is not understood yet.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Headers,
    Content,
    After,
}

impl FormFile {
    /// A reader for a body with these headers.
    pub(crate) fn new(headers: &HeaderMap) -> Result<FormFile, Problem> {
        let found = headers.get(CONTENT_TYPE).map_or("none", |value| value.to_str().unwrap_or("no text"));
        let refused = || {
            let detail = format!("the content type is {found}, wanted {WANTED}");
            Problem::new(WRONG_CONTENT_TYPE, detail).wanted("multipart/form-data").found(found)
        };
        let mut parts = found.split(';').map(str::trim);
        let is_form = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("multipart/form-data"));
        let boundary = parts.find_map(|part| parameter(part, "boundary")).unwrap_or_default();
        if !is_form || boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
            return Err(refused());
        }
        // The first boundary needs no line break before it.
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        Ok(FormFile { delimiter, held: b"\r\n".to_vec(), state: State::Before })
    }

    /// Takes what came, and appends what it has of the file.
    pub(crate) fn push(&mut self, chunk: &[u8], file: &mut Vec<u8>) -> Result<(), Problem> {
        self.held.extend_from_slice(chunk);
        loop {
            let goes_on = match self.state {
                State::Before => self.boundary(&mut Vec::new(), State::Headers)?,
                State::Headers => self.headers()?,
                State::Content => self.boundary(file, State::After)?,
                State::After => {
                    self.held.clear();
                    false
                }
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// The end of the body.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        if self.state == State::After {
            return Ok(());
        }
        Err(Problem::new(
            BODY_INCOMPLETE,
            format!("the form ended before its last boundary, wanted {WANTED}"),
        ))
    }

    /// Moves what is before the next boundary to `before`; tells whether the boundary was found.
    fn boundary(&mut self, before: &mut Vec<u8>, next: State) -> Result<bool, Problem> {
        let Some(start) = find(&self.held, &self.delimiter) else {
            // The end may be the beginning of a boundary.
            let known = self.held.len().saturating_sub(self.delimiter.len() - 1);
            before.extend(self.held.drain(..known));
            return Ok(false);
        };
        before.extend(self.held.drain(..start));
        let end = self.delimiter.len();
        let Some(after) = self.held.get(end..end + 2) else { return Ok(false) };
        let wanted = if next == State::Headers { b"\r\n" } else { b"--" };
        if after != wanted {
            let detail = format!("the form has no file, or something beside it: wanted {WANTED}");
            return Err(Problem::new(INVALID_VALUE, detail).wanted(WANTED));
        }
        self.held.drain(..end + 2);
        self.state = next;
        Ok(true)
    }

    fn headers(&mut self) -> Result<bool, Problem> {
        let refused = |found: &str| {
            let detail = format!("the part of the form has {found}, wanted {WANTED}");
            Err(Problem::new(INVALID_VALUE, detail).wanted(WANTED).found(found))
        };
        let Some(length) = find(&self.held, b"\r\n\r\n") else {
            if self.held.len() > HEADERS_BYTES_MAX {
                return refused("no end of its headers");
            }
            return Ok(false);
        };
        let headers: Vec<u8> = self.held.drain(..length + 4).collect();
        let headers = String::from_utf8_lossy(&headers);
        let is_the_file =
            headers.split("\r\n").filter_map(|line| line.split_once(':')).any(|(name, value)| {
                name.eq_ignore_ascii_case("content-disposition")
                    && value.split(';').any(|part| parameter(part.trim(), "name") == Some("snapshot"))
            });
        if !is_the_file {
            return refused("another name");
        }
        self.state = State::Content;
        Ok(true)
    }
}

/// The value of `name=value` or `name="value"`.
fn parameter<'a>(part: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = part.split_once('=')?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_matches('"'))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|&byte| byte == first) {
        if bytes[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    const HEAD: &str = "--B7\r\nContent-Disposition: form-data; name=\"snapshot\"; filename=\"x\"\r\n\r\n";

    fn form(kind: &str) -> Result<FormFile, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).expect("a header"));
        FormFile::new(&headers)
    }

    fn read(body: &[u8], piece: usize) -> Result<Vec<u8>, Problem> {
        let (mut form, mut file) = (form("multipart/form-data; boundary=B7")?, Vec::new());
        for chunk in body.chunks(piece) {
            form.push(chunk, &mut file)?;
            assert!(form.held.len() <= HEADERS_BYTES_MAX + piece, "nothing is gathered");
        }
        form.finish().map(|()| file)
    }

    #[test]
    fn a_file_is_what_it_was_however_it_is_cut() {
        let contents: [&[u8]; 6] = [b"", b"x", b"\r\n", b"\r\n--B\r\n--", b"--B7--", &[b'\r'; 3000]];
        for content in contents {
            for (start, end) in [("", "--"), ("a preamble\r\n", "--\r\nan epilogue")] {
                let body = [start.as_bytes(), HEAD.as_bytes(), content, b"\r\n--B7", end.as_bytes()].concat();
                for piece in [1, 2, 3, 7, 64, 10_000] {
                    assert_eq!(read(&body, piece).expect("a form"), content, "{content:?} by {piece}");
                }
            }
        }
    }

    #[test]
    fn a_form_that_is_cut_off_or_has_something_else_is_refused() {
        let body = [HEAD.as_bytes(), b"content\r\n--B7--"].concat();
        for cut in 0..body.len() {
            assert_eq!(read(&body[..cut], 5).expect_err("cut off").status(), 400, "{cut}");
        }
        for bad in [
            format!("{HEAD}a\r\n--B7\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\nc\r\n--B7--"),
            HEAD.replace("snapshot", "other"),
            "--B7\r\n\r\n\r\nx\r\n--B7--".to_owned(),
            "--B7--\r\n".to_owned(),
            format!("--B7\r\n{}", "x".repeat(2 * HEADERS_BYTES_MAX)),
        ] {
            assert_eq!(read(bad.as_bytes(), 100).expect_err("refused").status(), 422, "{bad}");
        }
    }

    #[test]
    fn another_type_is_refused() {
        form("Multipart/Form-Data; charset=x; boundary=\"a b\"").expect("a form");
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        for bad in [
            "application/json",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=B",
            &long,
        ] {
            assert_eq!(form(bad).expect_err("refused").status(), 415, "{bad}");
        }
    }
}
