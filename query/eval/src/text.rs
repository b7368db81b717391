//! Lines and fields of untrusted files of runs and judgements, and what is said about the wrong ones.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

/// How many characters of a wrong text an error repeats: enough to recognise it, and a file
/// that is one long line still makes a short message.
pub const FOUND_CHARS_MAX: usize = 60;

/// A line holds a few ids and numbers: what is longer is another kind of file.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// A field of a line of a run or of judgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The id of the query.
    Query,
    /// The second field of TREC's judgements: unused, by tradition 0.
    Iter,
    /// The second field of TREC's runs: unused, by tradition Q0.
    Q0,
    /// The id of the document.
    Document,
    /// An integer: how relevant the document is.
    Relevance,
    /// Where the document stands, from 1.
    Rank,
    /// What documents are ordered by, larger first.
    Score,
    /// The last field of TREC's runs: the name of the system.
    Tag,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Field::Query => "query",
            Field::Iter => "iter",
            Field::Q0 => "Q0",
            Field::Document => "document",
            Field::Relevance => "relevance",
            Field::Rank => "rank",
            Field::Score => "score",
            Field::Tag => "tag",
        })
    }
}

/// Where in its input a value stands, counted as people count there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of a text file, from 1.
    Line(u64),
    /// A number of a JSON file, from 1.
    Entry(u64),
    /// A row of a list or of a table, from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Entry(entry) => write!(f, "entry {entry}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// A place after the name of its file: lines as compilers have them.
struct After(Place);

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::Line(line) => write!(f, ":{line}"),
            Place::Entry(_) | Place::Row(_) => write!(f, ": {}", self.0),
        }
    }
}

/// Why a file is no run or no judgements. Every variant names the file, and where it can the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The bytes could not be read.
    #[error("{file}: {reason}")]
    Io {
        /// The name given to the bytes.
        file: String,
        /// What the reader said.
        reason: String,
    },
    /// Nothing is in it.
    #[error("{file}: wanted at least one line `{form}`, found none")]
    Empty {
        /// The name given to the text.
        file: String,
        /// The form of a line.
        form: &'static str,
    },
    /// A line that is no text of UTF-8, or too long for one of a run or of judgements.
    #[error("{file}:{line}: wanted {wanted}")]
    Line {
        /// The name given to the text.
        file: String,
        /// The line.
        line: u64,
        /// What a line can be.
        wanted: String,
    },
    /// A line ends too early.
    #[error("{file}:{line}: field {field}: wanted `{form}`, found the end of the line")]
    MissingField {
        /// The name given to the text.
        file: String,
        /// The line.
        line: u64,
        /// The first field that is missing.
        field: Field,
        /// The form of a line.
        form: &'static str,
    },
    /// A line goes on after its last field.
    #[error("{file}:{line}: after field {field}: wanted the end of the line, found {found:?}")]
    ExtraField {
        /// The name given to the text.
        file: String,
        /// The line.
        line: u64,
        /// The last field.
        field: Field,
        /// The field after it, cut to [`FOUND_CHARS_MAX`].
        found: String,
    },
    /// A field has a value that it cannot have.
    #[error("{file}{}: field {field}: wanted {wanted}, found {found:?}", After(*place))]
    Value {
        /// The name given to the text.
        file: String,
        /// Where.
        place: Place,
        /// The field.
        field: Field,
        /// The values it can have.
        wanted: String,
        /// The field, cut to [`FOUND_CHARS_MAX`].
        found: String,
    },
    /// A document is judged twice for one query, differently.
    #[error(
        "{file}{}: field {}: query {query:?}, document {document:?}: \
         wanted {wanted} as in {first}, found {found}",
        After(*place), Field::Relevance
    )]
    Conflict {
        /// The name given to the text.
        file: String,
        /// Where the second judgement is.
        place: Place,
        /// The query, cut to [`FOUND_CHARS_MAX`].
        query: String,
        /// The document, cut to [`FOUND_CHARS_MAX`].
        document: String,
        /// Where the first judgement is.
        first: Place,
        /// The relevance in the first.
        wanted: i32,
        /// The relevance in the second.
        found: i32,
    },
    /// A document stands twice in the list of one query.
    #[error(
        "{file}{}: field {}: query {query:?}: wanted a document once, found {document:?} \
         in {first} already",
        After(*place), Field::Document
    )]
    Repeated {
        /// The name given to the text.
        file: String,
        /// Where the second is.
        place: Place,
        /// The query, cut to [`FOUND_CHARS_MAX`].
        query: String,
        /// The document, cut to [`FOUND_CHARS_MAX`].
        document: String,
        /// Where the first is.
        first: Place,
    },
    /// It is no JSON of the form `{"query": {"document": number}}`.
    #[error("{file}: wanted {form}: {reason}")]
    Json {
        /// The name given to the text.
        file: String,
        /// The form.
        form: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
}

pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(FOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A file of lines, or of one JSON value.
pub(crate) enum Content<R> {
    Lines(Lines<R>),
    Json(BufReader<R>),
}

/// Looks at the first byte that says something: JSON begins with a brace, which no id of a query does here.
pub(crate) fn open<R: Read>(name: &str, input: R) -> Result<Content<R>, InputError> {
    let failed = |error: io::Error| InputError::Io { file: name.to_owned(), reason: error.to_string() };
    let mut input = BufReader::new(input);
    let mut line = 1;
    loop {
        let bytes = input.fill_buf().map_err(failed)?;
        let blank = bytes.iter().take_while(|byte| b" \t\r\n\xef\xbb\xbf".contains(byte)).count();
        // A byte order mark is the only one of these that a JSON reader would refuse.
        if bytes.get(blank) == Some(&b'{') {
            input.consume(blank);
            return Ok(Content::Json(input));
        }
        let passed = bytes[..blank].iter().filter(|&&byte| byte == b'\n').count();
        let (is_all, is_none) = (blank == bytes.len(), bytes.is_empty());
        if is_all && !is_none {
            line += passed as u64;
            input.consume(blank);
            continue;
        }
        return Ok(Content::Lines(Lines { file: name.to_owned(), input, line, buffer: Vec::new() }));
    }
}

/// The lines that say something, one by one.
pub(crate) struct Lines<R> {
    pub(crate) file: String,
    input: BufReader<R>,
    // INVARIANT: the number of the line that is read next.
    line: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The next line that is neither blank nor a comment, with its number.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>, InputError> {
        let line = loop {
            self.buffer.clear();
            let mut limited = (&mut self.input).take(LINE_BYTES_MAX as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.buffer);
            let read =
                read.map_err(|error| InputError::Io { file: self.file.clone(), reason: error.to_string() })?;
            if read == 0 {
                return Ok(None);
            }
            let line = self.line;
            self.line += 1;
            let refused = |wanted: String| InputError::Line { file: self.file.clone(), line, wanted };
            if read > LINE_BYTES_MAX {
                return Err(refused(format!("at most {LINE_BYTES_MAX} bytes in a line")));
            }
            let text = std::str::from_utf8(&self.buffer).map_err(|_| refused("text in UTF-8".to_owned()))?;
            let first = trimmed(text).trim_start_matches([' ', '\t']).chars().next();
            if first.is_some_and(|first| first != '#') {
                break line;
            }
        };
        let text = std::str::from_utf8(&self.buffer).map_err(|_| InputError::Line {
            file: self.file.clone(),
            line,
            wanted: "text in UTF-8".to_owned(),
        })?;
        Ok(Some((line, trimmed(text))))
    }
}

/// Files put together with `cat` have a byte order mark at the start of any line, and a truncated CRLF leaves a lone
/// CR. Kept, either would become part of an id or a number.
fn trimmed(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}')
}

/// What separates the fields of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    /// Any number of spaces and tabs.
    Blanks,
    /// One tab, so that ids may have spaces.
    Tab,
}

/// The fields of a line, taken one by one.
pub(crate) struct Fields<'text> {
    file: &'text str,
    line: u64,
    form: &'static str,
    rest: Option<&'text str>,
    separator: Separator,
    last: Field,
}

impl<'text> Fields<'text> {
    pub(crate) fn new(
        (file, line): (&'text str, u64),
        text: &'text str,
        separator: Separator,
        form: &'static str,
    ) -> Fields<'text> {
        Fields { file, line, form, rest: Some(text), separator, last: Field::Query }
    }

    fn take(&mut self) -> Option<&'text str> {
        let rest = self.rest.take()?;
        match self.separator {
            Separator::Tab => {
                let (field, rest) =
                    rest.split_once('\t').map_or((rest, None), |(field, rest)| (field, Some(rest)));
                self.rest = rest;
                Some(field.trim_matches(' ')).filter(|field| !field.is_empty() || self.rest.is_some())
            }
            Separator::Blanks => {
                let rest = rest.trim_start_matches([' ', '\t']);
                let end = rest.find([' ', '\t']).unwrap_or(rest.len());
                self.rest = Some(&rest[end..]).filter(|rest| !rest.is_empty());
                Some(&rest[..end]).filter(|field| !field.is_empty())
            }
        }
    }

    /// The next field, which must be there.
    pub(crate) fn next(&mut self, field: Field) -> Result<&'text str, InputError> {
        self.last = field;
        match self.take() {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) | None => Err(InputError::MissingField {
                file: self.file.to_owned(),
                line: self.line,
                field,
                form: self.form,
            }),
        }
    }

    /// The next field as a value.
    pub(crate) fn value<T>(
        &mut self,
        field: Field,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InputError> {
        let text = self.next(field)?;
        read(text).ok_or_else(|| InputError::Value {
            file: self.file.to_owned(),
            place: Place::Line(self.line),
            field,
            wanted: wanted.to_owned(),
            found: excerpt(text),
        })
    }

    /// After the last field nothing may follow.
    pub(crate) fn end(mut self) -> Result<(), InputError> {
        match self.take() {
            None => Ok(()),
            Some(found) => Err(InputError::ExtraField {
                file: self.file.to_owned(),
                line: self.line,
                field: self.last,
                found: excerpt(found),
            }),
        }
    }
}

/// Whether a line is the header of a table of three columns, as BEIR writes it: `query-id`, `corpus-id`, `score`.
pub(crate) fn is_header(line: &str) -> bool {
    let mut names = line.split('\t').map(|name| name.trim().to_ascii_lowercase().replace(['-', ' '], "_"));
    let mut is_one_of = |known: &[&str]| names.next().is_some_and(|name| known.contains(&name.as_str()));
    is_one_of(&["query_id", "qid", "q_id", "query"])
        && is_one_of(&["corpus_id", "doc_id", "docid", "document_id", "docno", "document", "doc"])
        && is_one_of(&["score", "relevance", "rel", "label"])
        && names.next().is_none()
}
