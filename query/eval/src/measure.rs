//! The measures, their names and parameters, and which of them the default table shows.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// What a relevant document is worth to [`Kind::Ndcg`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gain {
    /// Its relevance: `dcg='log2'`, the default (Järvelin and Kekäläinen 2002).
    Linear,
    /// 2 to its relevance, less 1: `dcg='exp-log2'` (Burges et al. 2005).
    Exponential,
}

/// What a measure looks at. R is the number of relevant documents, found or not, and a *list* is what was ranked for
/// one query. For what a query with nothing found counts, see the table of the [package](crate).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `nDCG`: the sum of gain / log2(1 + rank) over the relevant documents, over the same sum for the best possible
    /// ranking of all R (Järvelin and Kekäläinen 2002, with the discount of trec_eval).
    Ndcg(Gain),
    /// `AP`: the sum of the precision at the rank of each relevant document found, over R (Harman 1992).
    Ap,
    /// `RR`: 1 / rank of the first relevant document (Voorhees 1999).
    Rr,
    /// `R`: the share of the relevant documents that are found.
    Recall,
    /// `P`: the share of the first k places that have a relevant document; places after the end of the list are k's.
    Precision,
    /// `Success`: 1 if a relevant document is found. The recall of papers on cross-modal retrieval.
    Success,
    /// `Judged`: the share of the documents listed that are judged, relevant or not.
    Judged,
    /// `RBP`: (1 − p) times the sum of p to the power of rank − 1 over relevant documents (Moffat and Zobel 2008).
    /// The number is p.
    Rbp(f64),
    /// `ERR`: the expected reciprocal of the rank where a reader stops (Chapelle et al. 2009), who finds what they want
    /// in a document of relevance g with probability (2^g − 1) / 2^4. A relevance above 4 counts as 4.
    Err,
    /// `infAP`: AP as inferred from judgements that are a sample of a pool (Yilmaz and Aslam 2006). A negative
    /// relevance says that a document was in the pool and is not judged.
    InfAp,
    /// `Bpref`: how few documents judged not relevant stand before relevant ones (Buckley and Voorhees 2004, as
    /// trec_eval has it). Negative relevances count as not judged.
    Bpref,
    /// `MdR`: the median over queries of the rank of the first relevant document; for an even number of queries the
    /// mean of the two in the middle. Smaller is better.
    MedianRank,
    /// `MnR`: the mean over queries of the rank of the first relevant document. Smaller is better.
    MeanRank,
    /// `AUC`: the share of pairs (relevant, other) in which the relevant document has the higher score, those of equal
    /// scores counting half: the area under the ROC curve (Hanley and McNeil 1982). A relevant document that is not
    /// listed loses all its pairs. Queries whose lists have relevant documents only are left out.
    Auc,
    /// `ann_recall`: how many of the k nearest, as an exact search finds them, are among the first k, over how many
    /// there are. A document as near as the k-th counts as one of them; never above 1. Judgements are those of
    /// [`Qrels::of_truth`](crate::Qrels::of_truth), or any with a relevance that says which are nearer. Queries without
    /// a relevant document are left out.
    AnnRecall,
}

/// A ranking measure with its parameters. `Display` prints the name that ir-measures has for it, and `FromStr` reads
/// that name and the usual others: `mrr@10` for `RR@10`, `map`, `recall@5`, `hit_rate@5` for `Success@5`. Letters may
/// be small or capital.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    kind: Kind,
    cutoff: Option<NonZeroU32>,
    rel: NonZeroU32,
    judged_only: bool,
}

/// Why a text is not the name of a measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// No measure has this name.
    #[error(
        "measure: wanted one of nDCG@k, AP, RR@k, R@k, P@k, Success@k, Judged@k, RBP, ERR@k, infAP, Bpref, MdR, MnR, \
         AUC, ann_recall@k, found {found:?}"
    )]
    Unknown {
        /// The text given.
        found: String,
    },
    /// What follows the `@` is not a rank, or there is none where one is needed.
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
    /// The measure has no cutoff.
    #[error("measure {measure}: wanted no cutoff, found {found:?}")]
    NoCutoff {
        /// The name before the `@`.
        measure: &'static str,
        /// The text after the `@`.
        found: String,
    },
    /// A parameter that the measure lacks, or a value that the parameter cannot have.
    #[error("measure {measure}: wanted {wanted} between the brackets, found {found:?}")]
    Parameter {
        /// The name before the bracket.
        measure: &'static str,
        /// The parameters it has.
        wanted: &'static str,
        /// The parameter as given.
        found: String,
    },
}

/// Whether a measure has a cutoff.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cutoff {
    Needed,
    Possible,
    None,
}

