//! Collections: made, listed, described, dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{
    CatalogueError, Collection, CollectionConfig, Durability, FormatInfo, GalleryInfo, Name, Quantization,
    SEGMENT_DEAD_SHARE_MAX, SegmentInfo, Snapshot, TextFields,
};
use dehub_vector::Metric;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::banks::BankReply;
use crate::calibration::calibration_value;
use crate::call::{Call, Task};
use crate::corrections::CorrectionReply;
use crate::decode::{self, Fields, Place};
use crate::defaults::DefaultReply;
use crate::errors::{self, MISSING_FIELD, Written};
use crate::live::LiveReply;
use crate::payload_indexes::{self, PayloadIndexReply};
use crate::problem::Problem;
use crate::quarantine::QuarantineReply;
use crate::settings::{self, GraphSettings};
use crate::text_fields::{self, TextsReply};
use crate::writer::WriterReply;

#[derive(Serialize, ToSchema)]
#[schema(as = CollectionList)]
pub(crate) struct Listed {
    collections: Vec<Named>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CollectionName)]
struct Named {
    name: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CollectionExists)]
pub(crate) struct Exists {
    exists: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Collection)]
pub(crate) struct Described {
    /// `green`; `yellow` while points are being frozen, or will be; `red` if writes are refused.
    status: &'static str,
    optimizer_status: OptimizerStatus,
    points_count: usize,
    /// Points in the graph.
    indexed_vectors_count: usize,
    /// Those of the graph, and the points that are in none.
    segments_count: usize,
    config: ConfigReply,
    /// The indexes of payload fields, by field.
    payload_schema: BTreeMap<String, PayloadIndexReply>,
    /// By which texts points are found by words; `null` if they are not.
    text: Option<TextsReply>,
    banks: Vec<BankReply>,
    corrections: Vec<CorrectionReply>,
    /// What queries that name no correction are ranked by; `null` for raw.
    default_correction: Option<DefaultReply>,
    quarantine: QuarantineReply,
    /// By what policy queries are kept; `null` if they are not.
    live: Option<LiveReply>,
    graph: GraphReply,
    /// What belongs to each named vector, of a collection with such: the fields above are then empty.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    vectors: BTreeMap<String, SpaceReply>,
    writer: WriterReply,
    format: FormatReply,
    /// The number of the newest commit.
    sequence: u64,
    bytes_on_disk: u64,
}

/// What belongs to one of the named vectors.
#[derive(Serialize, ToSchema)]
#[schema(as = Space)]
struct SpaceReply {
    /// Points that have the vector.
    points_count: usize,
    hnsw_config: GraphConfigReply,
    banks: Vec<BankReply>,
    corrections: Vec<CorrectionReply>,
    default_correction: Option<DefaultReply>,
    live: Option<LiveReply>,
    graph: GraphReply,
}

impl SpaceReply {
    fn new(space: &Collection) -> SpaceReply {
        let snapshot = space.snapshot();
        SpaceReply {
            points_count: snapshot.len(),
            hnsw_config: GraphConfigReply::new(snapshot.config()),
            banks: snapshot.banks().map(BankReply::new).collect(),
            corrections: snapshot.corrections().map(|one| CorrectionReply::new(one.info())).collect(),
            default_correction: snapshot.default_correction().map(DefaultReply::new),
            live: snapshot.live_bank().map(LiveReply::new),
            graph: GraphReply::new(space, &snapshot),
        }
    }
}

/// In what format the collection is stored, and the versions of dehub that made it and wrote it last.
#[derive(Serialize, ToSchema)]
#[schema(as = Format)]
struct FormatReply {
    number: u32,
    made_by: String,
    written_by: String,
}

impl FormatReply {
    fn new(info: &FormatInfo) -> FormatReply {
        let FormatInfo { number, made_by, written_by, .. } = info.clone();
        FormatReply { number, made_by, written_by }
    }
}

/// What keeps points from being frozen, if anything does.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OptimizerStatus {
    Ok,
    Error(String),
}

