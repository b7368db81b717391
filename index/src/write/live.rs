//! The live bank: its policy, and the exchange of its entries.

use std::collections::BTreeSet;

use dehub_normalize::BankKind;
use dehub_vector::PointId;

use super::Draft;
use crate::record::{LIVE_KEY, META, to_json};
use crate::{BankUpdate, LIVE_ID_PREFIX, LiveBank, Name, WriteError};

impl Draft<'_> {
    /// Keeps queries by this policy, or by none.
    pub(crate) fn set_live_bank(&mut self, policy: Option<&LiveBank>) -> Result<(), WriteError> {
        match policy {
            None => self.visible.delete(META, LIVE_KEY),
            Some(policy) => {
                policy.check()?;
                self.check_single("a live bank", "what is kept of a query is one vector")?;
                let (name, kind) = (policy.bank.clone(), BankKind::Query);
                self.add_to_bank(&BankUpdate { name, kind, entries: Vec::new(), defer: false })?;
                self.check_may_be_live(&policy.bank)?;
                self.visible.put(META, LIVE_KEY, &to_json(policy));
            }
        }
        self.next.live_bank = policy.cloned();
        Ok(())
    }

    /// Whether queries may be kept in a bank: those that others gathered would be mixed with them.
    fn check_may_be_live(&self, name: &Name) -> Result<(), WriteError> {
        let Some(bank) = self.next.banks.get(name) else { return Ok(()) };
        let is_kept = self.next.live_bank.as_ref().is_some_and(|policy| policy.bank == *name);
        let is_of_queries = |id: &PointId| matches!(id, PointId::Text(id) if id.starts_with(LIVE_ID_PREFIX));
        if is_kept || bank.len() == 0 || bank.by_id.keys().any(is_of_queries) {
            return Ok(());
        }
        Err(WriteError::BankIsNotLive { bank: name.clone(), entries: bank.len() })
    }

    /// Whether a bank may be dropped.
    pub(super) fn check_not_live(&self, bank: &Name) -> Result<(), WriteError> {
        match &self.next.live_bank {
            Some(policy) if policy.bank == *bank => Err(WriteError::BankIsLive { bank: bank.clone() }),
            Some(_) | None => Ok(()),
        }
    }

    /// The slots of the entries with these ids.
    pub(super) fn slots_of(&self, name: &Name, ids: &[PointId]) -> Result<BTreeSet<u32>, WriteError> {
        let bank = self.bank(name)?;
        Ok(ids.iter().filter_map(|id| bank.by_id.get(id).copied()).collect())
    }
}
