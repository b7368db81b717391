//! Payloads: changed without their vectors, and kept in columns.

use std::collections::HashSet;
use std::sync::Arc;

use dehub_vector::PointId;
use serde_json::Map;

use super::Draft;
use crate::payload::{FieldRecord, PAYLOAD_INDEXES_MAX};
use crate::quarantine::HeldRecord;
use crate::record::{
    META, POINTS, damaged, field_key, held_key, point_bytes, read_point, read_u32, row_key, to_json,
};
use crate::{
    BATCH_POINTS_MAX, FieldKind, Payload, PayloadChange, PayloadChanged, PayloadError, PayloadPath,
    ReadError, Receipt, WriteError,
};

impl Draft<'_> {
    /// Changes the payloads of points, those in quarantine included; rows and vectors stay.
    pub(crate) fn change_payloads(
        &mut self,
        ids: &[PointId],
        change: &PayloadChange,
    ) -> Result<PayloadChanged, WriteError> {
        if ids.len() > BATCH_POINTS_MAX {
            return Err(WriteError::BatchTooLarge { found: ids.len() });
        }
        self.take_back_heeded_notes()?;
        let (mut seen, mut missing, mut replaced) = (HashSet::new(), Vec::new(), 0);
        for (place, id) in ids.iter().enumerate().filter(|(_, id)| seen.insert(*id)) {
            let refused = |error| refusal(error, place, id);
            if self.next.quarantine.held.contains_key(id) {
                self.change_held(id, change).map_err(refused)?;
            } else if let Some(row) = self.row(id)? {
                self.change_row(row, change).map_err(refused)?;
            } else {
                missing.push(id.clone());
                continue;
            }
            replaced += 1;
        }
        let receipt = Receipt { sequence: self.next.counters.sequence, added: 0, replaced, deleted: 0 };
        Ok(PayloadChanged { receipt, missing })
    }

    fn change_row(&mut self, row: u32, change: &PayloadChange) -> Result<(), Fault> {
        let record = self.store.get(POINTS, &row_key(row)).map_err(ReadError::from)?;
        let record = record.ok_or_else(|| damaged(POINTS, format!("row {row} has no record")));
        let point = record.and_then(|bytes| read_point(&bytes)).map_err(ReadError::from)?;
        let payload = changed(point.payload.as_ref(), change)?;
        let bytes = point_bytes(&point.id, point.text.as_deref(), payload.as_ref());
        self.visible.put(POINTS, &row_key(row), &bytes);
        self.next.columns.set(row, payload.as_ref()).map_err(ReadError::from)?;
        self.note_text_change(row);
        Ok(())
    }

    fn change_held(&mut self, id: &PointId, change: &PayloadChange) -> Result<(), Fault> {
        if let Some(held) = Arc::make_mut(&mut self.next.quarantine.held).get_mut(id) {
            held.point.payload = changed(held.point.payload.as_ref(), change)?;
            self.visible.put(META, &held_key(id), &to_json(&HeldRecord::new(held)));
        }
        Ok(())
    }

    /// Makes the column of a field from the store.
    pub(crate) fn index_payload(
        &mut self,
        path: &PayloadPath,
        kind: FieldKind,
    ) -> Result<Receipt, WriteError> {
        let columns = &mut self.next.columns;
        let is_new = columns.get(path).is_none();
        if is_new && columns.iter().len() >= PAYLOAD_INDEXES_MAX {
            return Err(WriteError::TooManyIndexes { found: columns.iter().len() });
        }
        if columns.get(path).is_none_or(|column| column.kind() != kind) {
            columns.insert(path.clone(), kind);
            for item in self.store.scan(POINTS, &[], None) {
                let (key, value) = item?;
                columns.set_one(path, read_u32(POINTS, &key)?, read_point(&value)?.payload.as_ref())?;
            }
            self.visible.put(META, &field_key(path), &to_json(&FieldRecord { kind }));
        }
        let sequence = self.next.counters.sequence;
        Ok(Receipt { sequence, added: usize::from(is_new), replaced: usize::from(!is_new), deleted: 0 })
    }

    pub(crate) fn drop_payload_index(&mut self, path: &PayloadPath) -> Result<Receipt, WriteError> {
        let deleted = usize::from(self.next.columns.remove(path));
        self.visible.delete(META, &field_key(path));
        Ok(Receipt { sequence: self.next.counters.sequence, added: 0, replaced: 0, deleted })
    }
}

/// Why a payload could not be changed.
enum Fault {
    Payload(PayloadError),
    Read(ReadError),
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Fault {
        Fault::Read(error)
    }
}

fn refusal(fault: Fault, place: usize, id: &PointId) -> WriteError {
    match fault {
        Fault::Payload(source) => WriteError::Payload { place, id: id.clone(), source },
        Fault::Read(error) => WriteError::Read(error),
    }
}

fn changed(payload: Option<&Payload>, change: &PayloadChange) -> Result<Option<Payload>, Fault> {
    let map = payload.map(Payload::read).transpose().map_err(ReadError::from)?;
    change.apply(map.unwrap_or_else(Map::new)).map_err(Fault::Payload)
}