#[derive(Serialize, ToSchema)]
#[schema(as = CollectionConfig)]
struct ConfigReply {
    params: ParamsReply,
    hnsw_config: GraphConfigReply,
    wal_config: LogConfigReply,
    optimizer_config: OptimizerConfigReply,
    /// `null` if the graph keeps vectors otherwise than Qdrant does: `hnsw_config.quantization` says how.
    quantization_config: Option<QuantizationReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CollectionParams)]
struct ParamsReply {
    vectors: VectorsReply,
    shard_number: u32,
    replication_factor: u32,
    write_consistency_factor: u32,
    on_disk_payload: bool,
}

/// What Qdrant's clients want to be told of the log: the values that Qdrant has where nobody chose. Here it has rules
/// of its own.
#[derive(Serialize, ToSchema)]
#[schema(as = LogConfig)]
struct LogConfigReply {
    wal_capacity_mb: u64,
    wal_segments_ahead: u64,
}

/// What Qdrant calls the optimizer freezes points into segments of the graph.
#[derive(Serialize, ToSchema)]
#[schema(as = OptimizerConfig)]
struct OptimizerConfigReply {
    /// A segment with a larger part of deleted points is frozen anew.
    deleted_threshold: f32,
    /// From how many points on; `null`, as it is from the first.
    vacuum_min_vector_number: Option<usize>,
    /// 0: as many as the sizes of the segments make.
    default_segment_number: usize,
    /// In kilobytes of vectors: below it there is no graph.
    indexing_threshold: usize,
    /// For how many seconds a power cut may take back what was acknowledged.
    flush_interval_sec: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = QuantizationConfig)]
struct QuantizationReply {
    scalar: ScalarReply,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ScalarQuantization)]
struct ScalarReply {
    r#type: &'static str,
}

/// One vector, or some under their names.
#[derive(Serialize, ToSchema)]
#[schema(as = VectorsConfig)]
#[serde(untagged)]
enum VectorsReply {
    Unnamed(VectorParamsReply),
    Named(BTreeMap<String, VectorParamsReply>),
}

#[derive(Serialize, ToSchema)]
#[schema(as = VectorConfig)]
struct VectorParamsReply {
    size: usize,
    distance: &'static str,
    /// How points of several vectors are compared, if they have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    multivector_config: Option<MultivectorReply>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = MultivectorConfig)]
struct MultivectorReply {
    comparator: &'static str,
}

impl VectorParamsReply {
    fn new(snapshot: &Snapshot) -> VectorParamsReply {
        let config = snapshot.config();
        let distance = match config.metric {
            Metric::Cosine => "Cosine",
            Metric::Dot => "Dot",
            Metric::Euclidean => "Euclid",
        };
        let multivector_config = config.multi.then_some(MultivectorReply { comparator: settings::MAX_SIM });
        VectorParamsReply { size: config.dim.get(), distance, multivector_config }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = GraphConfig)]
struct GraphConfigReply {
    m: usize,
    ef_construct: usize,
    /// In kilobytes of vectors.
    full_scan_threshold: usize,
    /// 0: as many as there are cores.
    max_indexing_threads: usize,
    /// Graphs are mapped files.
    on_disk: bool,
    /// How segments that are frozen from now on keep vectors.
    quantization: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Graph)]
struct GraphReply {
    /// Nodes of the graph, if there is one; points with equal vectors share a node.
    nodes: Option<usize>,
    /// Points outside the graph, which every search scans exactly.
    delta: usize,
    /// Whether points are being frozen, or will be with the next request.
    due: bool,
    segments: Vec<SegmentReply>,
    /// What searches were measured to find and to cost; `null` if they were not.
    #[schema(value_type = Option<Object>)]
    calibration: Option<Value>,
}

