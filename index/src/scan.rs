//! The exact scan: every live point against a batch of queries, several rankings in one pass.

use dehub_vector::{CHUNK_ROWS, Candidate, Vector};

use crate::screen::{self, Screen};
use crate::{Column, Scope, Snapshot, TimeUp};
use crate::{gather, multi_scan};

/// A ranking: `score = scale·sim − Σ weight·column`. Without terms and scale it is the raw ranking.
#[derive(Debug, Clone, Default)]
pub struct Variant<'a> {
    terms: Vec<(&'a Column, f32)>,
    /// How many of the terms, the last of them, are priors rather than a correction's.
    priors: usize,
    /// A column of factors, and how far each is taken from 1: 0 not at all, 1 whole.
    scale: Option<(&'a Column, f32)>,
    /// A column of lists, and the place in each of what is subtracted.
    level: Option<(&'a Column, usize)>,
}

impl<'a> Variant<'a> {
    /// The raw ranking.
    pub fn raw() -> Variant<'a> {
        Variant::default()
    }

    /// A corrected ranking. Terms of weight 0 are left out, so all weights 0 is the raw ranking.
    pub fn new(terms: impl IntoIterator<Item = (&'a Column, f32)>) -> Variant<'a> {
        let terms = terms.into_iter().filter(|&(_, weight)| weight != 0.0).collect();
        Variant { terms, ..Variant::default() }
    }

    /// Ranks by the similarity less the number at `place` of each row's list. It is 0 or more where the
    /// list has at most `place` larger numbers.
    ///
    /// # Panics
    /// If the column's lists are not longer than `place`.
    pub fn level(lists: &'a Column, place: usize) -> Variant<'a> {
        assert!(place < lists.list_len(), "a place within the lists");
        Variant { level: Some((lists, place)), ..Variant::default() }
    }

    /// The same ranking with similarities multiplied by `1 + strength·(factor − 1)` first.
    #[must_use]
    pub fn scaled(self, factors: &'a Column, strength: f32) -> Variant<'a> {
        Variant { scale: (strength != 0.0).then_some((factors, strength)), ..self }
    }

    /// The same ranking with `Σ weight·prior` added to every score. Priors of weight 0 are left out.
    #[must_use]
    pub fn boosted(mut self, priors: &[(&'a Column, f32)]) -> Variant<'a> {
        let own = self.terms.len() - self.priors;
        let added = priors.iter().filter(|&&(_, weight)| weight != 0.0);
        self.terms.extend(added.map(|&(column, weight)| (column, -weight)));
        self.priors = self.terms.len() - own;
        self
    }

    /// Whether the score is the similarity.
    pub fn is_raw(&self) -> bool {
        self.is_unbiased() && self.scale.is_none()
    }

    fn is_unbiased(&self) -> bool {
        self.terms.is_empty() && self.level.is_none()
    }

    pub(crate) fn is_unscaled(&self) -> bool {
        self.scale.is_none()
    }

    /// What the similarity of a row is multiplied by; 1 for most methods.
    pub fn scale(&self, row: u32) -> f32 {
        self.scale.map_or(1.0, |(factors, strength)| taken_part(factors.value(row), strength))
    }

    /// The part of [`Variant::bias`] that a correction subtracts.
    pub fn correction_bias(&self, row: u32) -> f32 {
        let own = self.terms.iter().take(self.terms.len() - self.priors);
        own.fold(self.level_of(row), |bias, &(column, weight)| bias + weight * column.at(row))
    }

    /// What priors add to the score of a row.
    pub fn boost(&self, row: u32) -> f32 {
        let priors = self.terms.iter().skip(self.terms.len() - self.priors);
        priors.fold(0.0, |boost, &(column, weight)| boost - weight * column.at(row))
    }

    fn level_of(&self, row: u32) -> f32 {
        self.level.map_or(0.0, |(lists, place)| lists.list(row)[place])
    }

    /// `Σ weight·column` of a row, and its number at the level; priors count with their weights negated.
    pub fn bias(&self, row: u32) -> f32 {
        self.terms.iter().fold(self.level_of(row), |bias, &(column, weight)| bias + weight * column.at(row))
    }

    /// The score of a row whose similarity is known. Similarities are 32-bit sums, and so is this.
    pub fn score(&self, similarity: f32, row: u32) -> f32 {
        let scaled = if self.scale.is_some() { similarity * self.scale(row) } else { similarity };
        if self.is_unbiased() { scaled } else { scaled - self.bias(row) }
    }

    /// A bound on the size of every factor.
    pub(crate) fn scale_bound(&self) -> f32 {
        self.scale.map_or(1.0, |(factors, strength)| 1.0 + strength.abs() * (factors.value_bound() + 1.0))
    }

    /// Multiplies a chunk's similarities, as [`Variant::score`] does.
    pub(crate) fn scale_line(&self, chunk: usize, line: &mut [f32]) {
        if let Some((factors, strength)) = self.scale {
            let parts = factors.chunk(chunk).iter().map(|&part| taken_part(factors.restored(part), strength));
            line.iter_mut().zip(parts).for_each(|(similarity, factor)| *similarity *= factor);
        }
    }

    pub(crate) fn bias_bound(&self) -> f32 {
        let level = self.level.map_or(0.0, |(lists, _)| lists.list_bound());
        self.terms.iter().map(|&(column, weight)| weight.abs() * column.abs_max()).sum::<f32>() + level
    }

    /// The biases of a chunk, summed in the order of [`Variant::bias`]; infinite where `dead`.
    pub(crate) fn chunk_biases(&self, chunk: usize, len: usize, dead: impl Fn(u32) -> bool) -> Vec<f32> {
        let mut biases = vec![0.0; len];
        if let Some((lists, place)) = self.level {
            let levels = (first_row(chunk)..).map(|row| lists.list(row)[place]);
            biases.iter_mut().zip(levels).for_each(|(bias, level)| *bias = level);
        }
        for &(column, weight) in &self.terms {
            let values = column.chunk(chunk).iter().map(|&value| column.guarded(value));
            biases.iter_mut().zip(values).for_each(|(bias, value)| *bias += weight * value);
        }
        for (row, bias) in (first_row(chunk)..).zip(&mut biases) {
            if dead(row) {
                *bias = f32::INFINITY;
            }
        }
        biases
    }
}

/// A factor taken in part.
fn taken_part(factor: f32, strength: f32) -> f32 {
    1.0 + strength * (factor - 1.0)
}

/// What a scan is asked.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The queries.
    pub vectors: &'a [Vector],
    /// How many points each answer lists; it may be 0.
    pub limit: usize,
    /// Rows whose rank is wanted, a list for each query; or empty.
    pub targets: &'a [Vec<u32>],
}

/// What a scan finds for one query and one variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The best points, best first; ties by the lower row.
    pub best: Vec<Candidate>,
    /// The rank of each target among the points that were scored, from 1.
    pub ranks: Vec<u32>,
}

impl Snapshot {
    /// Scores every live point: for each query, one answer for each variant.
    ///
    /// # Panics
    /// If `targets` is neither empty nor as long as `vectors`, or names a row that is not live.
    pub fn scan(&self, question: &Question<'_>, variants: &[Variant<'_>]) -> Vec<Vec<Answer>> {
        self.scan_by(question, variants, Screen::best(!question.targets.is_empty()))
    }

    /// The same among the points of a scope: few of them one by one, many as all are.
    ///
    /// # Errors
    /// [`TimeUp`] if the scope has a deadline and the scan has not ended by then.
    ///
    /// # Panics
    /// As [`Snapshot::scan`] does. Targets need not be in the scope.
    pub fn scan_within(
        &self,
        scope: &Scope,
        question: &Question<'_>,
        variants: &[Variant<'_>],
    ) -> Result<Vec<Vec<Answer>>, TimeUp> {
        self.check(question);
        let answers = if gather::is_better(scope, self.len(), question.vectors.len()) {
            gather::scan(self, question, variants, scope)
        } else if self.config().multi {
            multi_scan::scan(self, question, variants, scope)
        } else {
            let screen = Screen::best(!question.targets.is_empty());
            screen::scan(self, question, variants, screen, scope)
        };
        scope.in_time(answers)
    }

    /// The same, bit for bit, by a screen of choice.
    ///
    /// # Panics
    /// As [`Snapshot::scan`] does.
    pub fn scan_by(
        &self,
        question: &Question<'_>,
        variants: &[Variant<'_>],
        screen: Screen,
    ) -> Vec<Vec<Answer>> {
        self.check(question);
        if self.config().multi {
            return multi_scan::scan(self, question, variants, &self.scope());
        }
        screen::scan(self, question, variants, screen, &self.scope())
    }

    fn check(&self, question: &Question<'_>) {
        let Question { vectors, targets, .. } = *question;
        assert!(targets.is_empty() || targets.len() == vectors.len(), "a list of targets for each query");
        assert!(targets.iter().flatten().all(|&row| self.is_live(row)), "targets are live rows");
    }
}

pub(crate) fn first_row(chunk: usize) -> u32 {
    offset(chunk * CHUNK_ROWS)
}

pub(crate) fn offset(row: usize) -> u32 {
    u32::try_from(row).expect("rows are numbered by u32; the writer refuses more")
}