/// What a measure is called and what it takes.
struct Family {
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    cutoff: Cutoff,
    /// The parameters besides, as an error lists them.
    parameters: &'static str,
}

const GRADED: &str = "rel=1 or more, judged_only=True or False";
const NOTHING: &str = "nothing";

/// The persistence of RBP when none is given.
const PERSISTENCE: f64 = 0.8;

const FAMILIES: [Family; 15] = {
    const fn family(
        name: &'static str,
        aliases: &'static [&'static str],
        kind: Kind,
        cutoff: Cutoff,
        parameters: &'static str,
    ) -> Family {
        Family { name, aliases, kind, cutoff, parameters }
    }
    use Cutoff::{Needed, None, Possible};
    [
        family(
            "nDCG",
            &["ndcg_cut"],
            Kind::Ndcg(Gain::Linear),
            Possible,
            "dcg='log2' or 'exp-log2', judged_only=True or False",
        ),
        family("AP", &["map", "map_cut"], Kind::Ap, Possible, GRADED),
        family("RR", &["mrr", "recip_rank"], Kind::Rr, Possible, GRADED),
        family("R", &["recall"], Kind::Recall, Needed, GRADED),
        family("P", &["precision"], Kind::Precision, Needed, GRADED),
        family("Success", &["hit_rate"], Kind::Success, Needed, GRADED),
        family("Judged", &[], Kind::Judged, Possible, NOTHING),
        family("RBP", &[], Kind::Rbp(PERSISTENCE), Possible, "p above 0 and below 1, rel=1 or more"),
        family("ERR", &[], Kind::Err, Possible, NOTHING),
        family("infAP", &[], Kind::InfAp, None, "rel=1 or more"),
        family("Bpref", &[], Kind::Bpref, None, "rel=1 or more"),
        family("MdR", &[], Kind::MedianRank, None, NOTHING),
        family("MnR", &[], Kind::MeanRank, None, NOTHING),
        family("AUC", &[], Kind::Auc, None, NOTHING),
        family("ann_recall", &[], Kind::AnnRecall, Needed, NOTHING),
    ]
};

impl Measure {
    /// A measure with a cutoff and all other parameters at their defaults.
    pub const fn at(kind: Kind, cutoff: NonZeroU32) -> Measure {
        Measure { kind, cutoff: Some(cutoff), rel: NonZeroU32::MIN, judged_only: false }
    }

    /// A measure of whole lists with all parameters at their defaults.
    pub const fn whole(kind: Kind) -> Measure {
        Measure { kind, cutoff: None, rel: NonZeroU32::MIN, judged_only: false }
    }

    /// What it looks at.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// How many documents of a list it looks at; all without.
    pub const fn cutoff(&self) -> Option<NonZeroU32> {
        self.cutoff
    }

    /// The least relevance of a document that counts as relevant.
    pub const fn rel(&self) -> NonZeroU32 {
        self.rel
    }

    /// Whether documents without a judgement are passed over, as if they were not listed.
    pub const fn judged_only(&self) -> bool {
        self.judged_only
    }

    /// Whether it looks at documents judged not relevant, so that ranks need them too
    /// ([`Ranks::with_not_relevant`](crate::Ranks::with_not_relevant)).
    pub const fn needs_not_relevant(&self) -> bool {
        self.judged_only || matches!(self.kind, Kind::Judged | Kind::InfAp | Kind::Bpref)
    }

    /// Whether a smaller value is the better one.
    pub const fn is_smaller_better(&self) -> bool {
        matches!(self.kind, Kind::MedianRank | Kind::MeanRank)
    }

    /// Whether it is the median over queries, where others are means.
    pub const fn is_median(&self) -> bool {
        matches!(self.kind, Kind::MedianRank)
    }

    /// The measures of the default table: `R@1 R@5 R@10 MdR RR@10 nDCG@10 AUC`.
    pub fn default_table() -> [Measure; 7] {
        const ONE: NonZeroU32 = NonZeroU32::MIN;
        const FIVE: NonZeroU32 = NonZeroU32::new(5).expect("5 is not 0");
        const TEN: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");
        [
            Measure::at(Kind::Recall, ONE),
            Measure::at(Kind::Recall, FIVE),
            Measure::at(Kind::Recall, TEN),
            Measure::whole(Kind::MedianRank),
            Measure::at(Kind::Rr, TEN),
            Measure::at(Kind::Ndcg(Gain::Linear), TEN),
            Measure::whole(Kind::Auc),
        ]
    }

