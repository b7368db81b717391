//! What one query's evaluation needs: where its judged documents were ranked.

/// The ranks of one query's judged documents, in a list of known length.
///
/// A relevant document that is not listed is *missing*: it has a gain but no rank, and every measure counts it as
/// never found.
// INVARIANT: `found` and `not_relevant` are sorted by rank; ranks are distinct within each and within 1..=listed; gains
// are positive and others at most 0; listed ≤ gallery < beyond. All measures rely on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    found: Vec<(u32, u32)>,
    missing_gains: Vec<u32>,
    not_relevant: Vec<(u32, i32)>,
    missing_not_relevant: Vec<i32>,
    listed: u32,
    gallery: u32,
    beyond: u64,
    ties: Ties,
}

/// The pairs of a relevant and another document that have the same score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ties {
    /// All of them.
    pub(crate) pairs: u64,
    /// Those in which the relevant document stands first, as ids or rows have it.
    pub(crate) ordered: u64,
}

/// Why ranks cannot be those of a query's judged documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RanksError {
    /// The gallery is empty, so nothing can be ranked.
    #[error("gallery: wanted at least one item, found 0")]
    EmptyGallery,
    /// A rank is 0 or beyond the list, which is the gallery where all of it was ranked.
    #[error("rank: wanted 1 to {gallery}, the gallery size, found {rank}")]
    OutOfGallery {
        /// The rank given.
        rank: u32,
        /// The number of items ranked.
        gallery: u32,
    },
    /// Two documents have the same rank.
    #[error("rank: wanted distinct ranks, found {rank} twice")]
    Repeated {
        /// The rank given twice.
        rank: u32,
    },
    /// A gain is 0: such a document is not relevant and must be left out.
    #[error("gain: wanted at least 1 for a relevant document, found 0")]
    ZeroGain,
    /// A document judged not relevant has a positive relevance.
    #[error("relevance: wanted at most 0 for a document that is not relevant, found {found}")]
    Relevant {
        /// The relevance.
        found: i32,
    },
}

impl Ranks {
    /// The relevant documents as `(rank, gain)` pairs in any order, ranks counted from 1, in a
    /// gallery of `gallery` items, all of them ranked.
    ///
    /// # Errors
    /// If the gallery is empty, a rank is none of it or given twice, or a gain is 0.
    pub fn new(ranks: Vec<(u32, u32)>, gallery: u32) -> Result<Ranks, RanksError> {
        match gallery {
            0 => Err(RanksError::EmptyGallery),
            1.. => Ranks::listed(ranks, gallery),
        }
    }

    /// The same in a list of `listed` documents, which may be none, where nothing is known of others.
    ///
    /// # Errors
    /// As for [`Ranks::new`], but for an empty gallery.
    pub fn listed(mut ranks: Vec<(u32, u32)>, listed: u32) -> Result<Ranks, RanksError> {
        sort(&mut ranks, listed)?;
        refuse_zero(ranks.iter().map(|&(_, gain)| gain))?;
        Ok(Ranks {
            found: ranks,
            missing_gains: Vec::new(),
            not_relevant: Vec::new(),
            missing_not_relevant: Vec::new(),
            listed,
            gallery: listed,
            beyond: u64::from(listed) + 1,
            ties: Ties::default(),
        })
    }

    /// The same ranks, with the gains of the relevant documents that are not listed.
    /// Replaces what an earlier call said.
    ///
    /// # Errors
    /// If a gain is 0.
    pub fn with_missing(self, missing_gains: Vec<u32>) -> Result<Ranks, RanksError> {
        refuse_zero(missing_gains.iter().copied())?;
        Ok(Ranks { missing_gains, ..self })
    }

