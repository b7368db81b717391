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
mod exact;
mod fit;
mod hubness;
mod method;
mod methods;
mod scorer;
mod sinkhorn;
mod statistic;

pub use activation::Activation;
pub use fit::{Bank, Points, fit_activation, fit_states};
pub use hubness::{Occurrence, robin_hood_at_random};
pub use method::{BankKind, Guard, Method, MethodError, Parameter, ParameterKind, Term};
pub use scorer::{PointSide, QueryScorer, Scorer};
pub use sinkhorn::fit_potentials;
pub use statistic::{Block, Gap, KLargest, LogSumExp, Moments, Nearest, State, StateError, Statistic};