    fn family(&self) -> &'static Family {
        let same =
            |family: &&Family| std::mem::discriminant(&family.kind) == std::mem::discriminant(&self.kind);
        FAMILIES.iter().find(same).expect("every kind is in the list")
    }

    /// Takes `name=value`; false if the measure has no such parameter or the value is none of it.
    fn set(&mut self, name: &str, value: &str) -> bool {
        let parameters = self.family().parameters;
        if !parameters.split(", ").any(|known| known.starts_with(name)) || name.is_empty() {
            return false;
        }
        let unquoted = value.trim_matches(['\'', '"']);
        match (name, &mut self.kind) {
            ("rel", _) => match value.parse() {
                Ok(rel) => self.rel = rel,
                Err(_) => return false,
            },
            ("judged_only", _) => match value.to_ascii_lowercase().parse() {
                Ok(judged_only) => self.judged_only = judged_only,
                Err(_) => return false,
            },
            ("dcg", Kind::Ndcg(gain)) => match unquoted {
                "log2" => *gain = Gain::Linear,
                "exp-log2" => *gain = Gain::Exponential,
                _ => return false,
            },
            ("p", Kind::Rbp(persistence)) => match value.parse::<f64>() {
                Ok(p) if p > 0.0 && p < 1.0 => *persistence = p,
                Ok(_) | Err(_) => return false,
            },
            (_, _) => return false,
        }
        true
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parameters = Vec::new();
        if let Kind::Ndcg(Gain::Exponential) = self.kind {
            parameters.push("dcg='exp-log2'".to_owned());
        }
        if let Kind::Rbp(p) = self.kind {
            parameters.push(format!("p={p}"));
        }
        if self.rel != NonZeroU32::MIN {
            parameters.push(format!("rel={}", self.rel));
        }
        if self.judged_only {
            parameters.push("judged_only=True".to_owned());
        }
        let mut name = self.family().name.to_owned();
        if !parameters.is_empty() {
            name = format!("{name}({})", parameters.join(","));
        }
        if let Some(cutoff) = self.cutoff {
            name = format!("{name}@{cutoff}");
        }
        f.pad(&name)
    }
}

impl FromStr for Measure {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Measure, MeasureError> {
        let (head, cutoff) = match text.rsplit_once('@') {
            Some((head, cutoff)) => (head, Some(cutoff)),
            None => trec_cutoff(text).map_or((text, None), |(head, cutoff)| (head, Some(cutoff))),
        };
        let (name, parameters) = match head.strip_suffix(')').and_then(|head| head.split_once('(')) {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (head, None),
        };
        let unknown = || MeasureError::Unknown { found: text.to_owned() };
        let (family, gain) = named(name).ok_or_else(unknown)?;
        let mut measure = Measure::whole(family.kind);
        if let Some(gain) = gain {
            measure.kind = Kind::Ndcg(gain);
        }
        for given in parameters.into_iter().flat_map(|parameters| parameters.split(',')) {
            let (name, value) = given.split_once('=').unwrap_or((given, ""));
            if !measure.set(name.trim(), value.trim()) {
                return Err(MeasureError::Parameter {
                    measure: family.name,
                    wanted: family.parameters,
                    found: given.to_owned(),
                });
            }
        }
        measure.cutoff = match (family.cutoff, cutoff) {
            (Cutoff::None, Some(found)) => {
                return Err(MeasureError::NoCutoff { measure: family.name, found: found.to_owned() });
            }
            (Cutoff::None | Cutoff::Possible, None) => None,
            (Cutoff::Needed, None) => Some(rank(family.name, "")?),
            (Cutoff::Needed | Cutoff::Possible, Some(found)) => Some(rank(family.name, found)?),
        };
        Ok(measure)
    }
}

/// The family of this name or alias; ranx has one name for nDCG with exponential gains.
fn named(name: &str) -> Option<(&'static Family, Option<Gain>)> {
    if name.eq_ignore_ascii_case("ndcg_burges") {
        return Some((&FAMILIES[0], Some(Gain::Exponential)));
    }
    let is_called = |family: &&Family| {
        family.name.eq_ignore_ascii_case(name)
            || family.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    };
    FAMILIES.iter().find(is_called).map(|family| (family, None))
}

/// trec_eval writes cutoffs after an underscore: `ndcg_cut_10`, `P_5`.
fn trec_cutoff(text: &str) -> Option<(&str, &str)> {
    let (head, digits) = text.rsplit_once('_')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((head, digits))
}

