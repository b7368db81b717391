//! Finding texts: BM25 over the postings of one commit.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tantivy::columnar::Column;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet, ReloadPolicy, SegmentReader, TERMINATED, Term};

use crate::index::{ROW, error};
use crate::query::FieldTerms;
use crate::{Index, Mark, TextError, TextField, TextQuery};

/// Postings between two looks at whether to go on.
const POSTINGS_UNWATCHED: u32 = 1 << 16;

/// A text that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextHit {
    /// Its row.
    pub row: u32,
    /// Its BM25 score, above 0; larger is better.
    pub score: f32,
}

/// What the scores of a field are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldStatistics {
    /// Rows with a text that has a term.
    pub texts: u64,
    /// Terms of all of them, as their lengths are kept: exactly up to 40 and with a relative error below 1/8 above.
    pub terms: u64,
}

/// An index as one commit left it.
pub struct Reader {
    folder: PathBuf,
    fields: BTreeMap<String, TextField>,
    numbers: Vec<Field>,
    mark: Option<Mark>,
    segments: Vec<Segment>,
    statistics: Vec<FieldStatistics>,
}

struct Segment {
    reader: SegmentReader,
    /// The row of each document.
    rows: Vec<u32>,
}

/// The postings of a term in one segment.
struct Found {
    postings: Option<SegmentPostings>,
    /// Documents that have it and are not deleted.
    texts: u64,
}

/// What documents of a segment have got so far.
struct Tally {
    scores: Vec<f32>,
    /// For a field that has to hold all terms: how many it holds, and the score of them.
    held: Vec<(u32, f32)>,
}

impl Reader {
    pub(crate) fn of(index: &Index) -> Result<Reader, TextError> {
        let failed = |source| error(&index.folder, source);
        let mark = index.mark()?;
        let reader = index.inner.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
        let reader: tantivy::IndexReader = reader.map_err(failed)?;
        let searcher = reader.searcher();
        let mut segments = Vec::new();
        for reader in searcher.segment_readers() {
            let column: Column<u64> = reader.fast_fields().u64(ROW).map_err(failed)?;
            let deleted =
                reader.alive_bitset().map_or(0, |alive| reader.max_doc() - alive.num_alive_docs() as u32);
            if column.num_docs() != reader.max_doc() || deleted != reader.num_deleted_docs() {
                let reason =
                    format!("segment {} has not as many texts as it says", reader.segment_id().uuid_string());
                return Err(TextError::Damaged { path: index.folder.clone(), reason });
            }
            let row = |document| column.first(document).and_then(|row| u32::try_from(row).ok());
            let rows = (0..reader.max_doc()).map(|document| row(document).unwrap_or(u32::MAX)).collect();
            segments.push(Segment { reader: reader.clone(), rows });
        }
        let mut statistics = vec![FieldStatistics::default(); index.fields.len()];
        for segment in &segments {
            for (&field, sums) in index.numbers.iter().zip(&mut statistics) {
                let lengths = segment.reader.get_fieldnorms_reader(field).map_err(failed)?;
                for document in segment.reader.doc_ids_alive() {
                    let length = lengths.fieldnorm(document);
                    sums.texts += u64::from(length > 0);
                    sums.terms += u64::from(length);
                }
            }
        }
        let (folder, fields, numbers) = (index.folder.clone(), index.fields.clone(), index.numbers.clone());
        Ok(Reader { folder, fields, numbers, mark, segments, statistics })
    }

