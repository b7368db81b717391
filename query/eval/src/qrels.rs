//! Relevance judgements ("qrels"), read strictly.

use std::collections::HashMap;
use std::io::Read;

use crate::json;
use crate::run::Run;
use crate::text::{Content, Field, Fields, InputError, Lines, Place, Separator, excerpt, is_header, open};

const TREC: &str = "query iter document relevance";
const TABLE: &str = "query<TAB>document<TAB>relevance";
const JSON: &str = r#"{"query": {"document": relevance}}, relevances being integers"#;

/// Which documents are relevant to which queries, and how much.
///
/// The relevance is an integer: a positive one is the document's gain, 0 or a negative one means judged, but not
/// relevant. The same judgement may be repeated; two judgements of one pair that differ are
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

impl Qrels {
    /// Reads judgements, whole or not at all; `name` is the file name for errors. The form is told by the content:
    ///
    /// * TREC and MS MARCO: `query iter document relevance`, between blanks. `iter` is ignored.
    /// * a table with a header line, `query-id`, `corpus-id` and `score` between tabs, as BEIR has it. Ids may have
    ///   spaces.
    /// * JSON `{"query": {"document": relevance}}`, as ranx writes it.
    ///
    /// Accepted too: a byte order mark, CRLF, blank lines, and comment lines, which start with `#` (so no query id
    /// does).
    ///
    /// # Errors
    /// For what [`InputError`] lists, judgements that contradict each other among them.
    pub fn read(name: &str, input: impl Read) -> Result<Qrels, InputError> {
        let mut builder = Builder::new(name);
        match open(name, input)? {
            Content::Lines(mut lines) => read_lines(&mut lines, &mut builder)?,
            Content::Json(input) => {
                json::read(input, &mut builder).map_err(|error| InputError::Json {
                    file: name.to_owned(),
                    form: JSON,
                    reason: error.to_string(),
                })?;
            }
        }
        builder.finish()
    }

    /// The judgements of a text, as [`Qrels::read`] reads them.
    ///
    /// # Errors
    /// As there.
    pub fn parse(name: &str, text: &str) -> Result<Qrels, InputError> {
        Qrels::read(name, text.as_bytes())
    }

    /// The judgements of a list, each a query, a document and a relevance; `name` is what errors call the
    /// list, and the places they name are those in it, from 0.
    ///
    /// # Errors
    /// If the list is empty, or judgements contradict each other.
    pub fn of(name: &str, list: &[(String, String, i32)]) -> Result<Qrels, InputError> {
        let mut builder = Builder::new(name);
        for (row, (query, document, relevance)) in (0..).zip(list) {
            builder.add(query, document, *relevance, Place::Row(row));
        }
        builder.finish()
    }

