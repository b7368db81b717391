//! What a collection is made with, and names that are safe as folder names.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use dehub_graph::CodeKind;
use dehub_vector::{Chunked, Dim, DimError, Metric, Numbers, Vector, VectorError};
use serde::{Deserialize, Serialize};

/// The longest name of a collection, a bank or a correction, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The name of a collection, a bank or a correction: 1 to 128 letters, digits and `_-.=(),`,
/// starting with a letter, a digit or `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A name with a character, a start or a length that names cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name `{found}` cannot be used: wanted 1 to 128 letters, digits and _-.=(), \
     starting with a letter, a digit or _"
)]
pub struct NameError {
    /// What was given, cut to 200 characters.
    pub found: String,
}

impl Name {
    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.=(),".contains(c);
        if starts_well && text.len() <= NAME_BYTES_MAX && text.chars().all(allowed) {
            Ok(Name(text.to_owned()))
        } else {
            Err(NameError { found: text.chars().take(200).collect() })
        }
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Name, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the graph keeps vectors. Answers are scored by the vectors themselves under each of these; a coarser
/// one makes walks cheaper and may cost recall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantization {
    /// As they are: 4 bytes a dimension.
    F32,
    /// In 16 bits: 2 bytes a dimension.
    Bf16,
    /// One byte a dimension, and a scale a vector.
    Int8,
    /// Projected on the directions in which points and the queries of the banks are long, then one byte a
    /// direction. Of few dimensions, and where most directions count, it is [`Quantization::Int8`].
    Reduced,
}

impl Quantization {
    /// Every kind, the finest first.
    pub const ALL: [Quantization; 4] =
        [Quantization::F32, Quantization::Bf16, Quantization::Int8, Quantization::Reduced];
    /// What a collection is made with that asks for none.
    pub const DEFAULT: Quantization = Quantization::Reduced;

    /// Its name, as it is read.
    pub fn name(self) -> &'static str {
        match self {
            Quantization::F32 => "f32",
            Quantization::Bf16 => "bf16",
            Quantization::Int8 => "int8",
            Quantization::Reduced => "reduced",
        }
    }

    /// The kind of code it is kept in.
    pub(crate) fn code(self) -> CodeKind {
        match self {
            Quantization::F32 => CodeKind::F32,
            Quantization::Bf16 => CodeKind::Bf16,
            Quantization::Int8 | Quantization::Reduced => CodeKind::Int8,
        }
    }
}

impl Default for Quantization {
    fn default() -> Quantization {
        Quantization::DEFAULT
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no quantization has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quantization {found:?} is unknown, wanted f32, bf16, int8 or reduced")]
pub struct QuantizationError {
    /// What was given.
    pub found: String,
}

impl FromStr for Quantization {
    type Err = QuantizationError;

    fn from_str(name: &str) -> Result<Quantization, QuantizationError> {
        let is_it = |kind: &Quantization| kind.name() == name;
        Quantization::ALL.into_iter().find(is_it).ok_or_else(|| QuantizationError { found: name.to_owned() })
    }
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A power cut: it is on the disk.
    #[default]
    Strict,
    /// The death of the process. A power cut may take the writes of about the last second, the newest first.
    Relaxed,
}

impl Durability {
    /// Its name, as it is read.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Strict => "strict",
            Durability::Relaxed => "relaxed",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no durability has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("durability {found:?} is unknown, wanted strict or relaxed")]
pub struct DurabilityError {
    /// What was given.
    pub found: String,
}

impl FromStr for Durability {
    type Err = DurabilityError;

    fn from_str(name: &str) -> Result<Durability, DurabilityError> {
        let is_it = |durability: &Durability| durability.name() == name;
        let found = [Durability::Strict, Durability::Relaxed].into_iter().find(is_it);
        found.ok_or_else(|| DurabilityError { found: name.to_owned() })
    }
}

/// How the graph of a collection is built, and from which size on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphConfig {
    /// Neighbours of a node, 2 to 128; twice as many on the ground layer.
    pub m: usize,
    /// Candidates kept while a node is linked, 1 to 4,096.
    pub ef_construction: usize,
    /// Below this many kilobytes of vectors a collection has no graph and is scanned exactly.
    pub full_scan_threshold: usize,
    /// How the graph keeps vectors; the only part that can be changed later.
    pub quantization: Quantization,
}

impl Default for GraphConfig {
    fn default() -> GraphConfig {
        GraphConfig {
            m: 16,
            ef_construction: 200,
            full_scan_threshold: 10_000,
            quantization: Quantization::DEFAULT,
        }
    }
}

/// What a collection is made with. It never changes, but for the quantization and the durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionConfig {
    /// The dimension of every vector.
    pub dim: Dim,
    /// How vectors are compared.
    pub metric: Metric,
    /// The graph.
    pub graph: GraphConfig,
    /// What acknowledged writes survive.
    pub durability: Durability,
    /// Whether a point has several vectors, compared by MaxSim: see [`CollectionConfig::with_multi`].
    pub multi: bool,
}

