//! The settings of a collection as Qdrant's clients send them.
//!
//! Those that mean something here are honoured. Of the others each has one value that is true of every collection
//! here; that is taken, and any other is refused by name: nothing is read and then ignored.

use std::fmt;

use dehub_index::{Durability, GraphConfig, Quantization};
use dehub_vector::Metric;
use serde_json::{Value, json};

use crate::decode::{self, Fields, Place};
use crate::errors::{INVALID_VALUE, NOT_SUPPORTED};
use crate::problem::Problem;

/// What a setting that cannot be chosen must be if it is given.
#[derive(Debug, Clone, Copy)]
enum Only {
    /// `null`, which is the same as leaving it out.
    Null,
    Flag(bool),
    Number(u64),
    /// A share of 1.
    Share(f64),
    Text(&'static str),
    /// An object without fields.
    Empty,
}

/// A setting that cannot be chosen: its name, its value, and what holds instead.
struct Fixed(&'static str, Only, &'static str);

const ONE_NODE: &str = "there is one node, with the whole collection";
const NO_STRICT_MODE: &str = "what is too large is refused by limits of the server, which GET / names";
const NO_SEGMENT_RULES: &str = "segments are frozen and merged by rules of their own";
const NO_LOG_RULES: &str =
    "`durability` says what acknowledged writes survive, and the log has rules of its own";
const ON_DISK: &str = "payloads are kept on disk";

/// What a collection says its log holds, as Qdrant does where nobody chose.
pub(crate) const LOG_MEGABYTES: u64 = 32;

/// The thresholds of indexing that versions of Qdrant have where nobody chose, in kilobytes.
const INDEXING_UNCHOSEN: [usize; 2] = [10_000, 20_000];

/// Of a collection.
const OF_COLLECTION: [Fixed; 11] = [
    Fixed("shard_number", Only::Number(1), ONE_NODE),
    Fixed("sharding_method", Only::Text("auto"), ONE_NODE),
    Fixed("replication_factor", Only::Number(1), ONE_NODE),
    Fixed("write_consistency_factor", Only::Number(1), ONE_NODE),
    Fixed("on_disk_payload", Only::Flag(true), ON_DISK),
    Fixed("payload", Only::Null, ON_DISK),
    Fixed("id_tracker", Only::Null, "ids are kept on disk"),
    Fixed("sparse_vectors", Only::Empty, "vectors are dense"),
    Fixed("metadata", Only::Null, "a collection has no metadata; a point's payload takes any JSON"),
    Fixed("init_from", Only::Null, "a snapshot of the other collection can be recovered under a new name"),
    Fixed("read_fan_out_factor", Only::Null, ONE_NODE),
];

/// Of `strict_mode_config`.
const OF_STRICT_MODE: [Fixed; 1] = [Fixed("enabled", Only::Flag(false), NO_STRICT_MODE)];

/// Of `params`, when a collection is changed.
const OF_PARAMS: [Fixed; 7] = [
    Fixed("replication_factor", Only::Number(1), ONE_NODE),
    Fixed("write_consistency_factor", Only::Number(1), ONE_NODE),
    Fixed("read_fan_out_factor", Only::Null, ONE_NODE),
    Fixed("read_fan_out_delay_ms", Only::Null, ONE_NODE),
    Fixed("on_disk_payload", Only::Flag(true), ON_DISK),
    Fixed("payload", Only::Null, ON_DISK),
    Fixed("id_tracker", Only::Null, "ids are kept on disk"),
];

/// Of `wal_config`: what Qdrant has where nobody chose, and its clients send of a collection that they copy.
const OF_LOG: [Fixed; 3] = [
    Fixed("wal_capacity_mb", Only::Number(LOG_MEGABYTES), NO_LOG_RULES),
    Fixed("wal_segments_ahead", Only::Number(0), NO_LOG_RULES),
    Fixed("wal_retain_closed", Only::Number(1), NO_LOG_RULES),
];

/// Of `optimizers_config`.
const OF_OPTIMIZER: [Fixed; 7] = [
    Fixed("deleted_threshold", Only::Share(0.2), NO_SEGMENT_RULES),
    Fixed("vacuum_min_vector_number", Only::Number(1000), NO_SEGMENT_RULES),
    Fixed("default_segment_number", Only::Number(0), NO_SEGMENT_RULES),
    Fixed("max_segment_size", Only::Null, NO_SEGMENT_RULES),
    Fixed("memmap_threshold", Only::Null, "graphs are mapped files, and vectors are in memory"),
    Fixed("max_optimization_threads", Only::Number(1), "one graph of a collection is built at a time"),
    Fixed("prevent_unoptimized", Only::Flag(false), "every point is found once its write is answered"),
];

/// Of `hnsw_config`.
const OF_GRAPH: [Fixed; 5] = [
    Fixed("max_indexing_threads", Only::Number(0), "graphs are built by as many threads as there are cores"),
    Fixed("on_disk", Only::Flag(true), "graphs are mapped files"),
    Fixed("memory", Only::Null, "graphs are mapped files"),
    Fixed("payload_m", Only::Null, "a filter needs no links of its own"),
    Fixed("inline_storage", Only::Flag(false), "a graph keeps vectors as `quantization` says"),
];

/// Of a vector.
const OF_VECTOR: [Fixed; 4] = [
    Fixed("on_disk", Only::Flag(false), "vectors are in memory, and on disk as well"),
    Fixed("memory", Only::Null, "vectors are in memory, and on disk as well"),
    Fixed("datatype", Only::Text("float32"), "`quantization` says how the graph keeps vectors"),
    Fixed(
        "quantization_config",
        Only::Null,
        "`quantization_config` of the collection is that of its vectors",
    ),
];

/// Of scalar quantization.
const OF_SCALAR: [Fixed; 3] = [
    Fixed("quantile", Only::Null, "each vector has a scale of its own, and nothing is cut off"),
    Fixed("always_ram", Only::Flag(false), "codes are in mapped files"),
    Fixed("memory", Only::Null, "codes are in mapped files"),
];

impl Only {
    fn is(self, value: &Value) -> bool {
        match self {
            Only::Null => value.is_null(),
            Only::Flag(flag) => value.as_bool() == Some(flag),
            Only::Number(number) => value.as_u64() == Some(number),
            // Qdrant has shares in 32 bits.
            Only::Share(share) => value.as_f64().is_some_and(|found| (found - share).abs() < 1e-6),
            Only::Text(text) => value.as_str() == Some(text),
            Only::Empty => value.as_object().is_some_and(|fields| fields.values().all(Value::is_null)),
        }
    }
}

/// The fields of bodies for settings that cannot be chosen: the name of the body's schema, the field, and its schema.
pub(crate) fn fixed_schemas() -> Vec<(&'static str, &'static str, Value)> {
    let of_change = ["sparse_vectors", "metadata"];
    let of_change = OF_COLLECTION.iter().filter(|fixed| of_change.contains(&fixed.0));
    let tables: [(&str, Vec<&Fixed>); 10] = [
        ("CreateCollection", OF_COLLECTION.iter().collect()),
        ("UpdateCollection", of_change.collect()),
        ("CollectionParamsDiff", OF_PARAMS.iter().collect()),
        ("LogParams", OF_LOG.iter().collect()),
        ("OptimizerParams", OF_OPTIMIZER.iter().collect()),
        ("GraphParams", OF_GRAPH.iter().collect()),
        ("VectorParams", OF_VECTOR.iter().collect()),
        ("VectorDiff", OF_VECTOR.iter().collect()),
        ("ScalarParams", OF_SCALAR.iter().collect()),
        ("StrictModeParams", OF_STRICT_MODE.iter().collect()),
    ];
    let schema = |Fixed(_, only, why): &Fixed| {
        let mut schema = match only {
            Only::Null => json!({ "type": "null" }),
            Only::Flag(flag) => json!({ "type": ["boolean", "null"], "enum": [flag, null] }),
            Only::Number(number) => json!({ "type": ["integer", "null"], "enum": [number, null] }),
            Only::Share(share) => json!({ "type": ["number", "null"], "enum": [share, null] }),
            Only::Text(text) => json!({ "type": ["string", "null"], "enum": [text, null] }),
            Only::Empty => {
                json!({ "type": ["object", "null"], "additionalProperties": { "type": "null" } })
            }
        };
        schema["description"] = format!("It cannot be chosen: {why}.").into();
        schema
    };
    let of_table = |(name, table): (&'static str, Vec<&'static Fixed>)| {
        table.into_iter().map(move |fixed| (name, fixed.0, schema(fixed)))
    };
    tables.into_iter().flat_map(of_table).collect()
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Only::Null => f.write_str("none"),
            Only::Flag(flag) => write!(f, "{flag} or none"),
            Only::Number(number) => write!(f, "{number} or none"),
            Only::Share(share) => write!(f, "{share} or none"),
            Only::Text(text) => write!(f, "{text} or none"),
            Only::Empty => f.write_str("{} or none"),
        }
    }
}

