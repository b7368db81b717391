//! Sets: the states of every point for one statistic, and the columns they give.

use std::sync::Arc;

use dehub_normalize::{Bank as FitBank, Points, State as PointState, Statistic, fit_potentials, fit_states};

use super::Draft;
use super::banks::unknown_bank;
use crate::correction::Column;
use crate::record::{POTENTIALS, STATES, pair_key, read_pair, vector_bytes};
use crate::state::{Fitting, Set};
use crate::{Name, WriteError};

/// A column's set, its statistic and the potentials it is fitted with.
pub(super) type Potent = (u32, Statistic, Arc<Vec<f32>>);

impl Draft<'_> {
    /// The columns over a bank: those that need its vectors alone, and those that need potentials.
    pub(super) fn columns_over(&self, bank: &Name) -> (Vec<(u32, Statistic)>, Vec<Potent>) {
        let (mut plain, mut with_potentials) = (Vec::new(), Vec::new());
        for (&number, set) in self.next.sets.iter().filter(|(_, set)| set.bank == *bank) {
            match &set.fitted {
                Fitting::Column { statistic, potentials: None, .. } => plain.push((number, *statistic)),
                Fitting::Column { statistic, potentials: Some(potentials), .. } => {
                    with_potentials.push((number, *statistic, Arc::clone(potentials)));
                }
                Fitting::Gate { .. } => {}
            }
        }
        (plain, with_potentials)
    }

    /// Fits and installs a Sinkhorn statistic, from earlier potentials if there are some; entries that
    /// came since start from their mean.
    pub(super) fn install_balanced(
        &mut self,
        name: &Name,
        points: &Points<'_>,
        bank: FitBank<'_>,
        statistic: Statistic,
        earlier: Option<&[f32]>,
    ) -> Result<(), WriteError> {
        let Statistic::Sinkhorn { tau, iterations } = statistic else { return Ok(()) };
        let start = earlier.map(|earlier| extended(earlier, bank.vectors.len()));
        let potentials = fit_potentials(points, bank, tau, iterations, start.as_deref());
        let with = FitBank { potentials: Some(&potentials), ..bank };
        let states = fit_states(points, 0, with, 0, &[statistic]).pop().unwrap_or_default();
        self.install_column(name, statistic, &states, Some(potentials))
    }

    /// Merges the states a set has in the store into `states`, a state a row.
    pub(super) fn merge_stored(
        &self,
        set: u32,
        statistic: Statistic,
        states: &mut [PointState],
    ) -> Result<(), WriteError> {
        for item in self.store.scan(STATES, &pair_key(set, 0), Some(&pair_key(set, u32::MAX))) {
            let (key, value) = item?;
            let (_, row) = read_pair(STATES, &key)?;
            let earlier = statistic.decode(&value)?;
            if let Some(state) = states.get_mut(row as usize) {
                let later = std::mem::replace(state, earlier);
                state.merge(&later);
            }
        }
        Ok(())
    }

    /// Installs a set with the given states, a state a row, and its column.
    pub(super) fn install_column(
        &mut self,
        bank: &Name,
        statistic: Statistic,
        states: &[PointState],
        potentials: Option<Vec<f32>>,
    ) -> Result<(), WriteError> {
        let number = self.new_set();
        for (entry, &potential) in (0..).zip(potentials.iter().flatten()) {
            self.put_hidden(POTENTIALS, &pair_key(number, entry), &vector_bytes(&[potential]))?;
        }
        let Some(vectors) = self.next.banks.get(bank).map(|bank| bank.vectors.clone()) else {
            return Err(unknown_bank(&self.next, bank));
        };
        let values: Vec<f64> = states.iter().map(|state| statistic.value(state, &vectors)).collect();
        let center = if statistic.is_centred() { self.mean_over_live(&values) } else { 0.0 };
        let mut column = Column::new(statistic, center, vectors.len());
        for (row, state) in (0..).zip(states) {
            let live = self.next.live.contains(row);
            if live {
                self.put_hidden(STATES, &pair_key(number, row), &state.encode())?;
                column.push(values[row as usize], state.largest());
            } else {
                column.push_gone();
            }
        }
        let fitted = Fitting::Column { statistic, column, potentials: potentials.map(Arc::new) };
        self.install(number, Set { bank: bank.clone(), fitted });
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of points is far below 2^53")]
    fn mean_over_live(&self, values: &[f64]) -> f64 {
        let live = self.next.live.iter().map(|row| values[row as usize]);
        let count = self.next.live.len();
        if count == 0 { 0.0 } else { live.sum::<f64>() / count as f64 }
    }
}

/// Numbers up to a length, the missing ones their mean.
#[expect(clippy::cast_precision_loss, reason = "a count of entries is far below 2^24")]
fn extended(numbers: &[f32], len: usize) -> Vec<f32> {
    let mean = numbers.iter().sum::<f32>() / numbers.len().max(1) as f32;
    let mut extended = numbers.to_vec();
    extended.resize(len, mean);
    extended
}