/// A configuration no collection can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The dimension is out of range.
    #[error(transparent)]
    Dim(#[from] DimError),
    /// A graph parameter is out of range.
    #[error("graph parameter `{parameter}` is {found}, wanted {least} to {most}")]
    Graph {
        /// Which.
        parameter: &'static str,
        /// What was given.
        found: usize,
        /// The smallest value taken.
        least: usize,
        /// The largest value taken.
        most: usize,
    },
    /// Multi-vectors under a metric that MaxSim has no meaning for.
    #[error(
        "multi-vectors are compared by the largest inner products: wanted the metric cosine or dot, found {found}"
    )]
    MultiMetric {
        /// The metric.
        found: Metric,
    },
}

impl CollectionConfig {
    /// A checked configuration, of strict durability.
    pub fn new(dim: usize, metric: Metric, graph: GraphConfig) -> Result<CollectionConfig, ConfigError> {
        let within = |parameter, found, least, most| {
            if (least..=most).contains(&found) {
                Ok(())
            } else {
                Err(ConfigError::Graph { parameter, found, least, most })
            }
        };
        within("m", graph.m, 2, 128)?;
        within("ef_construction", graph.ef_construction, 1, 4096)?;
        Ok(CollectionConfig {
            dim: Dim::new(dim)?,
            metric,
            graph,
            durability: Durability::Strict,
            multi: false,
        })
    }

    /// What the points of a collection with named vectors are kept by: no vectors, and never a graph.
    pub(crate) fn of_points(durability: Durability) -> CollectionConfig {
        let graph = GraphConfig { full_scan_threshold: usize::MAX, ..GraphConfig::default() };
        CollectionConfig { dim: Dim::ONE, metric: Metric::Dot, graph, durability, multi: false }
    }

    /// The same for points of one to [`dehub_vector::MULTI_MAX`] vectors each. The similarity of a query and a point is
    /// [`dehub_vector::max_sim`], and every search is exact.
    ///
    /// # Errors
    /// [`ConfigError::MultiMetric`] under [`Metric::Euclidean`].
    pub fn with_multi(self) -> Result<CollectionConfig, ConfigError> {
        match self.metric {
            Metric::Cosine | Metric::Dot => Ok(CollectionConfig { multi: true, ..self }),
            Metric::Euclidean => Err(ConfigError::MultiMetric { found: self.metric }),
        }
    }

    /// Checks the vector of a point, of a bank's entry or of a query; the vectors, where points have several.
    pub fn vector(&self, numbers: &Numbers) -> Result<Vector, VectorError> {
        let check = if self.multi { Vector::multi } else { Vector::single };
        check(numbers, self.dim, self.metric)
    }

    /// A stored vector as it was given.
    pub fn numbers(&self, vector: &[f32]) -> Numbers {
        if self.multi { Numbers::of_rows(vector.to_vec(), self.dim.get()) } else { vector.to_vec().into() }
    }

    /// No rows yet, of the vectors of points or of the entries of banks.
    pub(crate) fn rows(&self) -> Chunked {
        let new = if self.multi { Chunked::ragged } else { Chunked::new };
        new(self.dim.get())
    }

