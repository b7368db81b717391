//! Collections: made, listed, described, dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{
    Collection, CollectionConfig, Durability, FormatInfo, GraphConfig, Name, Quantization, SegmentInfo,
    Snapshot,
};
use dehub_vector::Metric;
use serde::Serialize;
use serde_json::{Map, Value};

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
#[derive(Serialize)]
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

/// One vector, or some under their names.
#[derive(Serialize)]
#[serde(untagged)]
enum VectorsReply {
    Unnamed(VectorParamsReply),
    Named(BTreeMap<String, VectorParamsReply>),
}

#[derive(Serialize)]
struct VectorParamsReply {
    size: usize,
    distance: &'static str,
}

impl VectorParamsReply {
    fn new(snapshot: &Snapshot) -> VectorParamsReply {
        let config = snapshot.config();
        let distance = match config.metric {
            Metric::Cosine => "Cosine",
            Metric::Dot => "Dot",
            Metric::Euclidean => "Euclid",
        };
        VectorParamsReply { size: config.dim.get(), distance }
    }
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
            let Wanted { vectors, durability } = wanted(body)?;
            let catalogue = task.edge().catalogue();
            let created = match vectors {
                Vectors::Unnamed(config) => {
                    catalogue.create(&name, CollectionConfig { durability, ..config })
                }
                Vectors::Named(spaces) => catalogue.create_with_spaces(&name, &spaces, durability),
            };
            created.map_err(|error| errors::catalogue(&error))?;
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
    task.reply(&Described {
        points_count: snapshot.len(),
        config: config_reply(&snapshot),
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

/// What a collection is to be made with.
struct Wanted {
    vectors: Vectors,
    durability: Durability,
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
    /// The vector's own graph.
    graph: Option<GraphConfig>,
}

fn wanted(body: Value) -> Result<Wanted, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
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
    let shared = fields.optional("hnsw_config", graph)?;
    let shared = shared.unwrap_or_default();
    let durability = fields.optional("durability", durability)?.unwrap_or_default();
    fields.finish()?;
    let vectors = match unnamed {
        Some(params) => Vectors::Unnamed(params.config(shared)?),
        None => {
            let config = |(name, params): (Name, VectorParams)| Ok((name, params.config(shared)?));
            Vectors::Named(named.into_iter().map(config).collect::<Result<_, Problem>>()?)
        }
    };
    Ok(Wanted { vectors, durability })
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
        metric: fields.required("distance", metric)?,
        graph: fields.optional("hnsw_config", graph)?,
    };
    fields.finish()?;
    Ok(params)
}

impl VectorParams {
    /// With the graph of the collection where the vector asks for none of its own.
    fn config(&self, shared: GraphConfig) -> Result<CollectionConfig, Problem> {
        let (graph, pointer) = match self.graph {
            Some(graph) => (graph, format!("{}/hnsw_config", self.pointer)),
            None => (shared, "/hnsw_config".to_owned()),
        };
        let config = CollectionConfig::new(self.size, self.metric, graph);
        config.map_err(|error| errors::config(&error, &self.pointer, &pointer))
    }
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
    let named = |(name, space): (&Name, &Arc<Snapshot>)| (name.to_string(), VectorParamsReply::new(space));
    let vectors = if snapshot.has_vectors() {
        VectorsReply::Unnamed(VectorParamsReply::new(snapshot))
    } else {
        VectorsReply::Named(snapshot.spaces().map(named).collect())
    };
    // Of named vectors each has its own: the first stands for all where one is wanted.
    let of_graph = snapshot.spaces().next().map_or(snapshot.config(), |(_, space)| space.config());
    ConfigReply { params: ParamsReply { vectors }, hnsw_config: GraphConfigReply::new(of_graph) }
}

impl GraphConfigReply {
    fn new(config: &CollectionConfig) -> GraphConfigReply {
        GraphConfigReply {
            m: config.graph.m,
            ef_construct: config.graph.ef_construction,
            full_scan_threshold: config.graph.full_scan_threshold,
            quantization: config.graph.quantization.name(),
        }
    }
}
