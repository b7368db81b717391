//! Ids, points and vectors.

use dehub_vector::PointId;

use super::Verifier;
use crate::ReadError;
use crate::open::read_priors;
use crate::pending::PendingRecord;
use crate::priors::Prior;
use crate::quarantine::HeldRecord;
use crate::record::{
    HELD_PREFIX, IDS, META, PENDING_PREFIX, POINTS, VECTORS, from_json, id_key, read_id, read_point,
    read_u32, read_vectors,
};
use crate::row_set::RowSet;
use crate::spaces::Role;

impl Verifier<'_> {
    pub(super) fn points(&mut self) -> Result<(), ReadError> {
        if self.state.role.name().is_some() {
            return self.vectors();
        }
        let mut named = RowSet::default();
        for item in self.view.scan(IDS, &[], None) {
            let (key, value) = item?;
            let (id, row) = (read_id(IDS, &key)?, read_u32(IDS, &value)?);
            if !self.state.live.contains(row) {
                self.report.differ("ids", id, "the row of a point", row);
            } else if !named.insert(row) {
                self.report.differ("ids", id, "a row of its own", row);
            }
        }
        self.tell_missing("ids", &named, "an id that leads to it");
        let mut with_record = RowSet::default();
        for item in self.view.scan(POINTS, &[], None) {
            let (key, value) = item?;
            let (row, point) = (read_u32(POINTS, &key)?, read_point(&value)?);
            let id = point.id;
            if !self.state.live.contains(row) {
                self.report.differ("points", row, "no record, as no point has the row", id);
                continue;
            }
            with_record.insert(row);
            for path in self.state.columns.differing(row, point.payload.as_ref())? {
                let wanted = format!("the values of its payload in the index of {path}");
                self.report.differ("points", row, wanted, "others");
            }
            let leads_to = self.row(&id)?;
            if leads_to != Some(row) {
                let found = leads_to.map_or("none".to_owned(), |row| row.to_string());
                self.report.differ("points", row, format!("an id, {id}, that leads to it"), found);
            }
        }
        self.tell_missing("points", &with_record, "a record");
        self.vectors()
    }

    fn vectors(&mut self) -> Result<(), ReadError> {
        let mut stored = RowSet::default();
        for item in self.view.scan(VECTORS, &[], None) {
            let (key, value) = item?;
            let row = read_u32(VECTORS, &key)?;
            let is_of_a_point = self.state.live.contains(row) && self.points.live.contains(row);
            if !is_of_a_point || self.state.role == Role::Points {
                self.report.differ("vectors", row, "no vector, as no point has the row", "one");
                continue;
            }
            stored.insert(row);
            let vector = read_vectors(VECTORS, &value, &self.state.config)?;
            let own = self.state.vectors.row(row as usize);
            if vector.len() != own.len() || vector.iter().zip(own).any(|(a, b)| a.to_bits() != b.to_bits()) {
                self.report.differ("vectors", row, "the vector in memory", "another");
            }
        }
        if self.state.role != Role::Points {
            self.tell_missing("vectors", &stored, "a vector");
        }
        self.report.looked_at(self.state.live.len() as u64);
        Ok(())
    }

    /// Tells of the rows of points that are not in `found`.
    fn tell_missing(&mut self, family: &'static str, found: &RowSet, wanted: &str) {
        for row in self.state.live.iter().filter(|&row| !found.contains(row)) {
            self.report.differ(family, row, wanted, "none");
        }
    }

    /// The row an id leads to.
    pub(super) fn row(&self, id: &PointId) -> Result<Option<u32>, ReadError> {
        let bytes = self.view.whole().get(IDS, &id_key(id))?;
        Ok(bytes.map(|bytes| read_u32(IDS, &bytes)).transpose()?)
    }

    pub(super) fn held(&mut self) -> Result<(), ReadError> {
        let own = &self.state.quarantine.held;
        let mut count = 0;
        for item in self.view.scan_prefix(META, HELD_PREFIX) {
            let (key, value) = item?;
            let id = read_id(META, &key[HELD_PREFIX.len()..])?;
            let held = from_json::<HeldRecord>(META, &value)?.into_point(id.clone());
            count += 1;
            if own.get(&id) != Some(&held) {
                self.report.differ(META.name(), &id, "the held point in memory", "another");
            }
            if let Some(row) = self.row(&id)? {
                self.report.differ("ids", &id, "no row, as the point is held", row);
            }
        }
        self.report.looked_at(count);
        if count != own.len() as u64 {
            self.report.differ(META.name(), "held points", own.len(), count);
        }
        Ok(())
    }

    pub(super) fn priors(&mut self) -> Result<(), ReadError> {
        let strays = read_priors(&mut self.fresh, self.view)?;
        if strays > 0 {
            self.report.differ(META.name(), "priors", "values of points that there are", strays);
        }
        for (name, prior) in &self.state.priors {
            self.report.looked_at(prior.given() as u64);
            let fresh = self.fresh.priors.get(name);
            let bits = |prior: &Prior, row| prior.value(row).map(f32::to_bits);
            let is_other = |&row: &u32| fresh.is_none_or(|fresh| bits(fresh, row) != bits(prior, row));
            for row in self.state.live.iter().filter(is_other) {
                self.report.differ(
                    META.name(),
                    format!("prior {name}, row {row}"),
                    "the value in memory",
                    "another",
                );
            }
        }
        self.compare_names(META.name(), &self.state.priors, |fresh| &fresh.priors);
        Ok(())
    }

    pub(super) fn pending(&mut self) -> Result<(), ReadError> {
        for item in self.view.scan_prefix(META, PENDING_PREFIX) {
            let (key, value) = item?;
            let first = read_u32(META, &key[PENDING_PREFIX.len()..])?;
            let record: PendingRecord = from_json(META, &value)?;
            self.report.looked_at(1);
            let is_own = |number: &u32| {
                !self.state.sets.contains_key(number) && *number < self.state.counters.next_set
            };
            let are_own = record.numbers.iter().all(is_own);
            let is_listed = record.columns.iter().all(|column| record.numbers.contains(&column.number));
            if !are_own || !is_listed || record.inputs().len() != record.inputs.len() {
                let wanted = "numbers of its own and methods that there are";
                self.report.differ(META.name(), format!("fit {first}"), wanted, format!("{record:?}"));
            }
        }
        Ok(())
    }
}