/// How a collection keeps vectors and links them, as far as a body says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GraphSettings {
    pub(crate) m: Option<usize>,
    pub(crate) ef_construct: Option<usize>,
    pub(crate) full_scan_threshold: Option<usize>,
    pub(crate) quantization: Option<Quantization>,
    pub(crate) optimizer: Optimizer,
}

/// What a body says of the optimizer that is true or not by other settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Optimizer {
    indexing_threshold: Option<usize>,
    flush_interval_sec: Option<usize>,
}

impl GraphSettings {
    /// Reads `hnsw_config`, `quantization_config` and `optimizers_config`.
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<GraphSettings, Problem> {
        let mut settings = fields.optional("hnsw_config", graph)?.unwrap_or_default();
        let coded = fields.optional("quantization_config", |value, place| {
            let found = coded(value, place)?;
            if settings.quantization.is_some_and(|chosen| chosen != found) {
                let detail = format!("`{place}` and `/hnsw_config/quantization` differ, wanted one of them");
                return Err(Problem::new(INVALID_VALUE, detail).at(place));
            }
            Ok(found)
        })?;
        settings.quantization = settings.quantization.or(coded);
        settings.optimizer = fields.optional("optimizers_config", Optimizer::read)?.unwrap_or_default();
        Ok(settings)
    }

