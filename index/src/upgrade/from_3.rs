//! From format 3, whose collections have one vector without a name, to format 4, where the configuration lists the
//! named ones.

use dehub_store::{Batch, Store};
use serde_json::{Map, Value, json};

use crate::ReadError;
use crate::config::VERSION;
use crate::record::{CONFIG_KEY, META, damaged, from_json, to_json};

pub(super) fn changes(store: &Store) -> Result<Batch, ReadError> {
    let bytes =
        store.view().get(META, CONFIG_KEY)?.ok_or_else(|| damaged(META, "there is no configuration"))?;
    let mut record: Map<String, Value> = from_json(META, &bytes)?;
    record.insert("format".to_owned(), json!(4));
    record.insert("written_by".to_owned(), json!(VERSION));
    record.insert("spaces".to_owned(), json!({}));
    let mut batch = Batch::default();
    batch.put(META, CONFIG_KEY, &to_json(&record));
    Ok(batch)
}
