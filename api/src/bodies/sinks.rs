//! Points, entries of banks and ids, written as rows.

use std::sync::Arc;

use dehub_format::TableBatch;
use dehub_index::{
    BankUpdate, Collection, EntryInput, EntrySelector, Name, NamedVector, Payload, PayloadError, PointAlarm,
    PointInput, Receipt,
};
use dehub_query::BankKind;
use dehub_vector::PointId;
use serde_json::{Map, Value};

use crate::bodies::RowSink;
use crate::call::{Answer, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{
    self, INVALID_VALUE, MISSING_FIELD, NOT_SUPPORTED, PAYLOAD_TOO_LARGE, UNKNOWN_FIELD, Written,
};
use crate::points::{self, WriteReply};
use crate::problem::Problem;

/// What comes before the name in the column of a named vector.
const NAMED_VECTOR: &str = "vector.";

/// What several commits did together.
#[derive(Default)]
struct Totals {
    added: usize,
    replaced: usize,
    deleted: usize,
    sequence: u64,
}

impl Totals {
    fn add(&mut self, receipt: &Receipt) {
        self.added += receipt.added;
        self.replaced += receipt.replaced;
        self.deleted += receipt.deleted;
        self.sequence = receipt.sequence;
    }

    fn receipt(&self) -> Receipt {
        let Totals { added, replaced, deleted, sequence } = *self;
        Receipt { sequence, added, replaced, deleted }
    }
}

/// Points: `{"id", "vector", "payload", "text"}`, or the columns `id`, `vector`, `payload`, `text`, those of named
/// vectors (`vector.NAME`, in which `null` stands for none), and others that become fields of the payload.
pub(crate) struct PointRows {
    collection: Arc<Collection>,
    points: Vec<PointInput>,
    /// The numbers of the rows that they are.
    rows: Vec<u64>,
    totals: Totals,
    held: Vec<PointAlarm>,
}

impl RowSink for PointRows {
    const PARAMETERS: &'static [&'static str] = &[];

    fn begin(task: &Task) -> Result<PointRows, Problem> {
        let collection = task.collection()?;
        let (points, rows, held) = (Vec::new(), Vec::new(), Vec::new());
        Ok(PointRows { collection, points, rows, totals: Totals::default(), held })
    }

    fn take(&mut self, value: Value, row: u64, place: Place<'_>) -> Result<(), Problem> {
        self.points.push(points::point(value, place)?);
        self.rows.push(row);
        Ok(())
    }

    fn take_table(&mut self, batch: TableBatch) -> Result<(), Problem> {
        let first = batch.first_row;
        if batch.vectors.is_none() && self.collection.has_vectors() {
            return Err(missing("vector"));
        }
        let mut vectors = batch.vectors.iter().flat_map(|vectors| vectors.iter());
        let ids = batch.ids.ok_or_else(|| missing("id"))?;
        let mut payloads = batch.payloads.unwrap_or_default().into_iter();
        let mut texts = batch.texts.unwrap_or_default().into_iter();
        for (row, id) in (first..).zip(ids) {
            let mut payload = payloads.next().flatten().unwrap_or_default();
            let named = named_vectors(row, &mut payload)?;
            let payload = (!payload.is_empty()).then(|| stored_payload(row, payload)).transpose()?;
            let (vector, text) = (vectors.next().unwrap_or_default().to_vec(), texts.next().flatten());
            self.points.push(PointInput { id, vector: vector.into(), named, payload, text });
            self.rows.push(row);
        }
        Ok(())
    }

    fn write(&mut self, task: &Task) -> Result<usize, Problem> {
        if self.points.is_empty() {
            return Ok(0);
        }
        let done = self.collection.upsert_watched(&self.points, None);
        let done = done.map_err(|error| errors::write(&error, &Written::Rows(&self.rows)))?;
        self.totals.add(&done.receipt);
        self.held.extend(done.held);
        let written = self.points.len();
        self.points.clear();
        self.rows.clear();
        task.build_graph_if_due(&self.collection)?;
        Ok(written)
    }

    fn reply(self, task: &Task) -> Result<Answer, Problem> {
        let receipt = self.totals.receipt();
        let held = self.collection.snapshot().quarantine_rule().is_some().then_some(self.held);
        let reply = WriteReply::upserted(&receipt).with_held(held);
        Ok(task.reply(&reply.found_by_words(task, &self.collection)?)?.into())
    }
}

/// Entries of a bank: `{"id", "vector", "weight"}`, or the columns `id`, `vector` and `weight`.
pub(crate) struct EntryRows {
    collection: Arc<Collection>,
    update: BankUpdate,
    rows: Vec<u64>,
    totals: Totals,
}