    /// What these say, and otherwise what `others` do.
    pub(crate) fn or(self, others: GraphSettings) -> GraphSettings {
        GraphSettings {
            m: self.m.or(others.m),
            ef_construct: self.ef_construct.or(others.ef_construct),
            full_scan_threshold: self.full_scan_threshold.or(others.full_scan_threshold),
            quantization: self.quantization.or(others.quantization),
            optimizer: others.optimizer,
        }
    }

    /// Of a collection that is made.
    pub(crate) fn config(self) -> GraphConfig {
        let default = GraphConfig::default();
        GraphConfig {
            m: self.m.unwrap_or(default.m),
            ef_construction: self.ef_construct.unwrap_or(default.ef_construction),
            full_scan_threshold: self.full_scan_threshold.unwrap_or(default.full_scan_threshold),
            quantization: self.quantization.unwrap_or(default.quantization),
        }
    }

    /// Refuses to change what stays as it was made, unless the body says what it is.
    pub(crate) fn check_unchanged(&self, config: &GraphConfig) -> Result<(), Problem> {
        for (name, asked, present) in [
            ("m", self.m, config.m),
            ("ef_construct", self.ef_construct, config.ef_construction),
            ("full_scan_threshold", self.full_scan_threshold, config.full_scan_threshold),
        ] {
            if let Some(asked) = asked.filter(|&asked| asked != present) {
                let place = Place::Body;
                let place = place.field("hnsw_config");
                let why = "it stays as the collection was made; make another one, or change `quantization`";
                return Err(not_supported(place.field(name), &asked, &present, why));
            }
        }
        Ok(())
    }
}