impl GraphReply {
    fn new(collection: &Collection, snapshot: &Snapshot) -> GraphReply {
        let gallery = snapshot.gallery();
        GraphReply {
            nodes: gallery.graph_nodes,
            delta: gallery.delta,
            due: collection.is_graph_due(),
            segments: snapshot.segment_infos().into_iter().map(SegmentReply::new).collect(),
            calibration: snapshot.calibration().map(calibration_value),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = Segment)]
struct SegmentReply {
    nodes: usize,
    points: usize,
    /// Rows in it whose points are deleted.
    dead: usize,
    quantization: &'static str,
    /// The bytes of a node's vector.
    vector_bytes: usize,
    bytes: usize,
}

impl SegmentReply {
    fn new(info: SegmentInfo) -> SegmentReply {
        SegmentReply {
            nodes: info.nodes,
            points: info.points,
            dead: info.dead,
            quantization: info.quantization.name(),
            vector_bytes: info.vector_bytes,
            bytes: info.bytes,
        }
    }
}

/// `GET /collections`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let names = task.edge().catalogue().names().map_err(|error| errors::catalogue(&error))?;
        let visible = names.into_iter().filter(|name| task.may_read(name));
        let collections = visible.map(|name| Named { name: name.into() }).collect();
        task.reply(&Listed { collections })
    })
    .await
}

/// `PUT /collections/{collection}`
pub(crate) async fn create(call: Call) -> HttpResponse {
    call.at_once()
        .by_own_name()
        .answer_body(&["wait", "timeout"], |task, body| {
            let name = task.name("collection")?;
            let Wanted { vectors, durability, texts } = wanted(body)?;
            let catalogue = task.edge().catalogue();
            let created = match vectors {
                Vectors::Unnamed(config) => {
                    catalogue.create(&name, CollectionConfig { durability, ..config })
                }
                Vectors::Named(spaces) => catalogue.create_with_spaces(&name, &spaces, durability),
            };
            let collection = created.map_err(|error| errors::catalogue(&error))?;
            if !texts.is_empty() {
                text_fields::set(&collection, &texts)?;
            }
            task.reply(&true)
        })
        .await
}

/// `GET /collections/{collection}`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&[], |task| describe_task(&task)).await
}

fn describe_task(task: &Task) -> Result<Vec<u8>, Problem> {
    let collection = task.collection()?;
    let snapshot = collection.snapshot();
    let space = |space: &Arc<Collection>| {
        let name = space.space_name().map(ToString::to_string).unwrap_or_default();
        (name, SpaceReply::new(space))
    };
    let spaces = collection.spaces().map(space);
    let galleries: Vec<GalleryInfo> =
        collection.all_spaces().iter().map(|it| it.snapshot().gallery()).collect();
    let in_graph = |gallery: &GalleryInfo| gallery.graph_nodes.map_or(0, |_| gallery.points - gallery.delta);
    let (status, optimizer_status) = status(&collection);
    task.reply(&Described {
        status,
        optimizer_status,
        points_count: snapshot.len(),
        indexed_vectors_count: galleries.iter().map(in_graph).sum(),
        segments_count: galleries.iter().map(|gallery| gallery.segments + 1).sum(),
        config: config_reply(&snapshot),
        payload_schema: payload_indexes::schema(&snapshot),
        text: TextsReply::of(&snapshot),
        banks: snapshot.banks().map(BankReply::new).collect(),
        corrections: snapshot
            .corrections()
            .map(|correction| CorrectionReply::new(correction.info()))
            .collect(),
        default_correction: snapshot.default_correction().map(DefaultReply::new),
        quarantine: QuarantineReply::new(&snapshot),
        live: snapshot.live_bank().map(LiveReply::new),
        graph: GraphReply::new(&collection, &snapshot),
        vectors: spaces.collect(),
        writer: WriterReply::new(&collection.writer()),
        format: FormatReply::new(snapshot.format()),
        sequence: snapshot.sequence(),
        bytes_on_disk: collection.bytes_on_disk(),
    })
}

/// How the collection does, in Qdrant's words.
fn status(collection: &Collection) -> (&'static str, OptimizerStatus) {
    match collection.writer().failure {
        Some(failure) => ("red", OptimizerStatus::Error(failure.cause)),
        None if collection.is_graph_due() => ("yellow", OptimizerStatus::Ok),
        None => ("green", OptimizerStatus::Ok),
    }
}

