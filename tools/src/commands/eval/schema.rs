//! The results of an evaluation as JSON; `docs/evaluation.md` tells what each field means.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cli::Eval;

/// Raised when a field changes its meaning or goes away.
pub(crate) const SCHEMA: u32 = 1;

/// Values by name, in an order that means something.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named(Vec::new())
    }
}

impl<T> Named<T> {
    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Named<T>, D::Error> {
        struct Pairs<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Named(pairs))
            }
        }
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

/// Everything an evaluation found, and what it was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version that made the results.
    pub dehub: String,
    /// Every option of the command.
    pub request: Eval,
    /// The named vector of the collection that was meant.
    pub using: Option<String>,
    /// The files read.
    pub inputs: Vec<Input>,
    /// The collection read.
    pub collection: Option<CollectionRead>,
    /// Banks that hold test queries.
    pub leaks: Vec<Leak>,
    /// Queries for points.
    #[serde(flatten)]
    pub forward: Direction,
    /// Points for queries.
    pub reverse: Option<Direction>,
}

/// A file read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Input {
    /// What it was read as: the option that named it.
    pub role: String,
    /// The path as given.
    pub path: PathBuf,
    /// The BLAKE3 hash of its content.
    pub blake3: String,
    /// Rows and columns, of matrices and vectors.
    pub shape: Option<[u64; 2]>,
}

/// A collection read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollectionRead {
    /// Its name as given.
    pub name: String,
    /// The last commit seen.
    pub sequence: u64,
    /// How many points it has.
    pub points: usize,
    /// How many entries each of its banks has.
    pub banks: Named<usize>,
}

/// A bank that holds test queries: corrections fitted from it look better than they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Leak {
    /// The bank's name or file.
    pub bank: String,
    /// How many different test queries it holds.
    pub queries: usize,
}

/// One direction of retrieval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Direction {
    /// How many points are ranked, as a name for what is seen of the gallery.
    pub view: String,
    /// How many points are ranked.
    pub points: usize,
    /// How many judged queries are measured.
    pub queries: usize,
    /// Queries without judgements, which count for hubness only.
    pub unjudged: usize,
    /// Judged queries that were not given.
    pub not_given: usize,
    /// Judged ids that no point has.
    pub not_in_gallery: usize,
    /// The ids of the measured queries, if their values are told.
    pub query_ids: Option<Vec<String>>,
    /// A row for each ranking, raw first.
    pub rows: Vec<Row>,
    /// A curve for each method, over sizes of the query bank.
    pub curves: Vec<Curve>,
}

/// One ranking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// `raw`, or the method's label.
    pub method: String,
    /// The installed correction as `name@version`.
    pub correction: Option<String>,
    /// Measures of relevance in the order asked for, then of hubness.
    pub measures: Named<f64>,
    /// Of measures of relevance.
    pub intervals: Named<Interval>,
    /// For k = 1, 5 and 10.
    pub hubness: Vec<HubnessAt>,
    /// The points that occur most often among the best ten.
    pub hubs: Vec<Hub>,
    /// One threshold for all queries; none for scores that are no weighted sums over a collection.
    pub roc: Option<RocCurve>,
    /// For each measure of relevance a value for each query of `query_ids`; null for one it leaves out.
    pub by_query: Option<Named<Vec<Option<f64>>>>,
}

/// A 95 % interval over queries drawn with replacement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The lower end for the difference from raw, over the same draws.
    pub gain_low: f64,
    /// The upper end.
    pub gain_high: f64,
}

/// `N_k`: how often points occur among the best `k`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HubnessAt {
    /// Of how many answers.
    pub k: usize,
    /// The third standardised moment.
    pub skewness: f64,
    /// The Robin Hood index.
    pub robin_hood: f64,
    /// What it would be if every query drew its answers at random.
    pub robin_hood_at_random: f64,
    /// The share of points that never occur.
    pub antihub_share: f64,
    /// The largest count.
    pub max: u32,
    /// Steps of counts: least, most, how many points.
    pub histogram: Vec<(u32, u32, usize)>,
    /// The share of all occurrences that the least frequent points have, at even shares of the points from 0 to 1.
    pub lorenz: Vec<f64>,
}

/// A frequent point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hub {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: Option<String>,
    /// How often it is among the best ten.
    pub count: u32,
}

/// A curve of pooled scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RocCurve {
    /// The area under it.
    pub auc: f64,
    /// (share of others, share of relevant points) at or above thresholds.
    pub points: Vec<(f64, f64)>,
}

/// What a method does with parts of the query bank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// The method's label.
    pub method: String,
    /// A step for each size.
    pub steps: Vec<CurveStep>,
}

/// One size of the bank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CurveStep {
    /// How many entries.
    pub entries: usize,
    /// How many times they were drawn; 0 where the method looks at more entries.
    pub draws: usize,
    /// Measures over draws.
    pub measures: Named<Spread>,
}

/// A mean over draws.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation, with n − 1; 0 for one draw.
    pub deviation: f64,
}
