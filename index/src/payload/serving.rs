//! Payloads of a collection: changed, indexed, and read.

use dehub_vector::PointId;
use serde_json::{Map, Value};

use super::{FieldKind, Payload, PayloadChange, PayloadChanged, PayloadColumn, PayloadPath};
use crate::record::{IDS, id_key, read_id};
use crate::{Collection, Point, ReadError, Receipt, Snapshot, WriteError};

impl Collection {
    /// Changes the payloads of the points with these ids, as they are at the commit; vectors and rows stay. A point
    /// in quarantine is changed there, so that it is released with what was written last. An id that no point has
    /// is told, and the others are changed. Where there are no others, there is no commit.
    pub fn change_payloads(
        &self,
        ids: &[PointId],
        change: &PayloadChange,
    ) -> Result<PayloadChanged, WriteError> {
        // Where there is nothing to change nothing is written, but a store that cannot be written says so.
        let (_, snapshot) = self.writer.newest()?;
        let is_held = |id: &PointId| snapshot.quarantine.held.contains_key(id);
        if snapshot.find_all(ids)?.is_empty() && !ids.iter().any(is_held) {
            let receipt = Receipt { sequence: snapshot.sequence(), added: 0, replaced: 0, deleted: 0 };
            return Ok(PayloadChanged { receipt, missing: ids.to_vec() });
        }
        self.write(|draft| draft.change_payloads(ids, change))
    }

    /// Keeps the values of a field in memory from now on, in place of an index of another kind. No answer changes.
    /// Writes wait while the payloads are read once.
    pub fn index_payload(&self, path: &PayloadPath, kind: FieldKind) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.index_payload(path, kind))
    }

    /// Drops the index of a field, if there is one. `deleted` tells.
    pub fn drop_payload_index(&self, path: &PayloadPath) -> Result<Receipt, WriteError> {
        self.write(|draft| draft.drop_payload_index(path))
    }
}

impl Snapshot {
    /// The indexes of payload fields, by path.
    pub fn payload_columns(&self) -> impl ExactSizeIterator<Item = (&PayloadPath, &PayloadColumn)> {
        self.columns.iter()
    }

    /// The index of a field.
    pub fn payload_column(&self, path: &PayloadPath) -> Option<&PayloadColumn> {
        self.columns.get(path)
    }

    /// The ids and the payloads of some rows, in that order; each payload is an object.
    pub fn payloads(&self, rows: &[u32]) -> Result<Vec<(PointId, Value)>, ReadError> {
        let read = |point: Point| {
            let map = point.payload.as_ref().map(Payload::read).transpose()?.unwrap_or_else(Map::new);
            Ok((point.id, Value::Object(map)))
        };
        self.points(rows)?.into_iter().map(read).collect()
    }

    /// Ids and rows in the order of ids, from this one on: numbers ascending, then strings by their bytes.
    pub fn ids_from(
        &self,
        first: Option<&PointId>,
    ) -> impl Iterator<Item = Result<(PointId, u32), ReadError>> {
        let from = first.map(id_key).unwrap_or_default();
        let rows = self.view.scan(IDS, &from, None).map(|item| {
            let (key, value) = item?;
            let id = read_id(IDS, &key)?;
            Ok(self.live_row(&id, &value)?.map(|row| (id, row)))
        });
        rows.filter_map(Result::transpose)
    }
}
