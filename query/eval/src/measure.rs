//! The measures, their names, and which of them the default table shows.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A ranking measure. `Display` prints its name and `FromStr` reads exactly that name, so
/// every name that parses prints back as itself.
///
/// For what a query with nothing found counts, see the table of the [package](crate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// `R@k`: the share of queries with a relevant document among the first k. The recall of
    /// papers on cross-modal retrieval (Karpathy and Fei-Fei 2015, with five captions an
    /// image); `Success@k` in ir-measures, `hit_rate@k` in ranx. *Not* the share of relevant
    /// documents found, which trec_eval and ir-measures call recall.
    Recall(NonZeroU32),
    /// `MdR`: the median over queries of the best rank of a relevant document; for an even
    /// number of queries the mean of the two middle ranks. Smaller is better.
    MedianRank,
    /// `MnR`: the mean over queries of the best rank of a relevant document. Smaller is better.
    MeanRank,
    /// `MRR@k`: the mean over queries of 1 / best rank, or 0 if the best rank is beyond k
    /// (Voorhees 1999; `RR@k` in ir-measures).
    ReciprocalRank(NonZeroU32),
    /// `nDCG@k`: the sum of gain / log2(1 + rank) over the relevant documents among the first
    /// k, over the same sum for the best possible ranking (Järvelin and Kekäläinen 2002, with
    /// the discount of trec_eval's `ndcg_cut`). Gains are linear: a relevance of 3 is worth 3.
    /// The best possible ranking holds *all* relevant documents, missing ones too.
    Ndcg(NonZeroU32),
    /// `AUC`: the mean over queries of the share of pairs (relevant, irrelevant) in which the
    /// relevant document is ranked first, which is the area under the ROC curve (Hanley and
    /// McNeil 1982). With found ranks r1 < … < rm of n this is 1 − Σ(ri − i) / (m(n − m)).
    /// A missing document loses all its pairs. Queries with m = n are left out.
    Auc,
}

/// Why a text is not the name of a measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// No measure has this name. Names are case-sensitive.
    #[error("measure: wanted one of R@k, MdR, MnR, MRR@k, nDCG@k, AUC, found {found:?}")]
    Unknown {
        /// The text given.
        found: String,
    },
    /// What follows the `@` is not a rank.
    #[error(
        "measure {measure}@k: wanted k from 1 to {}, without sign or leading zero, found {found:?}",
        u32::MAX
    )]
    Cutoff {
        /// The name before the `@`.
        measure: &'static str,
        /// The text after the `@`; empty if there is no `@`.
        found: String,
    },
}

impl Measure {
    /// The measures of the default table: `R@1 R@5 R@10 MdR MRR@10 nDCG@10 AUC`.
    pub fn default_table() -> [Measure; 7] {
        const ONE: NonZeroU32 = NonZeroU32::MIN;
        const FIVE: NonZeroU32 = NonZeroU32::new(5).expect("5 is not 0");
        const TEN: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
        [
            Measure::Recall(ONE),
            Measure::Recall(FIVE),
            Measure::Recall(TEN),
            Measure::MedianRank,
            Measure::ReciprocalRank(TEN),
            Measure::Ndcg(TEN),
            Measure::Auc,
        ]
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Recall(k) => f.pad(&format!("R@{k}")),
            Measure::MedianRank => f.pad("MdR"),
            Measure::MeanRank => f.pad("MnR"),
            Measure::ReciprocalRank(k) => f.pad(&format!("MRR@{k}")),
            Measure::Ndcg(k) => f.pad(&format!("nDCG@{k}")),
            Measure::Auc => f.pad("AUC"),
        }
    }
}

impl FromStr for Measure {
    type Err = MeasureError;

    fn from_str(name: &str) -> Result<Measure, MeasureError> {
        let (family, cut) = name.split_once('@').unwrap_or((name, ""));
        match family {
            "R" => cutoff("R", cut).map(Measure::Recall),
            "MRR" => cutoff("MRR", cut).map(Measure::ReciprocalRank),
            "nDCG" => cutoff("nDCG", cut).map(Measure::Ndcg),
            _ => match name {
                "MdR" => Ok(Measure::MedianRank),
                "MnR" => Ok(Measure::MeanRank),
                "AUC" => Ok(Measure::Auc),
                _ => Err(MeasureError::Unknown { found: name.to_owned() }),
            },
        }
    }
}

fn cutoff(measure: &'static str, text: &str) -> Result<NonZeroU32, MeasureError> {
    match text.parse::<NonZeroU32>() {
        Ok(k) if k.to_string() == text => Ok(k),
        _ => Err(MeasureError::Cutoff { measure, found: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_parses_prints_back_as_itself() {
        for name in ["R@1", "R@4294967295", "MdR", "MnR", "MRR@10", "nDCG@100", "AUC"] {
            assert_eq!(name.parse::<Measure>().expect(name).to_string(), name);
        }
        assert_eq!(format!("{:>8}|{:<6}|", Measure::default_table()[4], Measure::Auc), "  MRR@10|AUC   |");
    }

    #[test]
    fn the_default_table_is_the_one_of_cross_modal_papers() {
        let names = Measure::default_table().map(|measure| measure.to_string());
        assert_eq!(names.join(" "), "R@1 R@5 R@10 MdR MRR@10 nDCG@10 AUC");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_what_was_wanted() {
        let unknown =
            |found| format!("measure: wanted one of R@k, MdR, MnR, MRR@k, nDCG@k, AUC, found {found:?}");
        let cutoff = |measure, found| {
            let range = "wanted k from 1 to 4294967295, without sign or leading zero";
            format!("measure {measure}@k: {range}, found {found:?}")
        };
        for (name, message) in [
            ("", unknown("")),
            ("map", unknown("map")),
            ("ndcg@10", unknown("ndcg@10")),
            ("MdR@5", unknown("MdR@5")),
            ("AUC ", unknown("AUC ")),
            ("R", cutoff("R", "")),
            ("R@", cutoff("R", "")),
            ("R@0", cutoff("R", "0")),
            ("R@05", cutoff("R", "05")),
            ("MRR@+5", cutoff("MRR", "+5")),
            ("nDCG@10@2", cutoff("nDCG", "10@2")),
            ("nDCG@4294967296", cutoff("nDCG", "4294967296")),
        ] {
            assert_eq!(name.parse::<Measure>().expect_err(name).to_string(), message);
        }
    }
}
