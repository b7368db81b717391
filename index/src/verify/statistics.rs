//! States, columns and gates against a fit that is made now.

use std::ops::Range;

use dehub_normalize::{Bank as FitBank, Points, State as PointState, Statistic, fit_rows};
use dehub_vector::{CHUNK_ROWS, Metric, product_error};

use super::Verifier;
use crate::bank::Bank;
use crate::correction::Column;
use crate::record::{STATES, pair_key, read_pair};
use crate::row_set::RowSet;
use crate::state::Fitting;
use crate::write::fit_lists;
use crate::{CollectionConfig, Name, ReadError};

/// Rows that are fitted before they are compared.
const PIECE_ROWS: u32 = 16 * CHUNK_ROWS as u32;

/// A set of states and what its rows are fitted with.
struct Fitted<'a> {
    number: u32,
    statistic: Statistic,
    column: &'a Column,
    potentials: Option<&'a [f32]>,
}

impl Verifier<'_> {
    pub(super) fn statistics(&mut self) -> Result<(), ReadError> {
        self.read_sets()?;
        let banks: Vec<&Name> = self.state.banks.keys().collect();
        for name in banks {
            let of_bank = self.state.sets.iter().filter(|(_, set)| set.bank == *name);
            let mut columns = Vec::new();
            let mut absorbed = 0;
            for (&number, set) in of_bank {
                absorbed = set.absorbed;
                if let Fitting::Column { statistic, column, potentials } = &set.fitted {
                    let potentials = potentials.as_ref().map(|potentials| potentials.as_slice());
                    columns.push(Fitted { number, statistic: *statistic, column, potentials });
                }
            }
            let before = self.report.own_differences();
            columns.iter().for_each(|fitted| self.column(fitted));
            let bank = &self.state.banks[name];
            self.states(bank, 0..absorbed as usize, &columns)?;
            if self.report.own_differences() > before {
                self.report.repairs.banks.insert(name.clone());
            }
        }
        Ok(())
    }

    /// A column against the states that were read again.
    fn column(&mut self, &Fitted { number, statistic, column, .. }: &Fitted<'_>) {
        let Some(Fitting::Column { column: fresh, .. }) = self.fresh.sets.get(&number).map(|set| &set.fitted)
        else {
            return;
        };
        let served: Vec<u32> = self.state.live.iter().filter(|&row| !column.is_same(fresh, row)).collect();
        for row in served {
            self.report.differ("states", place(number, row), "the number that is served", "another");
        }
        // The mean of the points of then, who may all have gone: nothing tells whether it is right, or needs it to be.
        let center = column.center();
        let is_one = if statistic.is_centred() { center.is_finite() } else { center == 0.0 };
        if !is_one {
            let wanted = if statistic.is_centred() { "a number" } else { "0" };
            self.report.differ("sets", number, format!("{wanted} for a centre"), center);
        }
    }

    /// The states of all rows against those of a fit over the entries that were absorbed.
    fn states(
        &mut self,
        bank: &Bank,
        absorbed: Range<usize>,
        columns: &[Fitted<'_>],
    ) -> Result<(), ReadError> {
        if columns.is_empty() {
            return Ok(());
        }
        let state = self.state;
        let own = bank.own_entries(|id| self.row(id))?;
        let points = Points {
            vectors: &state.vectors,
            live: &|row| state.live.contains(row),
            own_entry: &|row| own.get(&row).copied(),
        };
        let fit_bank = bank.fit(state.config.metric);
        let longest =
            bank.live_from(0).map(|slot| bank.vectors.square(slot as usize).sqrt()).fold(0.0, f32::max);
        let plain: Vec<Statistic> =
            columns.iter().filter(|it| it.potentials.is_none()).map(|it| it.statistic).collect();
        for first in (0..state.row_count()).step_by(PIECE_ROWS as usize) {
            let rows = first..state.row_count().min(first.saturating_add(PIECE_ROWS));
            let span = rows.start as usize..rows.end as usize;
            let mut of_plain = if state.live.has_none(rows.clone()) {
                vec![Vec::new(); plain.len()].into_iter()
            } else {
                fit_rows(&points, span.clone(), fit_bank, absorbed.clone(), &plain).into_iter()
            };
            for fitted in columns {
                let states = match fitted.potentials {
                    None => of_plain.next().unwrap_or_default(),
                    Some(_) if state.live.has_none(rows.clone()) => Vec::new(),
                    Some(potentials) => {
                        let bank = FitBank { potentials: Some(potentials), ..fit_bank };
                        let fitted =
                            fit_rows(&points, span.clone(), bank, absorbed.clone(), &[fitted.statistic]);
                        fitted.into_iter().flatten().collect()
                    }
                };
                self.states_of(fitted, rows.clone(), &states, longest)?;
            }
        }
        Ok(())
    }

    /// The stored states of some rows against those just fitted.
    fn states_of(
        &mut self,
        &Fitted { number, statistic, .. }: &Fitted<'_>,
        rows: Range<u32>,
        fitted: &[PointState],
        longest: f32,
    ) -> Result<(), ReadError> {
        let mut seen = RowSet::default();
        let end = pair_key(number, rows.end);
        for item in self.view.scan(STATES, &pair_key(number, rows.start), Some(&end)) {
            let (key, value) = item?;
            let (_, row) = read_pair(STATES, &key)?;
            if !self.state.live.contains(row) {
                self.report.differ("states", place(number, row), "no state, as no point has the row", "one");
                continue;
            }
            seen.insert(row);
            let found = statistic.decode(&value)?;
            let wanted = &fitted[(row - rows.start) as usize];
            let slack = slack(&self.state.config, self.state.vectors.square(row as usize).sqrt(), longest);
            if !found.is_near(wanted, statistic, slack) {
                let value = |state: &PointState| {
                    let bank = self.state.sets.get(&number).and_then(|set| self.state.banks.get(&set.bank));
                    bank.map_or(0.0, |bank| statistic.value(state, &bank.vectors))
                };
                let (wanted, found) = (value(wanted), value(&found));
                self.report.differ("states", place(number, row), format!("{statistic} {wanted}"), found);
            }
        }
        let missing: Vec<u32> =
            self.state.live.within(rows.clone()).filter(|&row| !seen.contains(row)).collect();
        for row in missing {
            self.report.differ("states", place(number, row), "a state", "none");
        }
        self.report.looked_at(self.state.live.count(rows) as u64);
        Ok(())
    }

    pub(super) fn gates(&mut self) -> Result<(), ReadError> {
        let state = self.state;
        for (&number, set) in &state.sets {
            let (Fitting::Gate { activation, rows }, Some(bank)) = (&set.fitted, state.banks.get(&set.bank))
            else {
                continue;
            };
            let own = bank.own_entries(|id| self.row(id))?;
            let points = Points {
                vectors: &state.vectors,
                live: &|row| state.live.contains(row),
                own_entry: &|row| own.get(&row).copied(),
            };
            let fit_bank = bank.fit(state.config.metric);
            let wanted = fit_lists(&points, 0, bank, fit_bank, 0..set.absorbed, activation.k());
            let before = self.report.own_differences();
            let stored = self.fresh.sets.get(&number).map(|set| &set.fitted);
            let stored = match stored {
                Some(Fitting::Gate { activation, .. }) => activation.lists(),
                Some(Fitting::Column { .. }) | None => &[],
            };
            for (entry, wanted) in wanted.lists().iter().enumerate() {
                self.report.looked_at(1);
                for (what, lists) in [("in memory", activation.lists()), ("in the store", stored)] {
                    if lists.get(entry) != Some(wanted) {
                        let place = format!("set {number}, entry {entry}, {what}");
                        let found = format!("{:?}", lists.get(entry));
                        self.report.differ("states", place, format!("{wanted:?}"), found);
                    }
                }
            }
            if !rows.iter().eq(activation.rows().into_iter().collect::<RowSet>().iter()) {
                self.report.differ("states", format!("set {number}"), "the rows of its lists", "others");
            }
            if self.report.own_differences() > before {
                self.report.repairs.banks.insert(set.bank.clone());
            }
        }
        Ok(())
    }
}

fn place(set: u32, row: u32) -> String {
    format!("set {set}, row {row}")
}

/// How far two similarities of a point to entries of a bank may lie apart: those of two sums in other orders, and
/// the rounding of the halves that Euclidean ones are less.
fn slack(config: &CollectionConfig, own: f32, longest: f32) -> f64 {
    let dim = config.dim.get();
    let halves = match config.metric {
        Metric::Cosine | Metric::Dot => 0.0,
        Metric::Euclidean => {
            4.0 * f32::EPSILON * (own * own + longest * longest)
                + product_error(dim, own, own)
                + product_error(dim, longest, longest)
        }
    };
    f64::from(2.0 * product_error(dim, own, longest) + halves)
}
