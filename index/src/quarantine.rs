//! Quarantine: new points that look like hubs are kept, but not served.

use std::collections::BTreeMap;
use std::sync::Arc;

use dehub_vector::PointId;
use serde::{Deserialize, Serialize};

use crate::{HubRule, Name, Payload, PointInput};

/// A point in quarantine. It has no row, so nothing can find it, and no statistic or gate knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldPoint {
    /// The point as it was given.
    pub point: PointInput,
    /// The correction whose bias raised the alarm.
    pub correction: Name,
    /// The bias it had.
    pub bias: f32,
    /// The chance that a point like those there were has a bias as large.
    pub p: f64,
    /// The commit that put it here.
    pub sequence: u64,
}

/// The rule by which new points are held, if there is one, and those that are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quarantine {
    pub(crate) rule: Option<HubRule>,
    pub(crate) held: Arc<BTreeMap<PointId, HeldPoint>>,
}

/// A held point as it is stored under its id.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeldRecord {
    vector: Vec<f32>,
    text: Option<String>,
    payload: Option<String>,
    correction: Name,
    bias: f32,
    p: f64,
    sequence: u64,
}

impl HeldRecord {
    pub(crate) fn new(held: &HeldPoint) -> HeldRecord {
        let HeldPoint { point, correction, bias, p, sequence } = held.clone();
        let payload = point.payload.map(|payload| payload.as_json().to_owned());
        let vector = point.vector.into_vec();
        HeldRecord { vector, text: point.text, payload, correction, bias, p, sequence }
    }

    pub(crate) fn into_point(self, id: PointId) -> HeldPoint {
        let HeldRecord { vector, text, payload, correction, bias, p, sequence } = self;
        let payload = payload.as_deref().map(Payload::stored);
        let point = PointInput { payload, text, ..PointInput::new(id, vector) };
        HeldPoint { point, correction, bias, p, sequence }
    }
}