    /// What an exact search found as judgements for `ann_recall@k`: a document's relevance is the number of documents
    /// in its list whose score is no better, so that those of equal scores are worth the same. A query whose list is
    /// empty is judged, without a relevant document.
    pub fn of_truth(truth: &Run) -> Qrels {
        let mut queries = Vec::new();
        for id in truth.queries() {
            let list = truth.list(id);
            let mut relevant = Vec::with_capacity(list.len());
            for (place, scored) in list.iter().enumerate() {
                let better = list[..place].partition_point(|other| other.score > scored.score);
                let gain = u32::try_from(list.len() - better).unwrap_or(u32::MAX);
                relevant.push((truth.document(*scored).to_owned(), gain));
            }
            queries.push(JudgedQuery { id: id.to_owned(), relevant, not_relevant: Vec::new() });
        }
        let positions = queries.iter().enumerate().map(|(place, query)| (query.id.clone(), place)).collect();
        Qrels { queries, positions }
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

    /// Whether some query has more than one relevant document, so that `R@k` and `Success@k` differ.
    pub fn has_several(&self) -> bool {
        self.queries.iter().any(|query| query.relevant.len() > 1)
    }

    /// The same judgements with documents asking for queries.
    pub fn transposed(&self) -> Qrels {
        let mut builder = Builder::new("");
        for query in &self.queries {
            let relevant = query.relevant.iter().map(|(document, gain)| (document, gain.cast_signed()));
            let others = query.not_relevant.iter().map(|(document, relevance)| (document, *relevance));
            for (document, relevance) in relevant.chain(others) {
                builder.add(document, &query.id, relevance, Place::Row(0));
            }
        }
        Qrels { queries: builder.queries, positions: builder.positions }
    }

    /// The same without judgements of a document for the query of its own id, and how many there were.
    pub fn without_self(mut self) -> (Qrels, usize) {
        let mut left_out = 0;
        for query in &mut self.queries {
            let before = query.relevant.len() + query.not_relevant.len();
            query.relevant.retain(|(document, _)| *document != query.id);
            query.not_relevant.retain(|(document, _)| *document != query.id);
            left_out += before - query.relevant.len() - query.not_relevant.len();
        }
        (self, left_out)
    }

    fn judged(&self, query: &str) -> Option<&JudgedQuery> {
        self.positions.get(query).map(|&position| &self.queries[position])
    }
}

fn read_lines<R: Read>(lines: &mut Lines<R>, builder: &mut Builder) -> Result<(), InputError> {
    let file = lines.file.clone();
    let mut is_table = None;
    while let Some((line, text)) = lines.next()? {
        let is_header = is_table.is_none() && is_header(text);
        let is_table = *is_table.get_or_insert(is_header);
        if is_header {
            continue;
        }
        let (separator, form) = if is_table { (Separator::Tab, TABLE) } else { (Separator::Blanks, TREC) };
        let mut fields = Fields::new((&file, line), text, separator, form);
        let query = fields.next(Field::Query)?;
        if !is_table {
            fields.next(Field::Iter)?;
        }
        let document = fields.next(Field::Document)?;
        let wanted = format!("an integer from {} to {}", i32::MIN, i32::MAX);
        let relevance = fields.value(Field::Relevance, &wanted, |text| text.parse().ok())?;
        fields.end()?;
        builder.add(query, document, relevance, Place::Line(line));
    }
    Ok(())
}

/// Judgements as they come.
struct Builder {
    name: String,
    queries: Vec<JudgedQuery>,
    positions: HashMap<String, usize>,
    // INVARIANT: what was judged first of each document, by the index of its query.
    seen: Vec<HashMap<String, (Place, i32)>>,
    entry: u64,
    conflict: Option<InputError>,
}

impl json::Sink<i32> for Builder {
    fn query(&mut self, query: &str) {
        self.open(query);
    }

    fn entry(&mut self, query: &str, document: &str, relevance: i32) {
        self.entry += 1;
        self.add(query, document, relevance, Place::Entry(self.entry));
    }
}

impl Builder {
    fn new(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            queries: Vec::new(),
            positions: HashMap::new(),
            seen: Vec::new(),
            entry: 0,
            conflict: None,
        }
    }

    fn open(&mut self, query: &str) -> usize {
        self.positions.get(query).copied().unwrap_or_else(|| {
            self.positions.insert(query.to_owned(), self.queries.len());
            self.queries.push(JudgedQuery { id: query.to_owned(), relevant: vec![], not_relevant: vec![] });
            self.seen.push(HashMap::new());
            self.queries.len() - 1
        })
    }

    /// A judgement that contradicts an earlier one is kept to be told of, the first such one.
    fn add(&mut self, query: &str, document: &str, relevance: i32, place: Place) {
        let position = self.open(query);
        if let Some(&(first, wanted)) = self.seen[position].get(document) {
            if wanted != relevance && self.conflict.is_none() {
                self.conflict = Some(InputError::Conflict {
                    file: self.name.clone(),
                    place,
                    query: excerpt(query),
                    document: excerpt(document),
                    first,
                    wanted,
                    found: relevance,
                });
            }
            return;
        }
        self.seen[position].insert(document.to_owned(), (place, relevance));
        let judged = &mut self.queries[position];
        match relevance {
            1.. => judged.relevant.push((document.to_owned(), relevance.unsigned_abs())),
            ..=0 => judged.not_relevant.push((document.to_owned(), relevance)),
        }
    }

    fn finish(self) -> Result<Qrels, InputError> {
        match self.conflict {
            Some(conflict) => Err(conflict),
            None if self.queries.is_empty() => Err(InputError::Empty { file: self.name, form: TREC }),
            None => Ok(Qrels { queries: self.queries, positions: self.positions }),
        }
    }
}