impl RowSink for EntryRows {
    const PARAMETERS: &'static [&'static str] = &["kind", "defer"];

    fn begin(task: &Task) -> Result<EntryRows, Problem> {
        let collection = task.space()?;
        let given = task.parameters.required("kind")?;
        let kinds = [BankKind::Query, BankKind::Gallery];
        let kind = kinds.into_iter().find(|kind| kind.name() == given);
        let kind = kind.ok_or_else(|| task.parameters.refused("kind", given, "query or gallery"))?;
        let defer = match task.parameters.text("defer") {
            None | Some("false") => false,
            Some("true") => true,
            Some(found) => return Err(task.parameters.refused("defer", found, "true or false")),
        };
        if !task.parameters.waits() {
            let detail = "rows cannot be taken in in the background: use `defer`, and then `absorb`";
            return Err(Problem::new(NOT_SUPPORTED, detail).in_parameter("wait"));
        }
        let update = BankUpdate { name: task.name("bank")?, kind, entries: Vec::new(), defer };
        Ok(EntryRows { collection, update, rows: Vec::new(), totals: Totals::default() })
    }

    fn take(&mut self, value: Value, row: u64, place: Place<'_>) -> Result<(), Problem> {
        let mut fields = Fields::new(value, place)?;
        let entry = EntryInput {
            id: fields.optional("id", decode::id)?,
            vector: fields.required("vector", decode::numbers)?,
            weight: fields.optional("weight", decode::number_32)?.unwrap_or(1.0),
        };
        fields.finish()?;
        self.update.entries.push(entry);
        self.rows.push(row);
        Ok(())
    }

    fn take_table(&mut self, batch: TableBatch) -> Result<(), Problem> {
        let first = batch.first_row;
        let vectors = batch.vectors.as_ref().ok_or_else(|| missing("vector"))?;
        let mut ids = batch.ids.unwrap_or_default().into_iter();
        let mut others = batch.payloads.unwrap_or_default().into_iter();
        no_texts(batch.texts.as_deref(), first)?;
        for (row, vector) in (first..).zip(vectors.iter()) {
            let mut others = others.next().flatten().unwrap_or_default();
            let weight = others.shift_remove("weight").map(|weight| weight_of(row, &weight)).transpose()?;
            no_others(row, &others, "id, vector, weight")?;
            let weight = weight.unwrap_or(1.0);
            self.update.entries.push(EntryInput { weight, ..EntryInput::new(ids.next(), vector.to_vec()) });
            self.rows.push(row);
        }
        Ok(())
    }

    fn write(&mut self, _task: &Task) -> Result<usize, Problem> {
        if self.update.entries.is_empty() {
            return Ok(0);
        }
        let receipt = self.collection.add_to_bank(&self.update);
        self.totals.add(&receipt.map_err(|error| errors::write(&error, &Written::Rows(&self.rows)))?);
        let written = self.update.entries.len();
        self.update.entries.clear();
        self.rows.clear();
        Ok(written)
    }

    fn reply(self, task: &Task) -> Result<Answer, Problem> {
        Ok(task.reply(&WriteReply::added(&self.totals.receipt()))?.into())
    }
}

/// Ids to be deleted, of points or of the entries of the bank that the path names: an id a line, or the column `id`.
pub(crate) struct DeletedIds {
    collection: Arc<Collection>,
    bank: Option<Name>,
    ids: Vec<PointId>,
    rows: Vec<u64>,
    totals: Totals,
}

impl RowSink for DeletedIds {
    const PARAMETERS: &'static [&'static str] = &[];

    fn begin(task: &Task) -> Result<DeletedIds, Problem> {
        let is_bank = !task.segment("bank").is_empty();
        let collection = if is_bank { task.space()? } else { task.collection()? };
        let bank = is_bank.then(|| task.name("bank")).transpose()?;
        Ok(DeletedIds { collection, bank, ids: Vec::new(), rows: Vec::new(), totals: Totals::default() })
    }

    fn take(&mut self, value: Value, row: u64, place: Place<'_>) -> Result<(), Problem> {
        self.ids.push(decode::id(value, place)?);
        self.rows.push(row);
        Ok(())
    }

    fn take_table(&mut self, batch: TableBatch) -> Result<(), Problem> {
        let first = batch.first_row;
        self.ids.extend(batch.ids.ok_or_else(|| missing("id"))?);
        if batch.vectors.is_some() {
            return Err(unknown("/columns/vector", "vector", "id"));
        }
        no_texts(batch.texts.as_deref(), first)?;
        for (row, others) in (first..).zip(batch.payloads.iter().flatten()) {
            no_others(row, others.as_ref().unwrap_or(&Map::new()), "id")?;
        }
        self.rows.extend((first..).take(batch.rows));
        Ok(())
    }

    fn write(&mut self, task: &Task) -> Result<usize, Problem> {
        if self.ids.is_empty() {
            return Ok(0);
        }
        let ids = std::mem::take(&mut self.ids);
        let count = ids.len();
        let receipt = match &self.bank {
            None => self.collection.delete(&ids),
            Some(bank) => self.collection.remove_from_bank(bank, &EntrySelector::Ids(ids)),
        };
        self.totals.add(&receipt.map_err(|error| errors::write(&error, &Written::Rows(&self.rows)))?);
        self.rows.clear();
        if self.bank.is_none() {
            task.build_graph_if_due(&self.collection)?;
        }
        Ok(count)
    }

    fn reply(self, task: &Task) -> Result<Answer, Problem> {
        let reply = WriteReply::deleted(&self.totals.receipt());
        let reply = match self.bank {
            None => reply.found_by_words(task, &self.collection)?,
            Some(_) => reply,
        };
        Ok(task.reply(&reply)?.into())
    }
}

