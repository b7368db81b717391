//! How far a stale correction can be from what it will be: bounds on what its statistics can become when
//! the entries it has not taken in are.

use dehub_normalize::{Growth, Unseen};
use dehub_vector::Metric;

use crate::bank::Bank;
use crate::correction::Source;
use crate::record::{STATES, damaged, pair_key};
use crate::{Correction, ReadError, Snapshot};

/// What rounding in 32 bits adds to a bound, as a part of the numbers it is about.
const ROUNDING: f64 = 1e-6;

/// What a bank has that a set has not taken in.
struct Later {
    weight: f64,
    /// The length of the longest vector.
    longest: f64,
    /// The weight taken in, less what may be a point's own entry.
    seen: f64,
}

impl Later {
    fn new(bank: &Bank, source: &Source) -> Later {
        let mut later = Later { weight: 0.0, longest: 0.0, seen: 0.0 };
        let mut heaviest = 0.0_f64;
        for slot in bank.live_from(0) {
            let weight = f64::from(bank.weight(slot));
            if slot < source.absorbed {
                later.seen += weight;
                heaviest = heaviest.max(weight);
            } else {
                later.weight += weight;
                later.longest = later.longest.max(f64::from(bank.vectors.square(slot as usize)).sqrt());
            }
        }
        later.seen -= heaviest;
        later
    }

    /// The bounds on similarities to a point of this length.
    fn unseen(&self, metric: Metric, length: f64) -> Unseen {
        let product = length * self.longest;
        let (least, most) = match metric {
            Metric::Cosine => (-1.0, 1.0),
            Metric::Dot => (-product, product),
            Metric::Euclidean => (-(length + self.longest).powi(2) / 2.0, 0.0),
        };
        let slack = ROUNDING * (1.0 + product + length * length + self.longest * self.longest);
        Unseen { weight: self.weight, least: least - slack, most: most + slack }
    }
}

impl Snapshot {
    /// How far each column of a correction, and its scale after them, can move for a row when its banks'
    /// unseen entries are taken in, whatever they are. `None`: there is no bound.
    pub fn growth(&self, correction: &Correction, row: u32) -> Result<Vec<Option<Growth>>, ReadError> {
        correction.sources.iter().map(|source| self.growth_of(source, row)).collect()
    }

    fn growth_of(&self, source: &Source, row: u32) -> Result<Option<Growth>, ReadError> {
        let Some(later) = self.later(source).filter(|later| later.weight > 0.0) else {
            return Ok(Some(Growth::default()));
        };
        let bytes = self.view.get(STATES, &pair_key(source.set, row))?;
        let bytes =
            bytes.ok_or_else(|| damaged(STATES, format!("set {} has no state for row {row}", source.set)))?;
        let state = source.statistic.decode(&bytes)?;
        let length = f64::from(self.vectors.square(row as usize)).sqrt();
        let unseen = later.unseen(self.config.metric, length);
        Ok(source.statistic.growth(&state, &unseen))
    }

    /// For each column of a correction, and its scale after them, how far it can fall for any point there
    /// is. `None`: there is no bound.
    pub fn fall_of_any(&self, correction: &Correction) -> Vec<Option<f64>> {
        let fall = |source: &Source| {
            let Some(later) = self.later(source).filter(|later| later.weight > 0.0) else { return Some(0.0) };
            let unseen = later.unseen(self.config.metric, f64::from(self.norm_max));
            source.statistic.fall_of_any(later.seen, &unseen)
        };
        correction.sources.iter().map(fall).collect()
    }

    fn later(&self, source: &Source) -> Option<Later> {
        self.banks.get(&source.bank).map(|(_, bank)| Later::new(bank, source))
    }
}
