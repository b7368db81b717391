//! Priors: given, carried from a point to its next version, taken away.

use std::collections::HashMap;

use dehub_store::prefix_end;
use dehub_vector::PointId;

use super::Draft;
use crate::priors::{Prior, prior_bytes};
use crate::record::{META, PRIORS_KEY, prior_key, prior_prefix, to_json};
use crate::state::State;
use crate::{BATCH_POINTS_MAX, Name, PRIOR_ABS_MAX, PRIORS_MAX, Receipt, WriteError};

impl Draft<'_> {
    /// Gives points a value of a prior, which is made if it does not exist.
    pub(crate) fn set_prior(
        &mut self,
        name: &Name,
        values: &[(PointId, f32)],
    ) -> Result<Receipt, WriteError> {
        let rows = self.check_values(values)?;
        if !self.next.priors.contains_key(name) {
            if self.next.priors.len() >= PRIORS_MAX {
                return Err(WriteError::TooManyPriors);
            }
            self.next.priors.insert(name.clone(), Prior::new(self.next.row_count()));
            self.put_prior_names();
        }
        let mut added = 0;
        if let Some(prior) = self.next.priors.get_mut(name) {
            for ((id, value), row) in values.iter().zip(rows) {
                self.visible.put(META, &prior_key(name, id), &prior_bytes(*value));
                added += usize::from(prior.set(row, *value));
            }
        }
        let sequence = self.next.counters.sequence;
        Ok(Receipt { sequence, added, replaced: values.len() - added, deleted: 0 })
    }

    /// The rows of the points that values are given for.
    fn check_values(&self, values: &[(PointId, f32)]) -> Result<Vec<u32>, WriteError> {
        if values.len() > BATCH_POINTS_MAX {
            return Err(WriteError::BatchTooLarge { found: values.len() });
        }
        let mut places: HashMap<&PointId, usize> = HashMap::new();
        let mut rows = Vec::with_capacity(values.len());
        for (place, (id, value)) in values.iter().enumerate() {
            if let Some(first) = places.insert(id, place) {
                return Err(WriteError::DuplicateId { item: "point", place, first, id: id.clone() });
            }
            // Not a number is not within the bound either.
            let is_within = value.abs() <= PRIOR_ABS_MAX;
            if !is_within {
                return Err(WriteError::PriorValue { place, found: *value });
            }
            let row = self.row(id)?;
            rows.push(row.ok_or_else(|| WriteError::UnknownPoint { place, id: id.clone() })?);
        }
        Ok(rows)
    }

    /// Takes a prior's value from points.
    pub(crate) fn unset_prior(&mut self, name: &Name, ids: &[PointId]) -> Result<Receipt, WriteError> {
        let rows = ids.iter().map(|id| self.row(id)).collect::<Result<Vec<_>, _>>()?;
        let Some(prior) = self.next.priors.get_mut(name) else { return Err(unknown_prior(&self.next, name)) };
        let mut deleted = 0;
        for (id, row) in ids.iter().zip(rows) {
            if row.is_some_and(|row| prior.remove(row)) {
                self.visible.delete(META, &prior_key(name, id));
                deleted += 1;
            }
        }
        Ok(Receipt { sequence: self.next.counters.sequence, added: 0, replaced: 0, deleted })
    }

    /// Drops a prior.
    pub(crate) fn drop_prior(&mut self, name: &Name) -> Result<(), WriteError> {
        if self.next.priors.remove(name).is_none() {
            return Err(unknown_prior(&self.next, name));
        }
        let prefix = prior_prefix(name);
        let end = prefix_end(&prefix).expect("the prefix does not end with 0xff");
        self.visible.delete_range(META, &prefix, &end);
        self.put_prior_names();
        Ok(())
    }

    fn put_prior_names(&mut self) {
        let names: Vec<&Name> = self.next.priors.keys().collect();
        if names.is_empty() {
            self.visible.delete(META, PRIORS_KEY);
        } else {
            self.visible.put(META, PRIORS_KEY, &to_json(&names));
        }
    }

    /// Gives the last row the values of the one it replaces. A new point has none, whatever a program that knows no
    /// priors left under its id.
    pub(super) fn carry_priors(&mut self, id: &PointId, replaced: Option<u32>) {
        let row = self.next.row_count() - 1;
        self.next.priors.values_mut().for_each(|prior| prior.push(row, replaced));
        if replaced.is_none() {
            self.lose_priors(id);
        }
    }

    /// Takes the values of an id out of the store.
    pub(super) fn lose_priors(&mut self, id: &PointId) {
        for name in self.next.priors.keys() {
            self.visible.delete(META, &prior_key(name, id));
        }
    }
}

pub(crate) fn unknown_prior(state: &State, name: &Name) -> WriteError {
    let names: Vec<&str> = state.priors.keys().map(Name::as_str).collect();
    let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    WriteError::UnknownPrior { prior: name.clone(), found }
}
