//! A run: what a system answered, as scored documents a query.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::Read;

use crate::json;
use crate::text::{Content, Field, Fields, InputError, Lines, Place, Separator, excerpt, is_header, open};

const TREC: &str = "query Q0 document rank score tag";
const TABLE: &str = "query<TAB>document<TAB>score";
const MARCO: &str = "query<TAB>document<TAB>rank";
const JSON: &str = r#"{"query": {"document": score}}"#;

/// A document in the list of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Its number: [`Run::document`] has its id.
    pub document: u32,
    /// Its score, which is not NaN; larger is better.
    pub score: f64,
}

/// What a system answered to queries: to each a list of documents with scores, ordered by score from the largest
/// down and where scores are equal by id, bytewise from the largest down, which is trec_eval's order. Ids are text,
/// never numbers: `7` and `07` are two documents. No list has a document twice, and no score is NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    queries: Vec<Answer>,
    // INVARIANT: maps the id of each query to its index in `queries`, and holds nothing else.
    positions: HashMap<String, usize>,
    documents: Vec<String>,
    // INVARIANT: maps the id of each document to its index in `documents`, and holds nothing else.
    numbers: HashMap<String, u32>,
}

#[derive(Debug, Clone, PartialEq)]
struct Answer {
    id: String,
    list: Vec<Scored>,
}

impl Run {
    /// Reads a run, whole or not at all; `name` is the file name for errors. The form is told by the content:
    ///
    /// * TREC: `query Q0 document rank score tag`, between blanks. The rank is ignored: the score orders.
    /// * MS MARCO: `query document rank`, between tabs or blanks. The score is the rank with a minus.
    /// * a table with a header line, `query-id`, `corpus-id` and `score` between tabs, as BEIR names them. Ids may
    ///   have spaces.
    /// * JSON `{"query": {"document": score}}`, as ranx writes it.
    ///
    /// Accepted too: a byte order mark, CRLF, blank lines, and comment lines, which start with `#`.
    ///
    /// # Errors
    /// For what [`InputError`] lists, a document twice in one list among them.
    pub fn read(name: &str, input: impl Read) -> Result<Run, InputError> {
        let mut builder = Builder::default();
        match open(name, input)? {
            Content::Lines(mut lines) => read_lines(&mut lines, &mut builder)?,
            Content::Json(input) => {
                let mut entries = Entries { builder: &mut builder, entry: 0 };
                json::read(input, &mut entries).map_err(|error| InputError::Json {
                    file: name.to_owned(),
                    form: JSON,
                    reason: error.to_string(),
                })?;
            }
        }
        builder.finish(name)
    }

