//! A question as data: parsed, planned, executed on a snapshot, explained, evaluated.
//!
//! ```text
//! Query → Prepared (checked against the snapshot) → Plan (pure; prints as text) → Response
//! ```

mod calibrate;
mod drift;
mod error;
mod evaluate;
mod execute;
mod explain;
mod exposure;
mod filter;
mod hubness;
mod influence;
mod judged;
mod matrix;
mod outcome;
mod plan;
mod query;
mod ranking;
mod recall;
mod request;
mod sources;
mod staleness;
mod texts;
mod tune;
mod values;

pub use calibrate::{CalibrateError, calibrate_if_due};
pub use drift::{DRIFT_SAMPLE_MIN, Drift, Likeness, drift};
pub use error::QueryError;
pub use evaluate::{EvalRow, Evaluation, LabelledQuery, QueryTruth, evaluate, evaluate_filtered};
pub use execute::{Hit, Response, run, run_within};
pub use explain::{Explanation, explain, explain_within};
pub use exposure::{Exposure, ExposureStep, Reach, exposure};
pub use filter::{
    Area, Bounds, Condition, EARTH_RADIUS_METRES, Exact, Filter, FilterTextError, Match, Matcher, MinShould,
    OneOf, Selectivity, Slice, Test, Words,
};
pub use hubness::{Comparison, HubnessRow, compare, hubness};
pub use influence::{Influence, PointBias, influences, leaks, point_biases};
pub use judged::{Judged, JudgedOptions, rank_judged};
pub use matrix::{
    MatrixBank, MatrixBanks, MatrixCorrection, MatrixError, MatrixQuestion, NestedSizes, Similarities,
    SourceError, VectorSimilarities, fit_matrix, fit_nested, rank_matrix,
};
pub use outcome::{
    Measured, Pooled, Ranked, Relevant, Roc, bank_order, lorenz, measured, roc, spread, values,
};
pub use plan::{Engine, Plan, Stage, plan};
pub use query::{
    BATCH_QUERIES_MAX, LIMIT_DEFAULT, LIMIT_MAX, PRIOR_WEIGHT_MAX, Query, RECALL_DEFAULT, Ranking, Search,
    Settings, Source,
};
pub use recall::{Compared, RankingRecall, RecallOptions, RecallRow, WorkDone, found_share, recall};
pub use request::{
    Answered, FEEDBACK_DEPTH_DEFAULT, Feedback, FieldScore, Found, Fused, FusedSource, Fusion, Group,
    GroupKey, Grouping, HYBRID_DEPTH_DEFAULT, HYBRID_FUSION, HYBRID_RRF_K, Kind, MatrixRow, Normalization,
    Pair, Part, RRF_K_DEFAULT, Request, RequestError, Strategy, answer, explain_request, field_scores, group,
    matrix, serve,
};
pub use sources::{SourceInfluence, source_influences};
pub use staleness::{Bound, Staleness};
pub use texts::{WordOptions, rank_by_words};
pub use tune::{
    Choice, Estimate, Evidence, Finding, QUERIES_MIN, ROUNDS_MAX, ROUNDS_MIN, RawRow, Reason, TuneError,
    TuneMethods, TuneOptions, TuneReport, TuneRow, Verdict, auto_methods, choose, score_deviation, tune,
    tune_by_pairs, tune_methods,
};
pub use values::{FacetCount, OrderBy, OrderValue, Page, facets, ordered, page};

pub use dehub_eval::{Measure, MeasureError, Qrels, Ranks};
pub use dehub_normalize::{BankKind, Method, MethodError, MethodInput, Occurrence};
