//! Collections: made, listed, described, dropped.

use std::collections::BTreeMap;

use actix_web::HttpResponse;
use dehub_index::{
    CatalogueError, Collection, CollectionConfig, Durability, FormatInfo, Quantization,
    SEGMENT_DEAD_SHARE_MAX, SegmentInfo, Snapshot,
};
use dehub_vector::Metric;
use serde::Serialize;
use serde_json::Value;
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
    banks: Vec<BankReply>,
    corrections: Vec<CorrectionReply>,
    /// What queries that name no correction are ranked by; `null` for raw.
    default_correction: Option<DefaultReply>,
    quarantine: QuarantineReply,
    /// By what policy queries are kept; `null` if they are not.
    live: Option<LiveReply>,
    graph: GraphReply,
    writer: WriterReply,
    format: FormatReply,
    /// The number of the newest commit.
    sequence: u64,
    bytes_on_disk: u64,
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

#[derive(Serialize, ToSchema)]
#[schema(as = Vectors)]
struct VectorsReply {
    size: usize,
    distance: &'static str,
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
            let config = config(body)?;
            task.edge().catalogue().create(&name, config).map_err(|error| errors::catalogue(&error))?;
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
    let gallery = snapshot.gallery();
    let (status, optimizer_status) = status(&collection);
    task.reply(&Described {
        status,
        optimizer_status,
        points_count: gallery.points,
        indexed_vectors_count: if snapshot.has_graph() { gallery.points - gallery.delta } else { 0 },
        segments_count: gallery.segments + 1,
        config: config_reply(&snapshot),
        payload_schema: payload_indexes::schema(&snapshot),
        banks: snapshot.banks().map(BankReply::new).collect(),
        corrections: snapshot
            .corrections()
            .map(|correction| CorrectionReply::new(correction.info()))
            .collect(),
        default_correction: snapshot.default_correction().map(DefaultReply::new),
        quarantine: QuarantineReply::new(&snapshot),
        live: snapshot.live_bank().map(LiveReply::new),
        graph: GraphReply {
            nodes: gallery.graph_nodes,
            delta: gallery.delta,
            due: collection.is_graph_due(),
            segments: snapshot.segment_infos().into_iter().map(SegmentReply::new).collect(),
            calibration: snapshot.calibration().map(calibration_value),
        },
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

/// `PATCH /collections/{collection}`: how the graph keeps vectors, which is frozen anew in the background, and what
/// acknowledged writes survive.
pub(crate) async fn update(call: Call) -> HttpResponse {
    call.answer_body(&["wait", "timeout"], |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let says = settings::fixed_of_change(&mut fields)?;
        let asked = GraphSettings::read(&mut fields)?;
        let promised = fields.optional("durability", durability)?;
        fields.finish()?;
        asked.check_unchanged(&collection.snapshot().config().graph)?;
        if !says && asked.quantization.is_none() && promised.is_none() {
            let wanted = "hnsw_config, quantization_config or durability";
            let detail = format!("the body changes nothing: wanted {wanted}");
            return Err(Problem::new(MISSING_FIELD, detail).at("").wanted(wanted));
        }
        let refused = |error| errors::write(&error, &Written::Path);
        if let Some(durability) = promised {
            collection.set_durability(durability).map_err(refused)?;
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

pub(crate) fn config(body: Value) -> Result<CollectionConfig, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let (size, metric) = fields.required("vectors", |value, place| {
        let mut vectors = Fields::new(value, place)?;
        let size = vectors.required("size", decode::whole)?;
        let metric = vectors.required("distance", settings::metric)?;
        settings::fixed_of_vector(&mut vectors)?;
        vectors.finish()?;
        Ok((size, metric))
    })?;
    let graph = GraphSettings::read(&mut fields)?.config();
    settings::fixed_of_collection(&mut fields)?;
    let durability = fields.optional("durability", durability)?.unwrap_or_default();
    fields.finish()?;
    let config = CollectionConfig::new(size, metric, graph).map_err(|error| errors::config(&error))?;
    Ok(CollectionConfig { durability, ..config })
}

fn durability(value: Value, place: Place<'_>) -> Result<Durability, Problem> {
    const WANTED: &str = "strict or relaxed";
    let name = decode::string(value, place)?;
    name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), WANTED))
}

fn config_reply(snapshot: &Snapshot) -> ConfigReply {
    let config = snapshot.config();
    let distance = match config.metric {
        Metric::Cosine => "Cosine",
        Metric::Dot => "Dot",
        Metric::Euclidean => "Euclid",
    };
    ConfigReply {
        params: ParamsReply {
            vectors: VectorsReply { size: config.dim.get(), distance },
            shard_number: 1,
            replication_factor: 1,
            write_consistency_factor: 1,
            on_disk_payload: true,
        },
        hnsw_config: GraphConfigReply {
            m: config.graph.m,
            ef_construct: config.graph.ef_construction,
            full_scan_threshold: config.graph.full_scan_threshold,
            max_indexing_threads: 0,
            on_disk: true,
            quantization: config.graph.quantization.name(),
        },
        optimizer_config: OptimizerConfigReply {
            deleted_threshold: SEGMENT_DEAD_SHARE_MAX,
            vacuum_min_vector_number: None,
            default_segment_number: 0,
            indexing_threshold: config.graph.full_scan_threshold,
            flush_interval_sec: match config.durability {
                Durability::Strict => 0,
                Durability::Relaxed => 1,
            },
        },
        quantization_config: match config.graph.quantization {
            Quantization::Int8 => Some(QuantizationReply { scalar: ScalarReply { r#type: "int8" } }),
            Quantization::F32 | Quantization::Bf16 | Quantization::Reduced => None,
        },
    }
}