    /// A run of rows, each a query, a document and a score; `name` is what errors call them, and their lines are
    /// numbers of rows, from 0.
    ///
    /// # Errors
    /// If there is no row, a score is NaN, an id is empty, or a document is twice in one list.
    pub fn of<'a>(
        name: &str,
        rows: impl IntoIterator<Item = (&'a str, &'a str, f64)>,
    ) -> Result<Run, InputError> {
        let mut builder = Builder::default();
        for (row, (query, document, score)) in (0..).map(Place::Row).zip(rows) {
            let refused = |field, wanted: &str, found: &str| InputError::Value {
                file: name.to_owned(),
                place: row,
                field,
                wanted: wanted.to_owned(),
                found: found.to_owned(),
            };
            if query.is_empty() {
                return Err(refused(Field::Query, "an id", query));
            }
            if document.is_empty() {
                return Err(refused(Field::Document, "an id", document));
            }
            if score.is_nan() {
                return Err(refused(Field::Score, "a number", "NaN"));
            }
            builder.add(query, document, score, row);
        }
        builder.finish(name)
    }

    /// The ids of the queries, in the order in which they came. At least one.
    pub fn queries(&self) -> impl ExactSizeIterator<Item = &str> {
        self.queries.iter().map(|query| query.id.as_str())
    }

    /// Whether the run has the query, be it with an empty list.
    pub fn contains(&self, query: &str) -> bool {
        self.positions.contains_key(query)
    }

    /// The documents of a query, best first; none if the run lacks the query.
    pub fn list(&self, query: &str) -> &[Scored] {
        self.positions.get(query).map_or(&[], |&position| &self.queries[position].list)
    }

    /// The ids of all documents in any list, by their numbers.
    pub fn documents(&self) -> &[String] {
        &self.documents
    }

    /// The id of a document of a list of this run.
    pub fn document(&self, scored: Scored) -> &str {
        &self.documents[scored.document as usize]
    }

    /// The number of a document, if any list has it.
    pub fn number(&self, document: &str) -> Option<u32> {
        self.numbers.get(document).copied()
    }

    /// The length of the longest list.
    pub fn depth(&self) -> usize {
        self.queries.iter().map(|query| query.list.len()).max().unwrap_or(0)
    }

    /// How often each document is among the first `k` of a list: N_k, by its number.
    pub fn occurrences(&self, k: usize) -> Vec<u32> {
        let mut counts = vec![0; self.documents.len()];
        for scored in self.queries.iter().flat_map(|query| query.list.iter().take(k)) {
            counts[scored.document as usize] += 1;
        }
        counts
    }

    /// The same scores with documents asking for queries, if that is known: every list must have every document.
    pub fn transposed(&self) -> Option<Run> {
        if self.queries.iter().any(|query| query.list.len() != self.documents.len()) {
            return None;
        }
        let mut builder = Builder::default();
        for query in &self.queries {
            for scored in &query.list {
                builder.add(self.document(*scored), &query.id, scored.score, Place::Row(0));
            }
        }
        Some(builder.sorted())
    }

    /// The same without the document of each list that has the id of its query, and how many lists had one.
    pub fn without_self(mut self) -> (Run, usize) {
        let mut left_out = 0;
        for query in &mut self.queries {
            let Some(own) = self.numbers.get(&query.id).copied() else { continue };
            let before = query.list.len();
            query.list.retain(|scored| scored.document != own);
            left_out += before - query.list.len();
        }
        (self, left_out)
    }
}

fn read_lines<R: Read>(lines: &mut Lines<R>, builder: &mut Builder) -> Result<(), InputError> {
    let file = lines.file.clone();
    let mut form = None;
    while let Some((line, text)) = lines.next()? {
        let form = match form {
            Some(form) => form,
            None => {
                let found = Form::of(text);
                form = Some(found);
                if found == Form::Table {
                    continue;
                }
                found
            }
        };
        let at = (file.as_str(), line);
        let (query, document, score) = match form {
            Form::Trec => trec(Fields::new(at, text, Separator::Blanks, TREC))?,
            Form::Table => table(Fields::new(at, text, Separator::Tab, TABLE))?,
            Form::Marco(separator) => marco(Fields::new(at, text, separator, MARCO))?,
        };
        builder.add(query, document, score, Place::Line(line));
    }
    Ok(())
}

/// The form of a file of lines, by its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Trec,
    Table,
    Marco(Separator),
}

impl Form {
    fn of(first: &str) -> Form {
        if is_header(first) {
            return Form::Table;
        }
        let blanks = first.split([' ', '\t']).filter(|field| !field.is_empty()).count();
        match (blanks, first.split('\t').count()) {
            (_, 3) => Form::Marco(Separator::Tab),
            (3, _) => Form::Marco(Separator::Blanks),
            _ => Form::Trec,
        }
    }
}

type Line<'text> = (&'text str, &'text str, f64);

