//! What should be there: plain maps to which the operations are applied.

use std::collections::{BTreeMap, BTreeSet};

use dehub_index::Snapshot;
use dehub_vector::PointId;

use crate::operation::{Operation, bank, fit};

/// The contents that one stream is responsible for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Contents {
    /// Id → vector, and the number of the operation that put it.
    pub(crate) points: BTreeMap<u64, (Vec<f32>, u64)>,
    /// Id → vector and weight.
    entries: BTreeMap<u64, (Vec<f32>, f32)>,
    corrections: BTreeSet<String>,
}

impl Contents {
    pub(crate) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Upsert(points) => self.points.extend(points.clone()),
            Operation::Delete(gone) => gone.iter().for_each(|id| _ = self.points.remove(id)),
            Operation::Exchange { removed, added, .. } => {
                removed.iter().for_each(|id| _ = self.entries.remove(id));
                let added = added.iter().map(|(&id, vector)| (id, (vector.clone(), 1.0)));
                self.entries.extend(added);
            }
            Operation::RemoveEntries(gone) => gone.iter().for_each(|id| _ = self.entries.remove(id)),
            Operation::Decay => {
                self.entries.values_mut().for_each(|(_, weight)| *weight *= 0.5);
                self.entries.retain(|_, (_, weight)| *weight >= 0.25);
            }
            Operation::Absorb => {}
            Operation::Fit(which) => _ = self.corrections.insert(fit(*which).name.to_string()),
            Operation::Drop(which) => _ = self.corrections.remove(fit(*which).name.as_str()),
        }
    }

    /// The union of what the streams are responsible for.
    pub(crate) fn join(&mut self, other: &Contents) {
        self.points.extend(other.points.clone());
        self.entries.extend(other.entries.clone());
        self.corrections.extend(other.corrections.iter().cloned());
    }

    /// What a collection has, in which every vector is as it was given: the metric is the inner product.
    pub(crate) fn of(snapshot: &Snapshot) -> Contents {
        let rows: Vec<u32> = snapshot.rows().collect();
        let records = snapshot.points(&rows).expect("every row has a record");
        let number = |id: &PointId| match id {
            PointId::Number(number) => *number,
            PointId::Text(text) => panic!("no point is called {text}"),
        };
        let point = |(&row, record): (&u32, dehub_index::Point)| {
            let payload: serde_json::Value =
                serde_json::from_str(record.payload.expect("it was given one").as_json()).expect("JSON");
            let put_by = payload["number"].as_u64().expect("a number");
            (number(&record.id), (snapshot.vector(row).to_vec(), put_by))
        };
        let points = rows.iter().zip(records).map(point).collect();
        let entries = snapshot.bank_entries(&bank()).unwrap_or_default();
        let entries = entries.into_iter().map(|entry| {
            (number(&entry.id.expect("it was given one")), (entry.vector.into_vec(), entry.weight))
        });
        let corrections = snapshot.corrections().map(|correction| correction.info().name.to_string());
        Contents { points, entries: entries.collect(), corrections: corrections.collect() }
    }

    /// Where two contents differ, in a few words.
    pub(crate) fn difference(&self, other: &Contents) -> String {
        let points = |a: &Contents, b: &Contents| {
            let missing = a.points.iter().filter(|(id, point)| b.points.get(id) != Some(point));
            missing.map(|(id, (_, number))| format!("{id} of operation {number}")).collect::<Vec<_>>()
        };
        let entries = |a: &Contents, b: &Contents| {
            let missing = a.entries.iter().filter(|(id, entry)| b.entries.get(id) != Some(entry));
            missing.map(|(id, (_, weight))| format!("{id} of weight {weight}")).collect::<Vec<_>>()
        };
        format!(
            "points only here {:?}, only there {:?}; entries only here {:?}, only there {:?}; corrections {:?} and {:?}",
            points(self, other),
            points(other, self),
            entries(self, other),
            entries(other, self),
            self.corrections,
            other.corrections,
        )
    }
}
