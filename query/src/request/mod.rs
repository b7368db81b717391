//! Requests: what a client wants in one call. A query, or what examples, lists and fusions make of several.
//!
//! ```text
//! Request → checked against the snapshot → prefetches → ranked, listed or fused → Answered
//! ```
//!
//! The meaning is Qdrant's: a filter holds for all prefetches below it, what is asked of prefetches ranks or fuses
//! only what they found, and a point that is named as an example, in a prefetch too, is no answer.

mod check;
mod examples;
mod execute;
mod feedback;
mod fusion;
mod groups;
mod listing;
mod matrix;
mod parts;
mod serve;
mod texts;

pub use examples::{Pair, Strategy};
pub use execute::{Answered, RequestError, answer, explain_request};
pub use feedback::{FEEDBACK_DEPTH_DEFAULT, Feedback};
pub(crate) use fusion::List;
pub use fusion::{Fusion, Normalization, RRF_K_DEFAULT};
pub use groups::{Group, GroupKey, Grouping, group};
pub use matrix::{MatrixRow, matrix};
pub use parts::{Fused, FusedSource, Part};
pub use serve::{Found, serve};
pub use texts::{FieldScore, HYBRID_DEPTH_DEFAULT, HYBRID_FUSION, HYBRID_RRF_K, field_scores};

use dehub_index::TextQuery;
use dehub_vector::PointId;

use crate::OrderBy;
use crate::query::{LIMIT_DEFAULT, Settings, Source};

/// What points are ranked or listed by.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Not at all: numbers as ids, ascending, then strings. Every score is 1.
    ById,
    /// By a value of the payload. Every score is 1.
    OrderBy(OrderBy),
    /// At random. Every score is 1.
    Sample {
        /// What decides which points.
        seed: u64,
    },
    /// By the score of a query.
    Nearest(Source),
    /// By points to be like and points to be unlike.
    Recommend {
        /// To be like.
        positive: Vec<Source>,
        /// To be unlike.
        negative: Vec<Source>,
        /// What is made of them.
        strategy: Strategy,
    },
    /// By how many pairs place a point on the side of their positive, then by the target.
    Discover {
        /// What to search for.
        target: Source,
        /// The pairs.
        context: Vec<Pair>,
    },
    /// By how far a point is on the wrong side of pairs.
    Context(Vec<Pair>),
    /// By a query and its first answers.
    Feedback(Feedback),
    /// By the words of texts. Every score is of BM25.
    Text(TextQuery),
    /// By the places or scores that the prefetches gave.
    Fusion(Fusion),
}

impl Kind {
    /// What it is called where requests are told of.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Nearest(Source::Vector(_)) => "vector",
            Kind::Nearest(Source::Point(_)) => "point",
            Kind::ById => "id",
            Kind::OrderBy(_) => "order",
            Kind::Sample { .. } => "sample",
            Kind::Recommend { .. } => "recommend",
            Kind::Discover { .. } => "discover",
            Kind::Context(_) => "context",
            Kind::Feedback(_) => "feedback",
            Kind::Text(_) => "text",
            Kind::Fusion(_) => "fusion",
        }
    }
}

/// One request, or a prefetch of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What points are ranked by.
    pub kind: Kind,
    /// What is asked first. If there is any, only what these find is ranked.
    pub prefetch: Vec<Request>,
    /// The named vector to search by; `None` is the unnamed one.
    pub using: Option<String>,
    /// The limit, the filter, and how nearest points are found and ranked.
    pub settings: Settings,
    /// How many of the best are skipped; they do not count for the limit.
    pub offset: usize,
    /// What a score must be better than; of a fusion, as good as.
    pub score_threshold: Option<f32>,
    /// Points that are no answer, as those that are named as examples; one that is not there is passed over.
    pub left_out: Vec<PointId>,
}

impl Request {
    /// A request without prefetches, offset and threshold.
    pub fn new(kind: Kind, settings: Settings) -> Request {
        let (prefetch, left_out) = (Vec::new(), Vec::new());
        Request { kind, prefetch, using: None, settings, offset: 0, score_threshold: None, left_out }
    }

    /// How many of the best are found: those to skip and those to answer with.
    pub(crate) fn end(&self) -> usize {
        self.offset.saturating_add(self.settings.limit.unwrap_or(LIMIT_DEFAULT))
    }
}
