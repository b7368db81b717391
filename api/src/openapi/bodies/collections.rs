//! Bodies about collections, aliases, snapshots and backups.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use crate::openapi::schema::{Name, one, text, union};

/// A collection to make. Settings of Qdrant's that cannot be chosen here are taken if they say what holds.
#[derive(ToSchema)]
pub(crate) struct CreateCollection {
    vectors: VectorsParams,
    hnsw_config: Option<GraphParams>,
    quantization_config: Option<QuantizationParams>,
    optimizers_config: Option<OptimizerParams>,
    wal_config: Option<LogParams>,
    strict_mode_config: Option<StrictModeParams>,
    durability: Option<DurabilityName>,
    /// Finds points by words: by name `text`, a point's own text or its payload's, or a path into payloads.
    text_fields: Option<BTreeMap<String, TextFieldParams>>,
}

/// How the texts of a field are taken in and ranked.
#[derive(ToSchema)]
pub(crate) struct TextFieldParams {
    /// How a text becomes terms: `standard`, `cjk`, `raw`, `ngram(least,most)`, or the name of a language in English
    /// and lower case, for its stop words and stems.
    analyzer: Option<String>,
    /// BM25's: how soon more of the same term stops counting.
    #[schema(minimum = 0, maximum = 100)]
    k1: Option<f32>,
    /// BM25's: how much longer texts are held to account for their length.
    #[schema(minimum = 0, maximum = 1)]
    b: Option<f32>,
}

union! {
    /// What vectors are like: the one of each point, or those that it may have under names.
    VectorsParams => one::<VectorParams>(), one::<NamedVectorParams>()
}

/// What vectors are like under their names.
#[derive(ToSchema)]
pub(crate) struct NamedVectorParams(BTreeMap<String, VectorParams>);

/// What vectors are like.
#[derive(ToSchema)]
pub(crate) struct VectorParams {
    /// The number of dimensions.
    #[schema(minimum = 1, maximum = 65535)]
    size: usize,
    distance: Distance,
    hnsw_config: Option<GraphParams>,
    /// Gives a point several vectors, compared by MaxSim: each of a query's vectors counts its largest similarity to
    /// one of the point's. Under `Cosine` and `Dot`.
    multivector_config: Option<MultivectorParams>,
}

/// How points of several vectors are compared.
#[derive(ToSchema)]
pub(crate) struct MultivectorParams {
    comparator: Comparator,
}

/// The one way.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(crate) enum Comparator {
    MaxSim,
}

/// How vectors are compared: `Cosine` and `Dot` rank by similarity, `Euclid` by distance.
#[derive(ToSchema)]
pub(crate) enum Distance {
    Cosine,
    Dot,
    Euclid,
}

/// What a write that is acknowledged survives: `strict` a power cut, `relaxed` the end of the process.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum DurabilityName {
    Strict,
    Relaxed,
}

/// How the graph links vectors and keeps them.
#[derive(ToSchema)]
pub(crate) struct GraphParams {
    /// Links of a node.
    #[schema(minimum = 2, maximum = 128)]
    m: Option<usize>,
    /// Candidates when a node is linked.
    #[schema(minimum = 1, maximum = 4096)]
    ef_construct: Option<usize>,
    /// In kilobytes of vectors: a collection below it has no graph and is scanned.
    #[schema(minimum = 0)]
    full_scan_threshold: Option<usize>,
    quantization: Option<QuantizationName>,
}

/// How the graph keeps vectors. Answers are scored by the vectors themselves under each of these.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum QuantizationName {
    F32,
    Bf16,
    Int8,
    Reduced,
}

union! {
    /// Qdrant's way to say how the graph keeps vectors: one byte a dimension, or `Disabled` for all 32 bits.
    QuantizationParams => one::<ScalarQuantizationParams>(), text(&["Disabled"])
}

/// One byte a dimension.
#[derive(ToSchema)]
pub(crate) struct ScalarQuantizationParams {
    scalar: ScalarParams,
}

/// One byte a dimension.
#[derive(ToSchema)]
pub(crate) struct ScalarParams {
    r#type: Int8Name,
}

/// The one kind of scalar quantization.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Int8Name {
    Int8,
}

