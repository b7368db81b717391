//! Hub alarms: new points whose bias is out of the ordinary.

use std::collections::HashSet;

use dehub_vector::PointId;
use serde::{Deserialize, Serialize};

use crate::row_set::RowSet;
use crate::{Correction, Name, PointInput, Snapshot, WriteError};

/// By which correction's biases new points are tested, and how strictly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HubRule {
    /// The correction.
    pub correction: Name,
    /// The share of false alarms to allow among all alarms of a write, 0 to 1.
    pub rate: f64,
}

impl HubRule {
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        if (0.0..=1.0).contains(&self.rate) { Ok(()) } else { Err(WriteError::Rate { found: self.rate }) }
    }
}

/// A written point whose bias few others reach.
#[derive(Debug, Clone, PartialEq)]
pub struct PointAlarm {
    /// Its id.
    pub id: PointId,
    /// Its bias, when every gate is open.
    pub bias: f32,
    /// As [`HubAlarm::p`].
    pub p: f64,
}

impl PointAlarm {
    /// The alarms of a write, whose rows are places in it.
    pub(crate) fn of(points: &[PointInput], alarms: Vec<HubAlarm>) -> Vec<PointAlarm> {
        let of_place =
            |HubAlarm { row, bias, p }| PointAlarm { id: points[row as usize].id.clone(), bias, p };
        alarms.into_iter().map(of_place).collect()
    }
}

/// A point whose bias few others reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HubAlarm {
    /// Its row.
    pub row: u32,
    /// Its bias, when every gate is open.
    pub bias: f32,
    /// The chance that a point like the others has a bias as large: `(1 + those that have)/(1 + others)`.
    pub p: f64,
}

impl Snapshot {
    /// The points among `new` that are hubs by the standard of the others: their biases are tested
    /// against the biases of all points that are not new, and the share of false alarms among all
    /// alarms is kept below `rate` (Benjamini & Hochberg 1995). For a single point that is a test at
    /// level `rate`.
    ///
    /// The test is a rank test: it assumes that an ordinary new point is like the points that are
    /// there, and nothing about the shape of their biases. With fewer than `1/rate` others there can
    /// be no alarm, and none by a correction whose points have no biases.
    pub fn hub_alarms(&self, correction: &Correction, new: &[u32], rate: f64) -> Vec<HubAlarm> {
        hub_alarms(&self.live, correction, new, rate)
    }
}

/// See [`Snapshot::hub_alarms`]; `live` are the rows of all points, the new ones included.
#[expect(clippy::cast_precision_loss, reason = "counts of points are far below 2^53")]
pub(crate) fn hub_alarms(live: &RowSet, correction: &Correction, new: &[u32], rate: f64) -> Vec<HubAlarm> {
    if correction.scorer().is_some() {
        return Vec::new();
    }
    let variant = correction.variant(&vec![true; correction.columns().len()], 1.0);
    let tested: HashSet<u32> = new.iter().copied().filter(|&row| live.contains(row)).collect();
    let others = live.iter().filter(|row| !tested.contains(row));
    let mut ordinary: Vec<f32> = others.map(|row| variant.bias(row)).collect();
    ordinary.sort_unstable_by(f32::total_cmp);
    let alarm = |row| {
        let bias = variant.bias(row);
        let as_large = ordinary.len() - ordinary.partition_point(|&other| other < bias);
        HubAlarm { row, bias, p: (1 + as_large) as f64 / (1 + ordinary.len()) as f64 }
    };
    let mut ranked: Vec<HubAlarm> = tested.into_iter().map(alarm).collect();
    ranked.sort_unstable_by(|a, b| a.p.total_cmp(&b.p).then(a.row.cmp(&b.row)));
    let count = ranked.len() as f64;
    let passes = |place: usize| ranked[place].p <= rate * (place + 1) as f64 / count;
    let kept = (0..ranked.len()).rev().find(|&place| passes(place)).map_or(0, |place| place + 1);
    ranked.truncate(kept);
    ranked
}