    /// The same ranks, with those of the documents judged not relevant as `(rank, relevance)`, and the relevances of
    /// those not listed. Only measures that [need them](crate::Measure::needs_not_relevant) look at them.
    ///
    /// # Errors
    /// If a rank is none of the list or given twice, be it to a relevant document, or a relevance is positive.
    pub fn with_not_relevant(
        self,
        mut ranks: Vec<(u32, i32)>,
        missing: Vec<i32>,
    ) -> Result<Ranks, RanksError> {
        sort(&mut ranks, self.listed)?;
        if let Some(&(rank, _)) =
            ranks.iter().find(|(rank, _)| self.found.iter().any(|(other, _)| other == rank))
        {
            return Err(RanksError::Repeated { rank });
        }
        let relevances = ranks.iter().map(|&(_, relevance)| relevance).chain(missing.iter().copied());
        match relevances.into_iter().find(|&relevance| relevance > 0) {
            Some(found) => Err(RanksError::Relevant { found }),
            None => Ok(Ranks { not_relevant: ranks, missing_not_relevant: missing, ..self }),
        }
    }

    /// The same ranks in a gallery of this many items, of which only the best are listed: no document has a rank beyond
    /// the gallery, so one that is not listed counts for the rank after it. Fewer than are listed are as many.
    pub fn within(self, gallery: u32) -> Ranks {
        let gallery = gallery.max(self.listed);
        Ranks { gallery, beyond: u64::from(gallery) + 1, ..self }
    }

    /// The same ranks, where what is not listed counts for rank `depth` + 1, at least the one after the list: lists of
    /// a run are then as long as the longest.
    pub fn as_deep_as(self, depth: u32) -> Ranks {
        let beyond = self.beyond.max(u64::from(depth) + 1);
        Ranks { beyond, ..self }
    }

    /// The same ranks with what is known of equal scores.
    pub(crate) fn with_ties(self, ties: Ties) -> Ranks {
        Ranks { ties, ..self }
    }

    /// The `(rank, gain)` pairs of the relevant documents in the list, best rank first.
    pub fn found(&self) -> &[(u32, u32)] {
        &self.found
    }

    /// The rank of the relevant document ranked first, if the list has one.
    pub fn best(&self) -> Option<u32> {
        self.found.first().map(|&(rank, _)| rank)
    }

    /// How many relevant documents are not listed.
    pub fn missing(&self) -> usize {
        self.missing_gains.len()
    }

    /// The gains of the relevant documents that are not listed, in the order given.
    pub fn missing_gains(&self) -> &[u32] {
        &self.missing_gains
    }

    /// The `(rank, relevance)` pairs of the listed documents judged not relevant, best rank first.
    pub fn not_relevant(&self) -> &[(u32, i32)] {
        &self.not_relevant
    }

    /// The relevances of the documents judged not relevant that are not listed.
    pub fn missing_not_relevant(&self) -> &[i32] {
        &self.missing_not_relevant
    }

    /// The number of documents listed.
    pub fn len(&self) -> u32 {
        self.listed
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.listed == 0
    }

    /// The number of items in the gallery, as far as it is known: no fewer than are listed.
    pub fn gallery(&self) -> u32 {
        self.gallery
    }

    /// The rank that a document counts for which is not listed.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    pub(crate) fn ties(&self) -> Ties {
        self.ties
    }

    /// The list without documents that are not judged; a negative relevance is none.
    pub(crate) fn judged_only(&self) -> Ranks {
        let not_relevant = self.not_relevant.iter().filter(|(_, relevance)| *relevance >= 0);
        let mut places: Vec<u32> = self.found.iter().map(|&(rank, _)| rank).collect();
        places.extend(not_relevant.clone().map(|&(rank, _)| rank));
        places.sort_unstable();
        // Ranks are distinct and fewer than a u32 counts.
        let place = |rank: u32| places.partition_point(|&other| other <= rank) as u32;
        Ranks {
            found: self.found.iter().map(|&(rank, gain)| (place(rank), gain)).collect(),
            not_relevant: not_relevant.map(|&(rank, relevance)| (place(rank), relevance)).collect(),
            listed: places.len() as u32,
            ..self.clone()
        }
    }
}

