//! Fitting anew what is not as its bank says.

use dehub_normalize::Points;

use super::Draft;
use super::refit::fit_lists;
use crate::record::SetKind;
use crate::{Name, WriteError};

impl Draft<'_> {
    /// Fits every statistic and every gate over a bank anew from its entries. Corrections over it get their next
    /// version.
    pub(crate) fn fit_anew(&mut self, name: &Name) -> Result<(), WriteError> {
        let bank = self.bank(name)?;
        let places: Vec<u32> = (0..bank.slots()).collect();
        self.refit(name, &places)?;
        let (own, state) = (self.own_entries(&bank)?, self.next.clone());
        let points = Points {
            vectors: &state.vectors,
            live: &|row| state.live.contains(row),
            own_entry: &|row| own.get(&row).copied(),
        };
        for (&number, set) in state.sets.iter().filter(|(_, set)| set.bank == *name) {
            let SetKind::Activation { k } = set.kind() else { continue };
            let lists = fit_lists(&points, 0, &bank, bank.fit(state.config.metric), 0..bank.slots(), k);
            self.remove_set(number);
            self.install_gate(name, lists)?;
        }
        Ok(())
    }
}
