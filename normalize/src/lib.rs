//! The mathematics of hubness: corrections, the statistics they are fitted from, and measures of
//! hubness. Pure: no storage, no clock, no randomness.
//!
//! A correction never touches the index. It is a [`Method`]: some [`Statistic`]s of each point over
//! a bank of reference queries, and a weight for each. The score it serves is
//!
//! ```text
//! score(q, p) = scale(p) · sim(q, p) − Σ weight · statistic(p)
//! ```
//!
//! A few methods rank by a score that is no such sum; theirs has a [`Scorer`].
//!
//! Two methods that use the same statistic of the same bank share it.

mod activation;
mod compress;
mod duplicates;
mod exact;
mod fit;
mod growth;
mod hubness;
mod kept;
mod method;
mod method_input;
mod methods;
mod perplexity;
mod rewrite;
mod scorer;
mod shard;
mod sinkhorn;
mod statistic;
mod sums;

pub use activation::Activation;
pub use compress::{BiasError, HERD_CANDIDATES_MAX, HERD_POINTS_MAX, WeightedBank, bias_error, herd, kmeans};
pub use duplicates::{Duplicates, Group, Representative, Sameness, group_duplicates};
pub use fit::{Bank, Points, fit_activation, fit_entries, fit_rows, fit_states, fit_together, rows_holding};
pub use growth::{Growth, Unseen};
pub use hubness::{Occurrence, hub_share_at_random, robin_hood_at_random};
pub use kept::{KLargest, Nearest};
pub use method::{BankKind, Guard, Method, MethodError, Parameter, ParameterKind, Term};
pub use method_input::MethodInput;
pub use perplexity::{PERPLEXITY_POINTS_MAX, PerplexityError, beta_of_perplexity, mean_entropy};
pub use rewrite::{Rewrite, RewriteError, Rewriter};
pub use scorer::{PointSide, QueryScorer, Scorer};
pub use shard::{Partial, Partials, shard_entries, shard_of};
pub use sinkhorn::{fit_potentials, fit_potentials_while};
pub use statistic::{Block, Gap, State, StateError, Statistic};
pub use sums::{LogSumExp, Moments};