/// Sorts by rank, and refuses ranks that are none.
fn sort<T: Ord>(ranks: &mut [(u32, T)], listed: u32) -> Result<(), RanksError> {
    ranks.sort_unstable();
    if let Some(&(rank, _)) = ranks.iter().find(|(rank, _)| !(1..=listed).contains(rank)) {
        return Err(RanksError::OutOfGallery { rank, gallery: listed });
    }
    match ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(RanksError::Repeated { rank: pair[0].0 }),
        None => Ok(()),
    }
}

fn refuse_zero(mut gains: impl Iterator<Item = u32>) -> Result<(), RanksError> {
    match gains.any(|gain| gain == 0) {
        true => Err(RanksError::ZeroGain),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_sorted_and_know_the_best_one() {
        let ranks = Ranks::new(vec![(7, 1), (2, 3)], 9).expect("valid").with_missing(vec![2]).expect("valid");
        assert_eq!(ranks.found(), [(2, 3), (7, 1)]);
        assert_eq!(ranks.best(), Some(2));
        assert_eq!((ranks.missing(), ranks.missing_gains(), ranks.gallery()), (1, &[2][..], 9));
        assert_eq!(Ranks::new(vec![], 1).expect("valid").best(), None);
    }

    #[test]
    fn a_list_ends_before_its_gallery_and_what_it_lacks_counts_beyond_both() {
        let list = Ranks::listed(vec![(2, 1)], 3).expect("valid");
        assert_eq!((list.len(), list.gallery(), list.beyond()), (3, 3, 4));
        let deep = list.clone().as_deep_as(10);
        assert_eq!((deep.len(), deep.gallery(), deep.beyond()), (3, 3, 11));
        assert_eq!(list.clone().as_deep_as(2).beyond(), 4);
        let within = list.clone().within(50);
        assert_eq!((within.len(), within.gallery(), within.beyond()), (3, 50, 51));
        assert_eq!(list.within(1).gallery(), 3);
        assert!(Ranks::listed(vec![], 0).expect("valid").is_empty());
    }

    #[test]
    fn passing_over_what_is_not_judged_counts_ranks_anew() {
        let ranks = Ranks::new(vec![(9, 1), (3, 2)], 12)
            .and_then(|it| it.with_not_relevant(vec![(5, 0), (2, -1)], vec![0]));
        let judged = ranks.expect("valid").judged_only();
        assert_eq!(
            (judged.found(), judged.not_relevant(), judged.len()),
            (&[(1, 2), (3, 1)][..], &[(2, 0)][..], 3)
        );
    }

    #[test]
    fn impossible_ranks_are_refused_with_what_was_wanted_and_found() {
        for (ranks, gallery, message) in [
            (vec![], 0, "gallery: wanted at least one item, found 0"),
            (vec![(0, 1)], 3, "rank: wanted 1 to 3, the gallery size, found 0"),
            (vec![(4, 1), (1, 1)], 3, "rank: wanted 1 to 3, the gallery size, found 4"),
            (vec![(2, 1), (1, 1), (2, 5)], 3, "rank: wanted distinct ranks, found 2 twice"),
            (vec![(2, 1), (1, 0)], 3, "gain: wanted at least 1 for a relevant document, found 0"),
        ] {
            assert_eq!(Ranks::new(ranks, gallery).expect_err(message).to_string(), message);
        }
        let ranks = Ranks::new(vec![(2, 1)], 3).expect("valid");
        assert_eq!(ranks.clone().with_missing(vec![1, 0]), Err(RanksError::ZeroGain));
        for (others, missing, error) in [
            (vec![(2, 0)], vec![], RanksError::Repeated { rank: 2 }),
            (vec![(1, 0), (1, -1)], vec![], RanksError::Repeated { rank: 1 }),
            (vec![(4, 0)], vec![], RanksError::OutOfGallery { rank: 4, gallery: 3 }),
            (vec![(1, 1)], vec![], RanksError::Relevant { found: 1 }),
            (vec![(1, 0)], vec![-1, 2], RanksError::Relevant { found: 2 }),
        ] {
            assert_eq!(ranks.clone().with_not_relevant(others, missing), Err(error));
        }
    }
}
