//! What one query's evaluation needs: where its relevant documents were ranked.

/// The ranks and gains of one query's relevant documents, in a gallery of known size.
///
/// A relevant document that is not in the gallery is *missing*: no ranking can find it, so it
/// has a gain but no rank, and every measure counts it as never found.
// INVARIANT: `found` is sorted by rank; ranks are distinct and within 1..=gallery; gains are
// positive; gallery is positive. All measures rely on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    found: Vec<(u32, u32)>,
    missing_gains: Vec<u32>,
    gallery: u32,
}

/// Why ranks cannot be those of a query's relevant documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RanksError {
    /// The gallery is empty, so nothing can be ranked.
    #[error("gallery: wanted at least one item, found 0")]
    EmptyGallery,
    /// A rank is 0 or beyond the gallery.
    #[error("rank: wanted 1 to {gallery}, the gallery size, found {rank}")]
    OutOfGallery {
        /// The rank given.
        rank: u32,
        /// The number of items in the gallery.
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
}

impl Ranks {
    /// The relevant documents as `(rank, gain)` pairs in any order, ranks counted from 1, in a
    /// gallery of `gallery` items.
    pub fn new(mut ranks: Vec<(u32, u32)>, gallery: u32) -> Result<Ranks, RanksError> {
        if gallery == 0 {
            return Err(RanksError::EmptyGallery);
        }
        ranks.sort_unstable();
        if let Some(&(rank, _)) = ranks.iter().find(|(rank, _)| !(1..=gallery).contains(rank)) {
            return Err(RanksError::OutOfGallery { rank, gallery });
        }
        if let Some(pair) = ranks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RanksError::Repeated { rank: pair[0].0 });
        }
        refuse_zero(ranks.iter().map(|&(_, gain)| gain))?;
        Ok(Ranks { found: ranks, missing_gains: Vec::new(), gallery })
    }

    /// The same ranks, with the gains of the relevant documents that the gallery lacks.
    /// Replaces what an earlier call said.
    pub fn with_missing(self, missing_gains: Vec<u32>) -> Result<Ranks, RanksError> {
        refuse_zero(missing_gains.iter().copied())?;
        Ok(Ranks { missing_gains, ..self })
    }

    /// The `(rank, gain)` pairs of the relevant documents in the gallery, best rank first.
    pub fn found(&self) -> &[(u32, u32)] {
        &self.found
    }

    /// The rank of the relevant document ranked first, if the gallery has one.
    pub fn best(&self) -> Option<u32> {
        self.found.first().map(|&(rank, _)| rank)
    }

    /// How many relevant documents the gallery lacks.
    pub fn missing(&self) -> usize {
        self.missing_gains.len()
    }

    /// The gains of the relevant documents that the gallery lacks, in the order given.
    pub fn missing_gains(&self) -> &[u32] {
        &self.missing_gains
    }

    /// The number of items in the gallery, at least 1.
    pub fn gallery(&self) -> u32 {
        self.gallery
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
        let missing = Ranks::new(vec![], 3).expect("valid").with_missing(vec![1, 0]);
        assert_eq!(missing, Err(RanksError::ZeroGain));
    }
}