/// `PATCH /collections/{collection}`: how the graph keeps vectors, which is frozen anew in the background, what
/// acknowledged writes survive, and by which texts points are found by words.
pub(crate) async fn update(call: Call) -> HttpResponse {
    call.answer_body(&["wait", "timeout"], |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let says = settings::fixed_of_change(&mut fields)?;
        let asked = GraphSettings::read(&mut fields)?;
        let promised = fields.optional("durability", durability)?;
        let texts = fields.optional("text_fields", text_fields::text_fields)?;
        fields.finish()?;
        let snapshot = collection.snapshot();
        let graph = &graph_config(&snapshot).graph;
        asked.check_unchanged(graph)?;
        asked
            .optimizer
            .check(&[graph.full_scan_threshold], promised.unwrap_or(snapshot.config().durability))?;
        if !says && asked.quantization.is_none() && promised.is_none() && texts.is_none() {
            let wanted = "hnsw_config, quantization_config, durability or text_fields";
            let detail = format!("the body changes nothing: wanted {wanted}");
            return Err(Problem::new(MISSING_FIELD, detail).at("").wanted(wanted));
        }
        let refused = |error| errors::write(&error, &Written::Path);
        if let Some(durability) = promised {
            collection.set_durability(durability).map_err(refused)?;
        }
        if let Some(texts) = texts {
            text_fields::set(&collection, &texts)?;
        }
        if let Some(quantization) = asked.quantization {
            collection.set_quantization(quantization).map_err(refused)?;
            task.build_graph_if_due(&collection)?;
        }
        task.reply(&true)
    })
    .await
}

/// `GET /collections/{collection}/exists`
pub(crate) async fn exists(call: Call) -> HttpResponse {
    call.at_once()
        .answer(&[], |task| {
            let name = task.name("collection")?;
            let names = task.edge().catalogue().names().map_err(|error| errors::catalogue(&error))?;
            task.reply(&Exists { exists: names.contains(&name) })
        })
        .await
}

/// `DELETE /collections/{collection}`: `false` if there is none, as Qdrant's clients expect who delete before they
/// create. An alias is no collection, and stays.
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.at_once()
        .by_own_name()
        .answer(&["wait", "timeout"], |task| {
            let name = task.name("collection")?;
            match task.edge().delete(&name) {
                Ok(()) => task.reply(&true),
                Err(CatalogueError::Unknown { .. }) => task.reply(&false),
                Err(error) => Err(errors::catalogue(&error)),
            }
        })
        .await
}

/// What a collection is to be made with.
pub(crate) struct Wanted {
    vectors: Vectors,
    durability: Durability,
    texts: TextFields,
}

enum Vectors {
    Unnamed(CollectionConfig),
    Named(BTreeMap<Name, CollectionConfig>),
}

/// The parameters of a vector, and where in the body they are.
struct VectorParams {
    pointer: String,
    size: usize,
    metric: Metric,
    /// What is said of the vector's own graph.
    graph: GraphSettings,
    /// Whether points have several of it.
    multi: bool,
}

pub(crate) fn wanted(body: Value) -> Result<Wanted, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    settings::fixed_of_collection(&mut fields)?;
    let (unnamed, named) = fields.required("vectors", |value, place| {
        // A vector may have the name of a parameter.
        let is_parameter = |name: &str| value.get(name).is_some_and(|value| !value.is_object());
        match value {
            Value::Object(map) if !map.is_empty() && !is_parameter("size") && !is_parameter("distance") => {
                Ok((None, named_params(map, place)?))
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => Ok((Some(vector_params(value, place)?), BTreeMap::new())),
        }
    })?;
    let shared = GraphSettings::read(&mut fields)?;
    let durability = fields.optional("durability", durability)?.unwrap_or_default();
    let texts = fields.optional("text_fields", text_fields::text_fields)?.unwrap_or_default();
    fields.finish()?;
    let vectors = match unnamed {
        Some(params) => Vectors::Unnamed(params.config(shared)?),
        None => {
            let config = |(name, params): (Name, VectorParams)| Ok((name, params.config(shared)?));
            Vectors::Named(named.into_iter().map(config).collect::<Result<_, Problem>>()?)
        }
    };
    let thresholds: Vec<usize> = match &vectors {
        Vectors::Unnamed(config) => vec![config.graph.full_scan_threshold],
        Vectors::Named(spaces) => spaces.values().map(|config| config.graph.full_scan_threshold).collect(),
    };
    shared.optimizer.check(&thresholds, durability)?;
    Ok(Wanted { vectors, durability, texts })
}