impl Optimizer {
    fn read(value: Value, place: Place<'_>) -> Result<Optimizer, Problem> {
        let mut fields = Fields::new(value, place)?;
        let optimizer = Optimizer {
            indexing_threshold: fields.optional("indexing_threshold", decode::whole)?,
            flush_interval_sec: fields.optional("flush_interval_sec", decode::whole)?,
        };
        fixed(&mut fields, &OF_OPTIMIZER)?;
        fields.finish()?;
        Ok(optimizer)
    }

    /// Refuses what does not hold of a collection whose graphs begin at one of these sizes.
    pub(crate) fn check(self, thresholds: &[usize], durability: Durability) -> Result<(), Problem> {
        let place = Place::Body;
        let place = place.field("optimizers_config");
        if let Some(found) = self.indexing_threshold
            && !thresholds.contains(&found)
            && !INDEXING_UNCHOSEN.contains(&found)
        {
            let wanted = thresholds.first().copied().unwrap_or_default();
            let why = "`hnsw_config.full_scan_threshold` says from which size on";
            return Err(not_supported(place.field("indexing_threshold"), &found, &wanted, why));
        }
        match (durability, self.flush_interval_sec) {
            (Durability::Relaxed, Some(0)) => {
                let why = "`durability` is `relaxed`, under which a power cut takes about a second";
                Err(not_supported(place.field("flush_interval_sec"), &0, &"1 or more", why))
            }
            (Durability::Strict | Durability::Relaxed, _) => Ok(()),
        }
    }
}

/// Reads the settings of a collection that cannot be chosen.
pub(crate) fn fixed_of_collection(fields: &mut Fields<'_>) -> Result<(), Problem> {
    fixed(fields, &OF_COLLECTION)?;
    fields.optional("wal_config", |value, place| only_fixed(value, place, &OF_LOG))?;
    strict_mode(fields)
}

/// Reads the settings of a vector that cannot be chosen.
pub(crate) fn fixed_of_vector(fields: &mut Fields<'_>) -> Result<(), Problem> {
    fixed(fields, &OF_VECTOR)
}

/// Reads what can be said of a collection in a change, and cannot be chosen; tells whether there was any of it.
pub(crate) fn fixed_of_change(fields: &mut Fields<'_>) -> Result<bool, Problem> {
    let given = ["params", "vectors", "optimizers_config", "hnsw_config", "strict_mode_config"]
        .iter()
        .any(|name| fields.has(name));
    fields.optional("params", |value, place| only_fixed(value, place, &OF_PARAMS))?;
    fields.optional("vectors", |value, place| {
        // The unnamed vector's name.
        let mut vectors = Fields::new(value, place)?;
        vectors.optional("", |value, place| only_fixed(value, place, &OF_VECTOR))?;
        vectors.finish()
    })?;
    for name in ["sparse_vectors", "metadata"] {
        fixed(fields, OF_COLLECTION.iter().filter(|fixed| fixed.0 == name))?;
    }
    strict_mode(fields)?;
    Ok(given)
}

/// Reads the name of a metric.
pub(crate) fn metric(value: Value, place: Place<'_>) -> Result<Metric, Problem> {
    const WANTED: &str = "Cosine, Dot or Euclid";
    let name = decode::string(value, place)?;
    if name.eq_ignore_ascii_case("manhattan") {
        return Err(not_supported(place, &name, &WANTED, "no correction is defined for it"));
    }
    name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), WANTED))
}

/// The one way in which multi-vectors are compared.
pub(crate) const MAX_SIM: &str = "max_sim";

