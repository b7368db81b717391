//! The quarantine: points that raise an alarm when they come are kept aside until they are released,
//! dropped or written anew.

use std::collections::HashMap;
use std::sync::Arc;

use dehub_vector::PointId;

use super::Draft;
use super::corrections::unknown_correction;
use crate::alarm::{HubAlarm, hub_alarms};
use crate::quarantine::HeldRecord;
use crate::record::{META, RULE_KEY, held_key, to_json};
use crate::{Correction, HeldPoint, HubRule, PointInput, Receipt, WriteError};

impl Draft<'_> {
    /// Which of the last `count` points, all of this write, are hubs; the rows are places among them.
    pub(crate) fn alarms(&self, count: usize, rule: &HubRule) -> Result<Vec<HubAlarm>, WriteError> {
        let correction = self.tested_by(rule)?;
        let rows = self.next.row_count();
        let first = rows - u32::try_from(count).expect("at most BATCH_POINTS_MAX");
        let new: Vec<u32> = (first..rows).collect();
        let alarms = hub_alarms(&self.next.live, &correction, &new, rule.rate);
        Ok(alarms.into_iter().map(|alarm| HubAlarm { row: alarm.row - first, ..alarm }).collect())
    }

    /// The correction of a rule.
    fn tested_by(&self, rule: &HubRule) -> Result<Correction, WriteError> {
        rule.check()?;
        let name = &rule.correction;
        let record = self.next.corrections.get(name);
        let served = record.and_then(|record| self.next.serve(name, record));
        let correction = served.ok_or_else(|| unknown_correction(&self.next, name))?;
        if correction.scorer().is_some() {
            let method = correction.info().method.to_string();
            return Err(WriteError::NoBiases { correction: name.clone(), method });
        }
        Ok(correction)
    }

    /// Upserts points but for those with an alarm, which are held. A point whose new version is held
    /// leaves the gallery: its id has one version, as ever.
    pub(crate) fn upsert_and_hold(
        &mut self,
        points: &[PointInput],
        alarms: &[HubAlarm],
        rule: &HubRule,
    ) -> Result<Receipt, WriteError> {
        let by_place: HashMap<usize, &HubAlarm> =
            alarms.iter().map(|alarm| (alarm.row as usize, alarm)).collect();
        let is_held = |place: &usize| by_place.contains_key(place);
        let served: Vec<PointInput> =
            (0..points.len()).filter(|place| !is_held(place)).map(|place| points[place].clone()).collect();
        let receipt = self.upsert(&served)?;
        let served_before = self.next.live.len();
        let ids: Vec<PointId> = by_place.keys().map(|&place| points[place].id.clone()).collect();
        self.delete(&ids)?;
        let deleted = served_before - self.next.live.len();
        let sequence = self.next.counters.sequence;
        for (&place, alarm) in &by_place {
            let (point, correction) = (points[place].clone(), rule.correction.clone());
            let held = HeldPoint { point, correction, bias: alarm.bias, p: alarm.p, sequence };
            let id = held.point.id.clone();
            self.visible.put(META, &held_key(&id), &to_json(&HeldRecord::new(&held)));
            Arc::make_mut(&mut self.next.quarantine.held).insert(id, held);
        }
        Ok(Receipt { deleted, ..receipt })
    }

    pub(crate) fn set_quarantine(&mut self, rule: Option<&HubRule>) -> Result<(), WriteError> {
        match rule {
            None => self.visible.delete(META, RULE_KEY),
            Some(rule) => {
                self.check_single("a quarantine", "what is held is one vector")?;
                self.tested_by(rule)?;
                self.visible.put(META, RULE_KEY, &to_json(rule));
            }
        }
        self.next.quarantine.rule = rule.cloned();
        Ok(())
    }

    /// Makes held points ordinary ones, untested.
    pub(crate) fn release(&mut self, ids: &[PointId]) -> Result<Receipt, WriteError> {
        let held = Arc::clone(&self.next.quarantine.held);
        let point = |(place, id): (usize, &PointId)| match held.get(id) {
            Some(held) => Ok(held.point.clone()),
            None => Err(WriteError::NotHeld { place, id: id.clone() }),
        };
        let points = ids.iter().enumerate().map(point).collect::<Result<Vec<_>, _>>()?;
        self.upsert(&points)
    }

    /// Takes an id out of the quarantine; tells whether it was there.
    pub(super) fn unhold(&mut self, id: &PointId) -> bool {
        if !self.next.quarantine.held.contains_key(id) {
            return false;
        }
        self.visible.delete(META, &held_key(id));
        Arc::make_mut(&mut self.next.quarantine.held).remove(id).is_some()
    }
}