fn named_params(map: Map<String, Value>, place: Place<'_>) -> Result<BTreeMap<Name, VectorParams>, Problem> {
    let read = |(name, value): (String, Value)| {
        let place = place.field(&name);
        Ok((decode::name(Value::String(name.clone()), place)?, vector_params(value, place)?))
    };
    map.into_iter().map(read).collect()
}

fn vector_params(value: Value, place: Place<'_>) -> Result<VectorParams, Problem> {
    let mut fields = Fields::new(value, place)?;
    let params = VectorParams {
        pointer: place.to_string(),
        size: fields.required("size", decode::whole)?,
        metric: fields.required("distance", settings::metric)?,
        graph: fields.optional("hnsw_config", settings::graph)?.unwrap_or_default(),
        multi: fields.optional("multivector_config", settings::multivector)?.is_some(),
    };
    settings::fixed_of_vector(&mut fields)?;
    fields.finish()?;
    Ok(params)
}

impl VectorParams {
    /// With the graph of the collection where the vector asks for none of its own.
    fn config(&self, shared: GraphSettings) -> Result<CollectionConfig, Problem> {
        let graph = self.graph.or(shared).config();
        let own = self.graph != GraphSettings::default();
        let pointer = if own { format!("{}/hnsw_config", self.pointer) } else { "/hnsw_config".to_owned() };
        let config = CollectionConfig::new(self.size, self.metric, graph);
        let config = if self.multi { config.and_then(CollectionConfig::with_multi) } else { config };
        config.map_err(|error| errors::config(&error, &self.pointer, &pointer))
    }
}

fn durability(value: Value, place: Place<'_>) -> Result<Durability, Problem> {
    const WANTED: &str = "strict or relaxed";
    let name = decode::string(value, place)?;
    name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), WANTED))
}

fn config_reply(snapshot: &Snapshot) -> ConfigReply {
    let named = |(name, space): (&Name, &Arc<Snapshot>)| (name.to_string(), VectorParamsReply::new(space));
    let vectors = if snapshot.has_vectors() {
        VectorsReply::Unnamed(VectorParamsReply::new(snapshot))
    } else {
        VectorsReply::Named(snapshot.spaces().map(named).collect())
    };
    let of_graph = graph_config(snapshot);
    ConfigReply {
        params: ParamsReply {
            vectors,
            shard_number: 1,
            replication_factor: 1,
            write_consistency_factor: 1,
            on_disk_payload: true,
        },
        hnsw_config: GraphConfigReply::new(of_graph),
        wal_config: LogConfigReply { wal_capacity_mb: settings::LOG_MEGABYTES, wal_segments_ahead: 0 },
        optimizer_config: OptimizerConfigReply {
            deleted_threshold: SEGMENT_DEAD_SHARE_MAX,
            vacuum_min_vector_number: None,
            default_segment_number: 0,
            indexing_threshold: of_graph.graph.full_scan_threshold,
            flush_interval_sec: match snapshot.config().durability {
                Durability::Strict => 0,
                Durability::Relaxed => 1,
            },
        },
        quantization_config: match of_graph.graph.quantization {
            Quantization::Int8 => Some(QuantizationReply { scalar: ScalarReply { r#type: "int8" } }),
            Quantization::F32 | Quantization::Bf16 | Quantization::Reduced => None,
        },
    }
}

/// Of named vectors each has its own: the first stands for all where one is wanted.
fn graph_config(snapshot: &Snapshot) -> &CollectionConfig {
    snapshot.spaces().next().map_or(snapshot.config(), |(_, space)| space.config())
}

impl GraphConfigReply {
    fn new(config: &CollectionConfig) -> GraphConfigReply {
        GraphConfigReply {
            m: config.graph.m,
            ef_construct: config.graph.ef_construction,
            full_scan_threshold: config.graph.full_scan_threshold,
            max_indexing_threads: 0,
            on_disk: true,
            quantization: config.graph.quantization.name(),
        }
    }
}
