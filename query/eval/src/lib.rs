//! Runs, relevance judgements and ranking measures; pure: bytes and numbers in, numbers out.
//!
//! Four types carry an evaluation, each checked once where it is built and trusted afterwards:
//!
//! * [`Qrels`]: who is relevant to what, read strictly from a file of TREC's, MS MARCO's, BEIR's or ranx's form;
//! * [`Run`]: what a system answered, read as strictly; [`place`] finds in it what is judged;
//! * [`Ranks`]: for one query, the ranks of its judged documents in a list of known length. An
//!   engine computes them over its whole gallery, so that no full ranking has to be kept;
//! * [`Measure`]: a closed set of measures with parameters, parsed from and printed to ir-measures' names.
//!
//! [`per_query`] gives one query's value, [`aggregate`] makes one number of many values, and
//! [`evaluate`] does both for a table of measures. [`Resampling`] has intervals and tests, [`holm`] corrects for
//! several tests, [`Roc`] is the curve over all queries.
//!
//! ```
//! use dehub_eval::{Gallery, Measure, Qrels, Ranks, Run, TieOrder, evaluate, place};
//!
//! let qrels = Qrels::parse("qrels.txt", "q1 0 cat 2\nq1 0 dog 1\nq2 0 owl 1\n")?;
//! assert_eq!(qrels.relevant("q1").len(), 2);
//!
//! // In a gallery of 100, `cat` came first, `dog` tenth and `owl` third.
//! let queries = [Ranks::new(vec![(1, 2), (10, 1)], 100)?, Ranks::new(vec![(3, 1)], 100)?];
//! let measures = ["R@1".parse::<Measure>()?, "Success@1".parse()?, "MdR".parse()?];
//! assert_eq!(evaluate(&queries, &measures), [0.25, 0.5, 2.0]);
//!
//! let run = Run::read("run.txt", "q1 Q0 cat 1 0.9 system\nq1 Q0 hen 2 0.7 system\n".as_bytes())?;
//! let placed = place(&run, &qrels, Gallery::Size(100), TieOrder::Ids);
//! assert_eq!(evaluate(&placed.ranks, &measures), [0.25, 0.5, 51.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the names mean
//!
//! [`Kind`] defines them. What a query counts for that finds nothing, or has nothing to be found:
//!
//! | name | over queries | nothing found |
//! |---|---|---|
//! | `MdR` | median | one rank beyond the gallery, or beyond the longest list where that is not known |
//! | `MnR` | mean | the same |
//! | `AUC` | mean | 0, if there is an irrelevant document to compare with |
//! | `ann_recall@k` | mean | 0, if there is something to be found |
//! | all others | mean | 0 |
//!
//! `R@k` is the share of relevant documents found, as in ir-measures and trec_eval. Papers on cross-modal retrieval
//! call `R@k` what is `Success@k` there and here. The two agree only when every query has one relevant document.
//!
//! # Rules
//!
//! A query never drops out because it did badly: with nothing found it counts as the last
//! column says. Only `AUC` leaves queries out, those whose whole list is relevant, since
//! there is no pair to order, and `ann_recall@k` those without a neighbour to find. Lists are ordered by score
//! descending and then by id descending, for every measure; only `AUC` counts equal scores half. Numbers are `f64`. A
//! query's sum runs by ascending rank, a sum over queries by ascending value, so the order of the queries cannot change
//! a single bit.

mod evaluate;
mod json;
mod measure;
mod placing;
mod qrels;
mod ranks;
mod roc;
mod run;
mod testing;
mod text;

pub use evaluate::{aggregate, evaluate, per_query};
pub use measure::{Gain, Kind, Measure, MeasureError};
pub use placing::{Gallery, Gaps, Placed, TieOrder, place};
pub use qrels::Qrels;
pub use ranks::{Ranks, RanksError};
pub use roc::{Roc, RocPoint};
pub use run::{Run, Scored};
pub use testing::{Comparison, Interval, Resampling, Test, holm};
pub use text::{FOUND_CHARS_MAX, Field, InputError, LINE_BYTES_MAX, Place};
