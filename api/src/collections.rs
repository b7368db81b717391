//! Collections: made, listed, described, dropped.

use actix_web::HttpResponse;
use dehub_index::{
    CollectionConfig, Durability, FormatInfo, GraphConfig, Quantization, SegmentInfo, Snapshot,
};
use dehub_vector::Metric;
use serde::Serialize;
use serde_json::Value;

use crate::banks::BankReply;
use crate::calibration::calibration_value;
use crate::call::{Call, Task};
use crate::corrections::CorrectionReply;
use crate::decode::{self, Fields, Place};
use crate::defaults::DefaultReply;
use crate::errors::{self, MISSING_FIELD, Written};
use crate::live::LiveReply;
use crate::problem::Problem;
use crate::quarantine::QuarantineReply;
use crate::writer::WriterReply;

#[derive(Serialize)]
struct Listed {
    collections: Vec<Named>,
}

#[derive(Serialize)]
struct Named {
    name: String,
}

#[derive(Serialize)]
struct Exists {
    exists: bool,
}

#[derive(Serialize)]
struct Described {
    points_count: usize,
    config: ConfigReply,
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
#[derive(Serialize)]
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

#[derive(Serialize)]
struct ConfigReply {
    params: ParamsReply,
    hnsw_config: GraphConfigReply,
}

#[derive(Serialize)]
struct ParamsReply {
    vectors: VectorsReply,
}

#[derive(Serialize)]
struct VectorsReply {
    size: usize,
    distance: &'static str,
}

#[derive(Serialize)]
struct GraphConfigReply {
    m: usize,
    ef_construct: usize,
    /// In kilobytes of vectors.
    full_scan_threshold: usize,
    /// How segments that are frozen from now on keep vectors.
    quantization: &'static str,
}

#[derive(Serialize)]
struct GraphReply {
    /// Nodes of the graph, if there is one; points with equal vectors share a node.
    nodes: Option<usize>,
    /// Points outside the graph, which every search scans exactly.
    delta: usize,
    /// Whether points are being frozen, or will be with the next request.
    due: bool,
    segments: Vec<SegmentReply>,
    /// What searches were measured to find and to cost; `null` if they were not.
    calibration: Option<Value>,
}

#[derive(Serialize)]
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
        let collections = names.into_iter().map(|name| Named { name: name.into() }).collect();
        task.reply(&Listed { collections })
    })
    .await
}

/// `PUT /collections/{collection}`
pub(crate) async fn create(call: Call) -> HttpResponse {
    call.at_once()
        .answer_body(&["wait"], |task, body| {
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
    task.reply(&Described {
        points_count: gallery.points,
        config: config_reply(&snapshot),
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

/// `PATCH /collections/{collection}`: how the graph keeps vectors, which is frozen anew in the background, and what
/// acknowledged writes survive.
pub(crate) async fn update(call: Call) -> HttpResponse {
    call.answer_body(&["wait"], |task, body| {
        let collection = task.collection()?;
        let mut fields = Fields::new(body, Place::Body)?;
        let kept = fields.optional("hnsw_config", |value, place| {
            let mut fields = Fields::new(value, place)?;
            let asked = fields.required("quantization", quantization)?;
            fields.finish()?;
            Ok(asked)
        })?;
        let promised = fields.optional("durability", durability)?;
        fields.finish()?;
        if kept.is_none() && promised.is_none() {
            let detail = "the body changes nothing: wanted `hnsw_config` or `durability`";
            return Err(Problem::new(MISSING_FIELD, detail).at("").wanted("hnsw_config or durability"));
        }
        let refused = |error| errors::write(&error, &Written::Path);
        if let Some(durability) = promised {
            collection.set_durability(durability).map_err(refused)?;
        }
        if let Some(quantization) = kept {
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

/// `DELETE /collections/{collection}`
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.at_once()
        .answer(&["wait"], |task| {
            let name = task.name("collection")?;
            task.edge().delete(&name).map_err(|error| errors::catalogue(&error))?;
            task.reply(&true)
        })
        .await
}

pub(crate) fn config(body: Value) -> Result<CollectionConfig, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let (size, metric) = fields.required("vectors", |value, place| {
        let mut vectors = Fields::new(value, place)?;
        let size = vectors.required("size", decode::whole)?;
        let metric = vectors.required("distance", metric)?;
        vectors.finish()?;
        Ok((size, metric))
    })?;
    let graph = fields.optional("hnsw_config", graph)?.unwrap_or_default();
    let durability = fields.optional("durability", durability)?.unwrap_or_default();
    fields.finish()?;
    let config = CollectionConfig::new(size, metric, graph).map_err(|error| errors::config(&error))?;
    Ok(CollectionConfig { durability, ..config })
}

fn metric(value: Value, place: Place<'_>) -> Result<Metric, Problem> {
    const WANTED: &str = "Cosine, Dot or Euclid";
    let name = decode::string(value, place)?;
    name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), WANTED))
}

fn graph(value: Value, place: Place<'_>) -> Result<GraphConfig, Problem> {
    let mut fields = Fields::new(value, place)?;
    let default = GraphConfig::default();
    let graph = GraphConfig {
        m: fields.optional("m", decode::whole)?.unwrap_or(default.m),
        ef_construction: fields.optional("ef_construct", decode::whole)?.unwrap_or(default.ef_construction),
        full_scan_threshold: fields
            .optional("full_scan_threshold", decode::whole)?
            .unwrap_or(default.full_scan_threshold),
        quantization: fields.optional("quantization", quantization)?.unwrap_or(default.quantization),
    };
    fields.finish()?;
    Ok(graph)
}

fn quantization(value: Value, place: Place<'_>) -> Result<Quantization, Problem> {
    const WANTED: &str = "f32, bf16, int8 or reduced";
    let name = decode::string(value, place)?;
    name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), WANTED))
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
        params: ParamsReply { vectors: VectorsReply { size: config.dim.get(), distance } },
        hnsw_config: GraphConfigReply {
            m: config.graph.m,
            ef_construct: config.graph.ef_construction,
            full_scan_threshold: config.graph.full_scan_threshold,
            quantization: config.graph.quantization.name(),
        },
    }
}