fn rank(measure: &'static str, text: &str) -> Result<NonZeroU32, MeasureError> {
    match text.parse::<NonZeroU32>() {
        Ok(k) if k.to_string() == text => Ok(k),
        _ => Err(MeasureError::Cutoff { measure, found: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_printed_is_read_as_the_same_measure() {
        for name in [
            "R@1",
            "R@4294967295",
            "MdR",
            "MnR",
            "RR",
            "RR@10",
            "AP",
            "AP(rel=2)@100",
            "nDCG@100",
            "nDCG(dcg='exp-log2')@10",
            "P(rel=2,judged_only=True)@5",
            "RBP(p=0.8)",
            "RBP(p=0.95,rel=2)@20",
            "ERR@20",
            "infAP",
            "infAP(rel=3)",
            "Bpref",
            "Judged@10",
            "Success@1",
            "AUC",
            "ann_recall@10",
        ] {
            assert_eq!(name.parse::<Measure>().expect(name).to_string(), name);
        }
        assert_eq!(
            format!("{:>8}|{:<6}|", Measure::default_table()[4], Measure::whole(Kind::Auc)),
            "   RR@10|AUC   |"
        );
    }

    #[test]
    fn the_default_table_is_the_one_of_the_documents() {
        let names = Measure::default_table().map(|measure| measure.to_string());
        assert_eq!(names.join(" "), "R@1 R@5 R@10 MdR RR@10 nDCG@10 AUC");
    }

    #[test]
    fn names_of_other_tools_are_read_in_any_case() {
        for (name, wanted) in [
            ("MRR@10", "RR@10"),
            ("mrr@10", "RR@10"),
            ("recip_rank", "RR"),
            ("map", "AP"),
            ("MAP@100", "AP@100"),
            ("map_cut_100", "AP@100"),
            ("recall@5", "R@5"),
            ("recall_1000", "R@1000"),
            ("hit_rate@1", "Success@1"),
            ("precision@5", "P@5"),
            ("P_5", "P@5"),
            ("ndcg@10", "nDCG@10"),
            ("ndcg_cut_10", "nDCG@10"),
            ("ndcg_burges@10", "nDCG(dcg='exp-log2')@10"),
            ("NDCG(dcg=\"exp-log2\")", "nDCG(dcg='exp-log2')"),
            ("nDCG(dcg='log2', judged_only=false)@3", "nDCG@3"),
            ("bpref", "Bpref"),
            ("infap", "infAP"),
            ("rbp", "RBP(p=0.8)"),
            ("mdr", "MdR"),
            ("ANN_recall@1", "ann_recall@1"),
        ] {
            assert_eq!(name.parse::<Measure>().expect(name).to_string(), wanted, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_what_was_wanted() {
        let unknown = |found| {
            format!(
                "measure: wanted one of nDCG@k, AP, RR@k, R@k, P@k, Success@k, Judged@k, RBP, ERR@k, infAP, Bpref, \
                 MdR, MnR, AUC, ann_recall@k, found {found:?}"
            )
        };
        let cutoff = |measure, found| {
            let range = "wanted k from 1 to 4294967295, without sign or leading zero";
            format!("measure {measure}@k: {range}, found {found:?}")
        };
        let parameter = |measure, wanted, found| {
            format!("measure {measure}: wanted {wanted} between the brackets, found {found:?}")
        };
        for (name, message) in [
            ("", unknown("")),
            ("mean", unknown("mean")),
            ("AUC ", unknown("AUC ")),
            ("nDCG(", unknown("nDCG(")),
            ("MdR@5", "measure MdR: wanted no cutoff, found \"5\"".to_owned()),
            ("infAP@5", "measure infAP: wanted no cutoff, found \"5\"".to_owned()),
            ("R", cutoff("R", "")),
            ("R@", cutoff("R", "")),
            ("R@0", cutoff("R", "0")),
            ("R@05", cutoff("R", "05")),
            ("MRR@+5", cutoff("RR", "+5")),
            ("nDCG@4294967296", cutoff("nDCG", "4294967296")),
            ("P(rel=0)@5", parameter("P", GRADED, "rel=0")),
            ("P(p=0.5)@5", parameter("P", GRADED, "p=0.5")),
            ("P()@5", parameter("P", GRADED, "")),
            ("MdR(rel=2)", parameter("MdR", NOTHING, "rel=2")),
            ("MdR(nothing)", parameter("MdR", NOTHING, "nothing")),
            ("RBP(p=1)", parameter("RBP", "p above 0 and below 1, rel=1 or more", "p=1")),
            ("RBP(p=nan)", parameter("RBP", "p above 0 and below 1, rel=1 or more", "p=nan")),
            (
                "nDCG(dcg='ln')@5",
                parameter("nDCG", "dcg='log2' or 'exp-log2', judged_only=True or False", "dcg='ln'"),
            ),
        ] {
            assert_eq!(name.parse::<Measure>().expect_err(name).to_string(), message);
        }
    }
}
