//! Relevance judgements ("qrels"), parsed strictly from TREC text.

use std::collections::HashMap;
use std::fmt;

/// How many characters of a wrong text an error repeats: enough to recognise it, and a file
/// that is one long line still makes a short message.
pub const FOUND_CHARS_MAX: usize = 60;

/// Which documents are relevant to which queries, and how much.
///
/// The format is that of `trec_eval`: lines of four fields, `query iter document relevance`,
/// separated by spaces or tabs. `iter` is ignored. The relevance is an integer: a positive one
/// is the document's gain, 0 or a negative one means judged, but not relevant. Accepted too: a
/// byte order mark, CRLF, blank lines, and comment lines, which start with `#` (so no query id
/// does). The same judgement may be repeated; two judgements of one pair that differ are
/// refused, as evaluators disagree about which of them wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qrels {
    queries: Vec<JudgedQuery>,
    // INVARIANT: maps the id of each query to its index in `queries`, and holds nothing else.
    positions: HashMap<String, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct JudgedQuery {
    id: String,
    relevant: Vec<(String, u32)>,
    not_relevant: Vec<(String, i32)>,
}

/// A field of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The first: the id of the query.
    Query,
    /// The second: unused, by tradition 0.
    Iter,
    /// The third: the id of the document.
    Document,
    /// The fourth: an integer.
    Relevance,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Field::Query => "query",
            Field::Iter => "iter",
            Field::Document => "document",
            Field::Relevance => "relevance",
        })
    }
}

/// Why a text is not a file of judgements. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QrelsError {
    /// The text holds no judgement at all.
    #[error("{file}: wanted at least one line `query iter document relevance`, found none")]
    Empty {
        /// The name given to the text.
        file: String,
    },
    /// A line ends too early.
    #[error(
        "{file}:{line}: field {field}: wanted `query iter document relevance`, found the end of the line"
    )]
    MissingField {
        /// The name given to the text.
        file: String,
        /// The line.
        line: usize,
        /// The first field that is missing.
        field: Field,
    },
    /// A line goes on after its fourth field.
    #[error("{file}:{line}: after field relevance: wanted the end of the line, found {found:?}")]
    ExtraField {
        /// The name given to the text.
        file: String,
        /// The line.
        line: usize,
        /// The fifth field, cut to [`FOUND_CHARS_MAX`].
        found: String,
    },
    /// A relevance is not an integer of 32 bits.
    #[error(
        "{file}:{line}: field {}: wanted an integer from {} to {}, found {found:?}",
        Field::Relevance,
        i32::MIN,
        i32::MAX
    )]
    Relevance {
        /// The name given to the text.
        file: String,
        /// The line.
        line: usize,
        /// The field, cut to [`FOUND_CHARS_MAX`].
        found: String,
    },
    /// A document is judged twice for one query, differently.
    #[error(
        "{file}:{line}: field {}: query {query:?}, document {document:?}: \
         wanted {wanted} as in line {first_line}, found {found}",
        Field::Relevance
    )]
    Conflict {
        /// The name given to the text.
        file: String,
        /// The line of the second judgement.
        line: usize,
        /// The query, cut to [`FOUND_CHARS_MAX`].
        query: String,
        /// The document, cut to [`FOUND_CHARS_MAX`].
        document: String,
        /// The line of the first judgement.
        first_line: usize,
        /// The relevance in the first line.
        wanted: i32,
        /// The relevance in this line.
        found: i32,
    },
}

/// One line's judgement, borrowed from the text.
struct Judgement<'text> {
    query: &'text str,
    document: &'text str,
    relevance: i32,
}

impl Qrels {
    /// The judgements of `text`, whole or not at all; `name` is the file name for errors.
    pub fn parse(name: &str, text: &str) -> Result<Qrels, QrelsError> {
        let mut qrels = Qrels { queries: Vec::new(), positions: HashMap::new() };
        let mut seen: HashMap<(&str, &str), (usize, i32)> = HashMap::new();
        for (line, content) in (1..).zip(text.lines()) {
            let Some(judgement) = parse_line(name, line, content)? else { continue };
            let pair = (judgement.query, judgement.document);
            match seen.insert(pair, (line, judgement.relevance)) {
                None => qrels.add(judgement),
                Some((_, relevance)) if relevance == judgement.relevance => {}
                Some(first) => return Err(conflict(name, line, &judgement, first)),
            }
        }
        match qrels.queries.is_empty() {
            true => Err(QrelsError::Empty { file: name.to_owned() }),
            false => Ok(qrels),
        }
    }