fn trec(mut fields: Fields<'_>) -> Result<Line<'_>, InputError> {
    let query = fields.next(Field::Query)?;
    fields.next(Field::Q0)?;
    let document = fields.next(Field::Document)?;
    fields.next(Field::Rank)?;
    let score = score(&mut fields)?;
    fields.next(Field::Tag)?;
    fields.end()?;
    Ok((query, document, score))
}

fn table(mut fields: Fields<'_>) -> Result<Line<'_>, InputError> {
    let (query, document) = (fields.next(Field::Query)?, fields.next(Field::Document)?);
    let score = score(&mut fields)?;
    fields.end()?;
    Ok((query, document, score))
}

fn marco(mut fields: Fields<'_>) -> Result<Line<'_>, InputError> {
    let (query, document) = (fields.next(Field::Query)?, fields.next(Field::Document)?);
    let wanted = "a rank from 1 on (a table of scores has a header line query-id, corpus-id, score)";
    let rank = |text: &str| text.parse::<u32>().ok().filter(|&rank| rank > 0);
    let rank = fields.value(Field::Rank, wanted, rank)?;
    fields.end()?;
    Ok((query, document, -f64::from(rank)))
}

fn score(fields: &mut Fields<'_>) -> Result<f64, InputError> {
    fields.value(Field::Score, "a number", |text| text.parse().ok().filter(|score: &f64| !score.is_nan()))
}

/// Numbers of a JSON file, counted.
struct Entries<'a> {
    builder: &'a mut Builder,
    entry: u64,
}

impl json::Sink<f64> for Entries<'_> {
    fn query(&mut self, query: &str) {
        self.builder.open(query);
    }

    fn entry(&mut self, query: &str, document: &str, score: f64) {
        self.entry += 1;
        self.builder.add(query, document, score, Place::Entry(self.entry));
    }
}

/// Lists as they grow.
#[derive(Default)]
struct Builder {
    queries: Vec<Growing>,
    positions: HashMap<String, usize>,
    documents: Vec<String>,
    numbers: HashMap<String, u32>,
}

struct Growing {
    id: String,
    list: Vec<(Scored, Place)>,
}

impl Builder {
    fn open(&mut self, query: &str) -> &mut Growing {
        let position = self.positions.get(query).copied().unwrap_or_else(|| {
            self.positions.insert(query.to_owned(), self.queries.len());
            self.queries.push(Growing { id: query.to_owned(), list: Vec::new() });
            self.queries.len() - 1
        });
        &mut self.queries[position]
    }

    fn add(&mut self, query: &str, document: &str, score: f64, place: Place) {
        let number = self.numbers.get(document).copied().unwrap_or_else(|| {
            let next = u32::try_from(self.documents.len()).expect("memory has no room for as many ids");
            self.numbers.insert(document.to_owned(), next);
            self.documents.push(document.to_owned());
            next
        });
        // 0 and −0 are equal, and only one of them stays.
        self.open(query).list.push((Scored { document: number, score: score + 0.0 }, place));
    }

    fn finish(self, name: &str) -> Result<Run, InputError> {
        if self.queries.is_empty() {
            return Err(InputError::Empty { file: name.to_owned(), form: TREC });
        }
        match self.queries.iter().filter_map(Repeat::of).min_by_key(|repeat| repeat.second) {
            Some(repeat) => Err(repeat.error(name, &self.documents)),
            None => Ok(self.sorted()),
        }
    }

    fn sorted(self) -> Run {
        let Builder { queries, positions, documents, numbers } = self;
        let answer = |query: Growing| {
            let mut list: Vec<Scored> = query.list.into_iter().map(|(scored, _)| scored).collect();
            list.sort_unstable_by(|a, b| ordering(&documents, *a, *b));
            Answer { id: query.id, list }
        };
        let queries = queries.into_iter().map(answer).collect();
        Run { queries, positions, documents, numbers }
    }
}

/// Score descending, then id descending.
fn ordering(documents: &[String], a: Scored, b: Scored) -> Ordering {
    let id = |scored: Scored| &documents[scored.document as usize];
    b.score.total_cmp(&a.score).then_with(|| id(b).cmp(id(a)))
}

/// A document that is twice in a list.
struct Repeat {
    query: String,
    document: u32,
    first: Place,
    second: Place,
}

impl Repeat {
    /// The one of a list whose second place comes first.
    fn of(query: &Growing) -> Option<Repeat> {
        let mut places: Vec<(u32, Place)> =
            query.list.iter().map(|(scored, place)| (scored.document, *place)).collect();
        places.sort_unstable();
        let repeats = places.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let pair = repeats.min_by_key(|pair| pair[1].1)?;
        let (document, first) = pair[0];
        Some(Repeat { query: query.id.clone(), document, first, second: pair[1].1 })
    }

    fn error(&self, name: &str, documents: &[String]) -> InputError {
        InputError::Repeated {
            file: name.to_owned(),
            place: self.second,
            query: excerpt(&self.query),
            document: excerpt(&documents[self.document as usize]),
            first: self.first,
        }
    }
}
