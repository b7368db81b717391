//! From format 4 to format 5, where there may be fields of texts, and lists of vectors under a name. An older program
//! would not note which payloads changed, so that an index of texts would miss them.

use dehub_store::{Batch, Store};
use serde_json::{Map, Value, json};

use crate::ReadError;
use crate::config::VERSION;
use crate::record::{CONFIG_KEY, META, damaged, from_json, to_json};

pub(super) fn changes(store: &Store) -> Result<Batch, ReadError> {
    let mut batch = Batch::default();
    let configuration = configuration(store)?;
    let numbers = configuration.get("spaces").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let numbers: Vec<u16> = numbers.filter_map(|number| number.as_u64()?.try_into().ok()).collect();
    for number in numbers {
        let space = store.within(META, number);
        let mut part = Batch::default();
        part.put(META, CONFIG_KEY, &to_json(&raised(self::configuration(&space)?)));
        batch.append(space.as_of_whole(part));
    }
    batch.put(META, CONFIG_KEY, &to_json(&raised(configuration)));
    Ok(batch)
}

fn configuration(store: &Store) -> Result<Map<String, Value>, ReadError> {
    let bytes = store.get(META, CONFIG_KEY)?.ok_or_else(|| damaged(META, "there is no configuration"))?;
    Ok(from_json(META, &bytes)?)
}

fn raised(mut record: Map<String, Value>) -> Map<String, Value> {
    record.insert("format".to_owned(), json!(5));
    record.insert("written_by".to_owned(), json!(VERSION));
    record.insert("multi".to_owned(), json!(false));
    record
}