/// Reads how points of several vectors are compared.
pub(crate) fn multivector(value: Value, place: Place<'_>) -> Result<(), Problem> {
    let mut fields = Fields::new(value, place)?;
    fields.required("comparator", |value, place| {
        let name = decode::string(value, place)?;
        if name == MAX_SIM {
            Ok(())
        } else {
            Err(decode::out_of_range(place, format_args!("{name:?}"), MAX_SIM))
        }
    })?;
    fields.finish()
}

pub(crate) fn graph(value: Value, place: Place<'_>) -> Result<GraphSettings, Problem> {
    let mut fields = Fields::new(value, place)?;
    let settings = GraphSettings {
        m: fields.optional("m", decode::whole)?,
        ef_construct: fields.optional("ef_construct", decode::whole)?,
        full_scan_threshold: fields.optional("full_scan_threshold", decode::whole)?,
        quantization: fields.optional("quantization", quantization)?,
        optimizer: Optimizer::default(),
    };
    fixed(&mut fields, &OF_GRAPH)?;
    fields.finish()?;
    Ok(settings)
}

fn quantization(value: Value, place: Place<'_>) -> Result<Quantization, Problem> {
    const WANTED: &str = "f32, bf16, int8 or reduced";
    let name = decode::string(value, place)?;
    name.parse().map_err(|_| decode::out_of_range(place, format_args!("{name:?}"), WANTED))
}

/// Qdrant's `quantization_config`: one byte a dimension, or none at all.
fn coded(value: Value, place: Place<'_>) -> Result<Quantization, Problem> {
    const WANTED: &str = "{\"scalar\": {\"type\": \"int8\"}} or \"Disabled\"";
    const OTHERS: &str = "`hnsw_config.quantization` takes f32, bf16, int8 and reduced";
    if value.as_str() == Some("Disabled") {
        return Ok(Quantization::F32);
    }
    let mut fields = Fields::new(value, place)?;
    for name in ["product", "binary", "turbo"] {
        if fields.has(name) {
            return Err(not_supported(place.field(name), &name, &WANTED, OTHERS));
        }
    }
    fields.required("scalar", |value, place| {
        let mut fields = Fields::new(value, place)?;
        fields.required("type", |value, place| {
            let name = decode::string(value, place)?;
            if name == "int8" { Ok(()) } else { Err(not_supported(place, &name, &"int8", OTHERS)) }
        })?;
        fixed(&mut fields, &OF_SCALAR)?;
        fields.finish()
    })?;
    fields.finish()?;
    Ok(Quantization::Int8)
}

/// Strict mode may be said to be off.
fn strict_mode(fields: &mut Fields<'_>) -> Result<(), Problem> {
    let off = |value, place: Place<'_>| only_fixed(value, place, &OF_STRICT_MODE);
    fields.optional("strict_mode_config", off).map(drop)
}

/// An object with no settings but these.
fn only_fixed(value: Value, place: Place<'_>, settings: &'static [Fixed]) -> Result<(), Problem> {
    let mut fields = Fields::new(value, place)?;
    fixed(&mut fields, settings)?;
    fields.finish()
}

fn fixed(fields: &mut Fields<'_>, settings: impl IntoIterator<Item = &'static Fixed>) -> Result<(), Problem> {
    for &Fixed(name, only, why) in settings {
        fields.optional(name, |value, place| {
            if only.is(&value) { Ok(()) } else { Err(not_supported(place, &value, &only, why)) }
        })?;
    }
    Ok(())
}

fn not_supported(
    place: Place<'_>,
    found: &dyn fmt::Display,
    wanted: &dyn fmt::Display,
    why: &str,
) -> Problem {
    let found: String = found.to_string().chars().take(40).collect();
    let detail = format!("`{place}` is {found}, which is not supported, wanted {wanted}: {why}");
    Problem::new(NOT_SUPPORTED, detail).at(place).wanted(wanted).found(found)
}
