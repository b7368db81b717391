//! Relevance judgements and ranking measures; pure: text and numbers in, numbers out.
//!
//! Three types carry an evaluation, each checked once where it is built and trusted afterwards:
//!
//! * [`Qrels`]: who is relevant to what, parsed strictly from a TREC file;
//! * [`Ranks`]: for one query, the exact ranks of its relevant documents and the gallery size.
//!   The engine computes ranks (score descending, then lower row), so no measure can break a
//!   tie in its own way, and no full ranking has to be kept;
//! * [`Measure`]: a closed set of measures, parsed from and printed to their names.
//!
//! [`per_query`] gives one query's value, [`aggregate`] makes one number of many values, and
//! [`evaluate`] does both for a table of measures.
//!
//! ```
//! use dehub_eval::{Measure, Qrels, Ranks, evaluate};
//!
//! let qrels = Qrels::parse("qrels.txt", "q1 0 cat 2\nq1 0 dog 1\nq2 0 owl 1\n")?;
//! assert_eq!(qrels.relevant("q1").len(), 2);
//!
//! // In a gallery of 100, `cat` came first, `dog` tenth and `owl` third.
//! let queries = [Ranks::new(vec![(1, 2), (10, 1)], 100)?, Ranks::new(vec![(3, 1)], 100)?];
//! let measures = ["R@1".parse::<Measure>()?, Measure::MedianRank];
//! assert_eq!(evaluate(&queries, &measures), [0.5, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the names mean
//!
//! | name | one query | over queries | nothing relevant in the gallery |
//! |---|---|---|---|
//! | `R@k` | 1 if a relevant document is among the first k | mean | 0 |
//! | `MdR` | best rank of a relevant document | median | n + 1 |
//! | `MnR` | best rank of a relevant document | mean | n + 1 |
//! | `MRR@k` | 1 / best rank, 0 beyond k | mean | 0 |
//! | `nDCG@k` | discounted gain of the first k over the best possible | mean | 0 |
//! | `AUC` | share of (relevant, irrelevant) pairs in the right order | mean | 0 |
//!
//! `R@k` is used as papers on cross-modal retrieval use it; ir-measures calls it `Success@k`
//! and keeps `R@k` for the share of relevant documents found. The two agree only when every
//! query has one relevant document.
//!
//! # Rules
//!
//! A query never drops out because it did badly: with nothing found it counts as the last
//! column says. Only `AUC` leaves queries out, those whose whole gallery is relevant, since
//! there is no pair to order. Numbers are `f64`. A query's sum runs by ascending rank, a sum
//! over queries by ascending value, so the order of the queries cannot change a single bit.

mod evaluate;
mod measure;
mod qrels;
mod ranks;

pub use evaluate::{aggregate, evaluate, per_query};
pub use measure::{Measure, MeasureError};
pub use qrels::{FOUND_CHARS_MAX, Field, Qrels, QrelsError};
pub use ranks::{Ranks, RanksError};