    /// What the index had taken in; `None` if nothing.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// The rows with texts, segment by segment.
    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().flat_map(|segment| {
            segment.reader.doc_ids_alive().map(|document| segment.rows[document as usize])
        })
    }

    /// What the scores of each field are made from.
    pub fn statistics(&self) -> impl Iterator<Item = (&str, FieldStatistics)> {
        self.fields.keys().map(String::as_str).zip(self.statistics.iter().copied())
    }

    /// The bytes of its files.
    pub fn bytes(&self) -> u64 {
        let sum =
            |segment: &Segment| segment.reader.space_usage().map_or(0, |usage| usage.total().get_bytes());
        self.segments.iter().map(sum).sum()
    }

    /// The best `limit` of the rows that are allowed, best first, ties by the lower row. A text scores in each field
    ///
    /// ```text
    /// weight · Σ over terms  count · ln(1 + (N − n + ½)/(n + ½)) · tf / (tf + k1·(1 − b + b·length/mean))
    /// ```
    ///
    /// with `N` texts in the field of which `n` have the term, `tf` times, and `count` times the query: BM25 (Robertson
    /// and Zaragoza 2009) with the inverse document frequency that is never negative, and without the constant factor
    /// `k1 + 1`. `N`, `n` and the mean length are of all rows there are, whatever is allowed.
    ///
    /// # Errors
    /// What is wrong with the query; [`TextError::Stopped`] once `is_over` says so.
    pub fn search(
        &self,
        query: &TextQuery,
        allowed: &dyn Fn(u32) -> bool,
        limit: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<TextHit>, TextError> {
        let asked = query.terms(&self.fields)?;
        let mut tallies: Vec<Tally> =
            self.segments.iter().map(|it| Tally::new(it, query.all_words)).collect();
        for terms in &asked {
            self.score(terms, query.all_words, (allowed, is_over), &mut tallies)?;
        }
        let mut hits: Vec<TextHit> = Vec::new();
        for (segment, tally) in self.segments.iter().zip(tallies) {
            let scored = segment.rows.iter().zip(tally.scores).filter(|&(_, score)| score > 0.0);
            hits.extend(scored.map(|(&row, score)| TextHit { row, score }));
        }
        let better = |left: &TextHit, right: &TextHit| {
            right.score.total_cmp(&left.score).then(left.row.cmp(&right.row))
        };
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, better);
            hits.truncate(limit);
        }
        hits.sort_unstable_by(better);
        Ok(hits)
    }

    /// Adds the scores of one field.
    fn score(
        &self,
        asked: &FieldTerms<'_>,
        all_words: bool,
        (allowed, is_over): (&dyn Fn(u32) -> bool, &dyn Fn() -> bool),
        tallies: &mut [Tally],
    ) -> Result<(), TextError> {
        let Some(place) = self.fields.keys().position(|name| name == asked.name) else { return Ok(()) };
        let weights = Weights::new(asked, self.statistics[place]);
        for (term, count) in &asked.terms {
            let found = self.find(place, term)?;
            let texts = found.iter().map(|found| found.texts).sum();
            let weight = weights.term(texts) * count;
            for ((segment, found), tally) in self.segments.iter().zip(found).zip(tallies.iter_mut()) {
                let Some(mut postings) = found.postings else { continue };
                let lengths = segment.reader.get_fieldnorms_reader(self.numbers[place]);
                let lengths = lengths.map_err(|source| error(&self.folder, source))?;
                let mut seen = 0;
                while postings.doc() != TERMINATED {
                    let document = postings.doc();
                    if !segment.reader.is_deleted(document) && allowed(segment.rows[document as usize]) {
                        let norm = weights.norms[lengths.fieldnorm_id(document) as usize];
                        tally.add(document, weight * saturated(postings.term_freq(), norm), all_words);
                    }
                    postings.advance();
                    seen += 1;
                    if seen % POSTINGS_UNWATCHED == 0 && is_over() {
                        return Err(TextError::Stopped);
                    }
                }
            }
            if is_over() {
                return Err(TextError::Stopped);
            }
        }
        if all_words {
            tallies.iter_mut().for_each(|tally| tally.take_held(asked.terms.len()));
        }
        Ok(())
    }

    /// The postings of a term in each segment.
    fn find(&self, field: usize, term: &str) -> Result<Vec<Found>, TextError> {
        let number = self.numbers[field];
        let term = Term::from_field_text(number, term);
        let find = |segment: &Segment| -> tantivy::Result<Found> {
            let index = segment.reader.inverted_index(number)?;
            let postings = index.read_postings(&term, IndexRecordOption::WithFreqs)?;
            let texts = postings.as_ref().map_or(0, |postings| match segment.reader.alive_bitset() {
                Some(alive) => postings.doc_freq_given_deletes(alive),
                None => postings.doc_freq(),
            });
            Ok(Found { postings, texts: u64::from(texts) })
        };
        let found: tantivy::Result<Vec<Found>> = self.segments.iter().map(find).collect();
        found.map_err(|source| error(&self.folder, source))
    }
}

/// What the score of a term takes from its field.
struct Weights {
    weight: f32,
    texts: f32,
    /// `k1·(1 − b + b·length/mean)` for each of the lengths that are told apart.
    norms: Vec<f32>,
}

impl Weights {
    #[expect(clippy::cast_precision_loss, reason = "counts of texts are compared as 32-bit numbers")]
    fn new(asked: &FieldTerms<'_>, statistics: FieldStatistics) -> Weights {
        let mean = statistics.terms as f32 / (statistics.texts as f32).max(1.0);
        let (k1, b) = (asked.field.k1, asked.field.b);
        let norm = |id: u8| {
            let length = tantivy::fieldnorm::FieldNormReader::id_to_fieldnorm(id) as f32;
            k1 * (1.0 - b + b * length / mean.max(f32::MIN_POSITIVE))
        };
        Weights { weight: asked.weight, texts: statistics.texts as f32, norms: (0..=255).map(norm).collect() }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of texts are compared as 32-bit numbers")]
    fn term(&self, texts: u64) -> f32 {
        let texts = (texts as f32).min(self.texts);
        self.weight * (1.0 + (self.texts - texts + 0.5) / (texts + 0.5)).ln()
    }
}

#[expect(clippy::cast_precision_loss, reason = "no text has so often a term")]
fn saturated(frequency: u32, norm: f32) -> f32 {
    let frequency = frequency as f32;
    frequency / (frequency + norm)
}

impl Tally {
    fn new(segment: &Segment, all_words: bool) -> Tally {
        let held = if all_words { segment.rows.len() } else { 0 };
        Tally { scores: vec![0.0; segment.rows.len()], held: vec![(0, 0.0); held] }
    }

    fn add(&mut self, document: u32, score: f32, all_words: bool) {
        if all_words {
            let (terms, sum) = &mut self.held[document as usize];
            *terms += 1;
            *sum += score;
        } else {
            self.scores[document as usize] += score;
        }
    }

    /// Takes the scores of documents that hold all terms, and begins anew.
    fn take_held(&mut self, all: usize) {
        for (score, held) in self.scores.iter_mut().zip(&mut self.held) {
            if held.0 as usize == all {
                *score += held.1;
            }
            *held = (0, 0.0);
        }
    }
}