    /// The judgements of a list, each a query, a document and a relevance; `name` is what errors call the
    /// list, and their lines are places in it, from 0.
    pub fn of(name: &str, list: &[(String, String, i32)]) -> Result<Qrels, QrelsError> {
        let mut qrels = Qrels { queries: Vec::new(), positions: HashMap::new() };
        let mut seen: HashMap<(&str, &str), (usize, i32)> = HashMap::new();
        for (place, (query, document, relevance)) in list.iter().enumerate() {
            let judgement = Judgement { query, document, relevance: *relevance };
            match seen.insert((query, document), (place, *relevance)) {
                None => qrels.add(judgement),
                Some((_, first)) if first == *relevance => {}
                Some(first) => return Err(conflict(name, place, &judgement, first)),
            }
        }
        match qrels.queries.is_empty() {
            true => Err(QrelsError::Empty { file: name.to_owned() }),
            false => Ok(qrels),
        }
    }

    /// The ids of the judged queries, in the order of their first lines. At least one.
    pub fn queries(&self) -> impl ExactSizeIterator<Item = &str> {
        self.queries.iter().map(|query| query.id.as_str())
    }

    /// Whether the query has a judgement, be it only that a document is not relevant.
    pub fn contains(&self, query: &str) -> bool {
        self.positions.contains_key(query)
    }

    /// The documents relevant to the query with their gains, all positive, in the order of
    /// their first lines. Empty if the query is not judged.
    pub fn relevant(&self, query: &str) -> &[(String, u32)] {
        self.judged(query).map_or(&[], |query| &query.relevant)
    }

    /// The documents judged not relevant to the query with their relevance, 0 or negative, in
    /// the order of their first lines. Empty if the query is not judged.
    pub fn not_relevant(&self, query: &str) -> &[(String, i32)] {
        self.judged(query).map_or(&[], |query| &query.not_relevant)
    }

    fn judged(&self, query: &str) -> Option<&JudgedQuery> {
        self.positions.get(query).map(|&position| &self.queries[position])
    }

    fn add(&mut self, judgement: Judgement<'_>) {
        let Judgement { query, document, relevance } = judgement;
        let position = self.positions.get(query).copied().unwrap_or_else(|| {
            self.positions.insert(query.to_owned(), self.queries.len());
            self.queries.push(JudgedQuery { id: query.to_owned(), relevant: vec![], not_relevant: vec![] });
            self.queries.len() - 1
        });
        let judged = &mut self.queries[position];
        match relevance {
            1.. => judged.relevant.push((document.to_owned(), relevance.unsigned_abs())),
            ..=0 => judged.not_relevant.push((document.to_owned(), relevance)),
        }
    }
}

/// The judgement of a line, or `None` if the line is blank or a comment.
fn parse_line<'text>(
    name: &str,
    line: usize,
    content: &'text str,
) -> Result<Option<Judgement<'text>>, QrelsError> {
    // Files put together with `cat` have a byte order mark at the start of any line, and a
    // truncated CRLF leaves a lone CR. Kept, either would become part of an id or a number.
    let content = content.trim_start_matches('\u{feff}').trim_end_matches('\r');
    let mut fields = content.split([' ', '\t']).filter(|field| !field.is_empty()).peekable();
    if fields.peek().is_none_or(|first| first.starts_with('#')) {
        return Ok(None);
    }
    let mut next =
        |field| fields.next().ok_or(QrelsError::MissingField { file: name.to_owned(), line, field });
    let query = next(Field::Query)?;
    next(Field::Iter)?;
    let document = next(Field::Document)?;
    let relevance = next(Field::Relevance)?;
    if let Some(extra) = fields.next() {
        return Err(QrelsError::ExtraField { file: name.to_owned(), line, found: excerpt(extra) });
    }
    let relevance = relevance.parse().map_err(|_| QrelsError::Relevance {
        file: name.to_owned(),
        line,
        found: excerpt(relevance),
    })?;
    Ok(Some(Judgement { query, document, relevance }))
}

fn conflict(name: &str, line: usize, second: &Judgement<'_>, first: (usize, i32)) -> QrelsError {
    QrelsError::Conflict {
        file: name.to_owned(),
        line,
        query: excerpt(second.query),
        document: excerpt(second.document),
        first_line: first.0,
        wanted: first.1,
        found: second.relevance,
    }
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(FOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
