//! Where a run ranks what is judged.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::ranks::Ties;
use crate::{Qrels, Ranks, Run, Scored};

/// What orders documents of equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TieOrder {
    /// Their ids, bytewise from the largest down.
    #[default]
    Ids,
    /// Their relevance from the highest down, then what is not judged. No order of them has a better value of a
    /// measure, `infAP` with negative relevances aside.
    Best,
    /// The reverse of the best: no order of them has a worse value, with the same exception.
    Worst,
}

/// The items that a run could have listed, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gallery<'a> {
    /// Nothing is known but the lists.
    #[default]
    Unknown,
    /// How many there are.
    Size(u32),
    /// Which there are.
    Ids(&'a HashSet<String>),
}

/// What a run makes of the judged queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The ids of the judged queries, as [`Qrels::queries`] has them.
    pub queries: Vec<String>,
    /// Where each has its judged documents, in the same order. A query that the run lacks has an empty list.
    pub ranks: Vec<Ranks>,
    /// In how many lists the order of equal scores decides where a judged document stands.
    pub tied: usize,
}

/// What of a run, of judgements and of a gallery has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gaps {
    /// Judged queries that the run lacks; they count as having found nothing.
    pub missing: Vec<String>,
    /// Queries of the run that are not judged; they are not measured.
    pub extra: Vec<String>,
    /// Judged queries without a relevant document; they count as having found nothing.
    pub without_relevant: Vec<String>,
    /// Ids of documents, relevant ones or listed ones, that the gallery lacks, if it is known.
    pub dangling: Vec<String>,
}

impl Gaps {
    /// What these lack of each other.
    pub fn of(run: &Run, qrels: &Qrels, gallery: Gallery<'_>) -> Gaps {
        let owned = |ids: &mut dyn Iterator<Item = &str>| ids.map(str::to_owned).collect();
        let dangling = match gallery {
            Gallery::Unknown | Gallery::Size(_) => Vec::new(),
            Gallery::Ids(ids) => {
                let judged =
                    qrels.queries().flat_map(|query| qrels.relevant(query)).map(|(document, _)| document);
                let mut dangling: Vec<String> =
                    judged.chain(run.documents()).filter(|&id| !ids.contains(id)).cloned().collect();
                dangling.sort_unstable();
                dangling.dedup();
                dangling
            }
        };
        Gaps {
            missing: owned(&mut qrels.queries().filter(|query| !run.contains(query))),
            extra: owned(&mut run.queries().filter(|query| !qrels.contains(query))),
            without_relevant: owned(&mut qrels.queries().filter(|query| qrels.relevant(query).is_empty())),
            dangling,
        }
    }

    /// Whether queries and ids of all sides are the same. Queries without a relevant document are no matter of ids.
    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.dangling.is_empty()
    }
}

/// Finds the judged documents in the lists of a run.
///
/// A relevant document that a list lacks counts for the rank after the last of the gallery; where that is not known,
/// for the one after the longest list, so that then `MdR` and `MnR` are bounds from below.
pub fn place(run: &Run, qrels: &Qrels, gallery: Gallery<'_>, order: TieOrder) -> Placed {
    let depth = length(run.depth());
    let mut placed = Placed { queries: Vec::new(), ranks: Vec::new(), tied: 0 };
    for query in qrels.queries() {
        let list = List::new(run, qrels, query);
        let ranks = list.ranks(order).as_deep_as(depth);
        placed.ranks.push(match gallery {
            Gallery::Unknown => ranks,
            Gallery::Size(size) => ranks.within(size),
            Gallery::Ids(ids) => ranks.within(length(ids.len())),
        });
        placed.tied += usize::from(list.is_tied());
        placed.queries.push(query.to_owned());
    }
    placed
}

/// The list of a query with what is judged of it.
struct List<'a> {
    list: &'a [Scored],
    /// By the number of a listed document.
    judged: HashMap<u32, i32>,
    missing_gains: Vec<u32>,
    missing_not_relevant: Vec<i32>,
}

impl<'a> List<'a> {
    fn new(run: &'a Run, qrels: &Qrels, query: &str) -> List<'a> {
        let list = run.list(query);
        let listed: HashSet<u32> = list.iter().map(|scored| scored.document).collect();
        let number = |document: &str| run.number(document).filter(|number| listed.contains(number));
        let mut judged = HashMap::new();
        let (mut missing_gains, mut missing_not_relevant) = (Vec::new(), Vec::new());
        for (document, gain) in qrels.relevant(query) {
            match number(document) {
                Some(number) => drop(judged.insert(number, gain.cast_signed())),
                None => missing_gains.push(*gain),
            }
        }
        for (document, relevance) in qrels.not_relevant(query) {
            match number(document) {
                Some(number) => drop(judged.insert(number, *relevance)),
                None => missing_not_relevant.push(*relevance),
            }
        }
        List { list, judged, missing_gains, missing_not_relevant }
    }

    /// Runs of equal scores.
    fn groups(&self) -> impl Iterator<Item = &'a [Scored]> {
        self.list.chunk_by(|a, b| a.score == b.score)
    }

    /// Whether another order of equal scores would rank a judged document otherwise relative to others.
    fn is_tied(&self) -> bool {
        self.groups().any(|group| {
            let mut grades = group.iter().map(|scored| self.judged.get(&scored.document));
            let first = grades.next().flatten();
            grades.any(|grade| grade != first)
        })
    }

    fn ranks(&self, order: TieOrder) -> Ranks {
        let (mut found, mut not_relevant) = (Vec::new(), Vec::new());
        let mut ties = Ties::default();
        let mut rank = 0;
        for group in self.groups() {
            let mut grades: Vec<Option<i32>> =
                group.iter().map(|scored| self.judged.get(&scored.document).copied()).collect();
            match order {
                TieOrder::Ids => {}
                TieOrder::Best => grades.sort_unstable_by_key(|&grade| Reverse(grade)),
                TieOrder::Worst => grades.sort_unstable(),
            }
            ties.add(&grades);
            for grade in grades {
                rank += 1;
                match grade {
                    Some(gain @ 1..) => found.push((rank, gain.unsigned_abs())),
                    Some(relevance) => not_relevant.push((rank, relevance)),
                    None => {}
                }
            }
        }
        let ranks =
            Ranks::listed(found, rank).and_then(|ranks| ranks.with_missing(self.missing_gains.clone()));
        let ranks =
            ranks.and_then(|it| it.with_not_relevant(not_relevant, self.missing_not_relevant.clone()));
        ranks.expect("ranks are counted one by one, and gains told from other relevances").with_ties(ties)
    }
}

impl Ties {
    /// Takes a group of documents of one score, in the order in which they are ranked.
    fn add(&mut self, grades: &[Option<i32>]) {
        let is_relevant = |grade: &Option<i32>| grade.is_some_and(|grade| grade > 0);
        let relevant = grades.iter().filter(|grade| is_relevant(grade)).count() as u64;
        let mut others = grades.len() as u64 - relevant;
        self.pairs += relevant * others;
        for grade in grades {
            match is_relevant(grade) {
                true => self.ordered += others,
                false => others -= 1,
            }
        }
    }
}

fn length(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