/// What Qdrant calls the optimizer: segments are frozen and merged by rules of their own.
#[derive(ToSchema)]
pub(crate) struct OptimizerParams {
    /// In kilobytes of vectors: it must be what `hnsw_config.full_scan_threshold` says, or be left to that by one of
    /// the values that Qdrant has where nobody chose, 10000 and 20000.
    #[schema(minimum = 0)]
    indexing_threshold: Option<usize>,
    /// How many seconds a power cut may take at most: any number under the durability `strict`, from 1 on under
    /// `relaxed`.
    #[schema(minimum = 0)]
    flush_interval_sec: Option<usize>,
}

/// The log of what was written, which has rules of its own.
#[derive(ToSchema)]
pub(crate) struct LogParams {}

/// Qdrant's strict mode, which is off: what is too large is refused by limits of the server.
#[derive(ToSchema)]
pub(crate) struct StrictModeParams {}

/// What to change of a collection. What stays as the collection was made may be given if it says what holds.
#[derive(ToSchema)]
pub(crate) struct UpdateCollection {
    params: Option<CollectionParamsDiff>,
    vectors: Option<VectorsDiff>,
    hnsw_config: Option<GraphParams>,
    quantization_config: Option<QuantizationParams>,
    optimizers_config: Option<OptimizerParams>,
    strict_mode_config: Option<StrictModeParams>,
    durability: Option<DurabilityName>,
    /// The text fields there are from now on; none ends it.
    text_fields: Option<BTreeMap<String, TextFieldParams>>,
}

/// Settings that cannot be chosen.
#[derive(ToSchema)]
pub(crate) struct CollectionParamsDiff {}

/// Settings of the vector without a name, which cannot be chosen.
#[derive(ToSchema)]
pub(crate) struct VectorsDiff {
    unnamed: Option<VectorDiff>,
}

/// Settings that cannot be chosen.
#[derive(ToSchema)]
pub(crate) struct VectorDiff {}

/// Changes of aliases: all are made, one after the other, or none.
#[derive(ToSchema)]
pub(crate) struct ChangeAliases {
    actions: Vec<AliasAction>,
}

union! {
    /// A change of aliases.
    AliasAction => one::<CreateAliasAction>(), one::<DeleteAliasAction>(), one::<RenameAliasAction>()
}

/// Makes an alias, or points one to another collection.
#[derive(ToSchema)]
pub(crate) struct CreateAliasAction {
    create_alias: CreateAlias,
}

/// Makes an alias.
#[derive(ToSchema)]
pub(crate) struct CreateAlias {
    collection_name: Name,
    alias_name: Name,
}

/// Takes an alias away.
#[derive(ToSchema)]
pub(crate) struct DeleteAliasAction {
    delete_alias: DeleteAlias,
}

/// Takes an alias away.
#[derive(ToSchema)]
pub(crate) struct DeleteAlias {
    alias_name: Name,
}

/// Gives an alias another name.
#[derive(ToSchema)]
pub(crate) struct RenameAliasAction {
    rename_alias: RenameAlias,
}

/// Gives an alias another name.
#[derive(ToSchema)]
pub(crate) struct RenameAlias {
    old_alias_name: Name,
    new_alias_name: Name,
}

/// A snapshot to recover.
#[derive(ToSchema)]
pub(crate) struct RecoverSnapshot {
    /// `file:///…/snapshots/COLLECTION/NAME.snapshot`: a snapshot of this server.
    location: String,
    /// SHA-256 in hexadecimal digits.
    checksum: Option<String>,
    priority: Option<SnapshotPriority>,
}

/// Of one node each means the same.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(crate) enum SnapshotPriority {
    NoSync,
    Snapshot,
    Replica,
}

/// A snapshot in a form.
#[derive(ToSchema)]
pub(crate) struct SnapshotForm {
    #[schema(content_media_type = "application/octet-stream")]
    snapshot: String,
}

/// A backup to make: there is nothing to choose.
#[derive(ToSchema)]
pub(crate) struct CreateBackup {}

/// A backup to restore.
#[derive(ToSchema)]
pub(crate) struct RestoreBackup {
    /// The id of a backup; the newest unless given.
    #[schema(pattern = "^[0-9]{8}T[0-9]{6}Z-[0-9]+$")]
    backup: Option<String>,
    /// Whether it takes the place of the collection that is there.
    replace: Option<bool>,
}

/// Whether to freeze all points to one segment.
#[derive(ToSchema)]
pub(crate) struct BuildGraph {
    whole: Option<bool>,
}

/// Whether to put in place what differs and is derived.
#[derive(ToSchema)]
pub(crate) struct VerifyCollection {
    rebuild: Option<bool>,
}

/// There is nothing to choose.
#[derive(ToSchema)]
pub(crate) struct CompactCollection {}