/// The payload of a row, as it is stored.
fn stored_payload(row: u64, fields: Map<String, Value>) -> Result<Payload, Problem> {
    Payload::parse(&Value::Object(fields).to_string()).map_err(|error| {
        let code = match error {
            PayloadError::TooLarge { .. } => PAYLOAD_TOO_LARGE,
            PayloadError::NotAnObject { .. } | _ => INVALID_VALUE,
        };
        Problem::new(code, format!("row {row}: {error}")).at(format_args!("/rows/{row}/payload"))
    })
}

fn weight_of(row: u64, value: &Value) -> Result<f32, Problem> {
    let body = Place::Body;
    let rows = body.field("rows");
    let place = rows.entry(usize::try_from(row).unwrap_or(usize::MAX));
    decode::number_32(value.clone(), place.field("weight"))
}

fn missing(column: &str) -> Problem {
    let detail = format!("the body has no column `{column}`");
    Problem::new(MISSING_FIELD, detail).at("/columns").wanted(format_args!("a column `{column}`"))
}

/// Takes the columns of named vectors, which are read as other columns are, out of a row.
fn named_vectors(row: u64, fields: &mut Map<String, Value>) -> Result<Vec<NamedVector>, Problem> {
    let place = Place::Body;
    let (rows, row) = (place.field("rows"), usize::try_from(row).unwrap_or(usize::MAX));
    let columns: Vec<String> = fields.keys().filter(|name| name.starts_with(NAMED_VECTOR)).cloned().collect();
    let mut named = Vec::with_capacity(columns.len());
    for column in columns {
        let Some(value) = fields.shift_remove(&column).filter(|value| !value.is_null()) else { continue };
        let name = column.strip_prefix(NAMED_VECTOR).unwrap_or(&column);
        let (row, vector) = (rows.entry(row), "vector");
        let place = row.field(vector);
        let place = place.field(name);
        let own = decode::name(Value::from(name), place)?;
        named.push(NamedVector { name: own, vector: decode::numbers(value, place)? });
    }
    Ok(named)
}

/// The columns of named vectors have no meaning where rows have one vector.
pub(crate) fn no_named_vectors(row: u64, others: &Map<String, Value>) -> Result<(), Problem> {
    match others.keys().find(|name| name.starts_with(NAMED_VECTOR)) {
        None => Ok(()),
        Some(name) => {
            let detail =
                format!("row {row}: the column `{name}` has no meaning here: the vector is in `vector`");
            Err(Problem::new(NOT_SUPPORTED, detail).at(format_args!("/columns/{name}")))
        }
    }
}

/// Refuses columns that no one reads.
pub(crate) fn no_others(row: u64, others: &Map<String, Value>, wanted: &str) -> Result<(), Problem> {
    match others.keys().next() {
        None => Ok(()),
        Some(name) => {
            let place = Place::Body;
            let (rows, row) = (place.field("rows"), usize::try_from(row).unwrap_or(usize::MAX));
            Err(unknown(&rows.entry(row).field(name).to_string(), name, wanted))
        }
    }
}

/// Refuses a column of texts where it has no use.
pub(crate) fn no_texts(texts: Option<&[Option<String>]>, first: u64) -> Result<(), Problem> {
    let found = texts.unwrap_or_default().iter().position(Option::is_some);
    let refused = |place: usize| unknown(&format!("/rows/{}/text", first + place as u64), "text", "others");
    found.map_or(Ok(()), |place| Err(refused(place)))
}

fn unknown(pointer: &str, name: &str, wanted: &str) -> Problem {
    let detail = format!("`{name}` is no column of this body, wanted {wanted}");
    Problem::new(UNKNOWN_FIELD, detail).at(pointer).wanted(wanted).found(name)
}