    /// Whether a collection of `points` points is large enough for a graph.
    pub fn wants_graph(&self, points: usize) -> bool {
        points > 0
            && !self.multi
            && points.saturating_mul(self.dim.get()) / 256 >= self.graph.full_scan_threshold
    }
}

/// The configuration as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredConfig {
    format: u32,
    /// The version that wrote the collection last in this format.
    written_by: String,
    /// The version that made it.
    made_by: String,
    /// Tells the collection from every other, so that a file of another is not taken for its own.
    identity: u64,
    dim: usize,
    metric: Metric,
    m: usize,
    ef_construction: usize,
    full_scan_threshold: usize,
    quantization: Quantization,
    durability: Durability,
    /// The numbers of the named vectors, of a collection that has some.
    spaces: BTreeMap<Name, u16>,
    /// Whether a point has a list of vectors here, rather than one.
    multi: bool,
}

/// The layout of keys and values that this version writes. Opening brings older ones to it: see `upgrade`.
pub(crate) const FORMAT: u32 = 5;

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// In what format a collection is stored, and which versions of dehub wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatInfo {
    /// The number of the format.
    pub number: u32,
    /// The version that made the collection.
    pub made_by: String,
    /// The version that wrote it last in this format.
    pub written_by: String,
}

impl FormatInfo {
    /// Of a collection that this version makes.
    pub(crate) fn new() -> FormatInfo {
        FormatInfo { number: FORMAT, made_by: VERSION.to_owned(), written_by: VERSION.to_owned() }
    }
}

/// What every version reads of the configuration, whichever wrote it.
///
/// INVARIANT: these two fields keep their names and types in every later format, so that an older program can say
/// what it found.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    pub(crate) format: u32,
    /// Absent before format 3.
    pub(crate) written_by: Option<String>,
}

impl StoredConfig {
    /// The configuration as this version writes it.
    pub(crate) fn new(
        config: &CollectionConfig,
        identity: u64,
        made_by: &str,
        spaces: BTreeMap<Name, u16>,
    ) -> StoredConfig {
        let GraphConfig { m, ef_construction, full_scan_threshold, quantization } = config.graph;
        StoredConfig {
            format: FORMAT,
            written_by: VERSION.to_owned(),
            made_by: made_by.to_owned(),
            identity,
            dim: config.dim.get(),
            metric: config.metric,
            m,
            ef_construction,
            full_scan_threshold,
            quantization,
            durability: config.durability,
            spaces,
            multi: config.multi,
        }
    }

    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// The numbers of the named vectors.
    pub(crate) fn spaces(&self) -> &BTreeMap<Name, u16> {
        &self.spaces
    }

    /// The format it was written in, and by whom.
    pub(crate) fn format(&self) -> FormatInfo {
        let StoredConfig { format, made_by, written_by, .. } = self;
        FormatInfo { number: *format, made_by: made_by.clone(), written_by: written_by.clone() }
    }

    pub(crate) fn config(&self) -> Result<CollectionConfig, ConfigError> {
        let StoredConfig { m, ef_construction, full_scan_threshold, quantization, .. } = *self;
        let graph = GraphConfig { m, ef_construction, full_scan_threshold, quantization };
        let config = CollectionConfig::new(self.dim, self.metric, graph)?;
        let config = CollectionConfig { durability: self.durability, ..config };
        if self.multi { config.with_multi() } else { Ok(config) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_folder_or_hide() {
        for good in ["wordnet", "IS(beta=20)", "a.b-c_d", "7", "DualIS(b1=20,b2=3)"] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "../x", "a/b", "a b", "ü", "-x", ".hidden", "a\0", "(x)"] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
        assert!("x".repeat(128).parse::<Name>().is_ok());
        assert!("x".repeat(129).parse::<Name>().is_err());
    }

    #[test]
    fn a_graph_parameter_out_of_range_is_named() {
        let error = |m| CollectionConfig::new(4, Metric::Dot, GraphConfig { m, ..GraphConfig::default() });
        assert_eq!(error(1).expect_err("too few").to_string(), "graph parameter `m` is 1, wanted 2 to 128");
        assert!(error(128).is_ok());
    }
}
