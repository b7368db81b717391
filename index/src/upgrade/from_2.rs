//! From format 2, whose records may lack what was added while it was in use, to format 3, where every record is whole
//! and the configuration names the versions that made the collection and that wrote it last.

use dehub_store::{Batch, Family, Store};
use serde_json::{Map, Value, json};

use crate::ReadError;
use crate::config::VERSION;
use crate::record::{
    CONFIG_KEY, CORRECTIONS, DamagedRecord, META, PENDING_PREFIX, SETS, damaged, from_json, to_json,
};

/// The only version that made collections of format 2.
const MADE_BY: &str = "0.1.0";

/// A record as it is stored.
type Record = Map<String, Value>;

pub(super) fn changes(store: &Store) -> Result<Batch, ReadError> {
    let store = &store.view();
    let mut batch = Batch::default();
    for (family, prefix, complete) in [
        (META, CONFIG_KEY, configuration as fn(&mut Record)),
        (META, PENDING_PREFIX, pending_fit),
        (SETS, b"", set),
        (CORRECTIONS, b"", correction),
    ] {
        for item in store.scan_prefix(family, prefix) {
            let (key, value) = item?;
            let mut record = read(family, &value)?;
            complete(&mut record);
            batch.put(family, &key, &to_json(&record));
        }
    }
    Ok(batch)
}

fn read(family: Family, bytes: &[u8]) -> Result<Record, DamagedRecord> {
    match from_json(family, bytes)? {
        Value::Object(record) => Ok(record),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(damaged(family, "a record is no object"))
        }
    }
}

/// Gives a record a field, unless it has it.
fn complete(record: &mut Record, field: &str, value: Value) {
    record.entry(field).or_insert(value);
}

fn configuration(record: &mut Record) {
    record.insert("format".to_owned(), json!(3));
    record.insert("written_by".to_owned(), json!(VERSION));
    record.insert("made_by".to_owned(), json!(MADE_BY));
    // What graphs were kept in, and what was promised, before there was a choice.
    complete(record, "quantization", json!("bf16"));
    complete(record, "durability", json!("strict"));
}

fn set(record: &mut Record) {
    complete(record, "beside", Value::Null);
    record.get_mut("kind").into_iter().for_each(set_kind);
}

/// Potentials were balanced with the entries of the bank alone before there was a choice.
fn set_kind(kind: &mut Value) {
    if let Some(Value::Object(sinkhorn)) = kind.get_mut("Sinkhorn") {
        complete(sinkhorn, "with_gallery", json!(false));
    }
}

fn pending_fit(record: &mut Record) {
    let columns = record.get_mut("columns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        column.get_mut("kind").into_iter().for_each(set_kind);
    }
}

/// Before guards kept their floor, there were no guards.
fn correction(record: &mut Record) {
    complete(record, "floors", json!([]));
}
