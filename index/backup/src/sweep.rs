//! Removing backups, and objects that none is left to need.

use std::collections::HashSet;

use crate::claim::Purpose;
use crate::directory::TEMPORARY;
use crate::id::BackupId;
use crate::repository::{check_name, manifest_key};
use crate::{BackupError, Repository};

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// The backups, the oldest first.
    pub backups: Vec<BackupId>,
    /// Objects that no backup has any more, and leftovers of interrupted backups.
    pub objects: usize,
    /// The bytes of these.
    pub bytes: u64,
}

impl Repository {
    /// Removes a backup, and what no other needs. One whose manifest is damaged can be removed, too.
    pub fn remove(&self, collection: &str, backup: &BackupId) -> Result<Swept, BackupError> {
        check_name(collection)?;
        if !self.ids(collection)?.contains(backup) {
            return Err(self.unknown(collection, backup.as_str()));
        }
        self.sweep(collection, |ids| ids.iter().filter(|id| *id == backup).cloned().collect())
    }

    /// Removes all backups of a collection but the newest `keep`, and what no other needs, such as the
    /// leftovers of interrupted backups.
    ///
    /// Nothing is removed if a manifest that stays cannot be read, for nobody knows what it needs.
    pub fn prune(&self, collection: &str, keep: usize) -> Result<Swept, BackupError> {
        check_name(collection)?;
        if !self.place.folders()?.iter().any(|folder| folder == collection) {
            return Ok(Swept::default());
        }
        self.sweep(collection, |ids| ids[..ids.len().saturating_sub(keep)].to_vec())
    }

    fn sweep(
        &self,
        collection: &str,
        choose: impl FnOnce(&[BackupId]) -> Vec<BackupId>,
    ) -> Result<Swept, BackupError> {
        let mut claim = self.place.claim(collection, Purpose::Sweep)?;
        let ids = self.ids(collection)?;
        let doomed = choose(&ids);
        let mut needed = HashSet::new();
        for id in ids.iter().filter(|id| !doomed.contains(id)) {
            needed.extend(self.manifest(collection, id)?.files.into_iter().map(|file| file.blake3));
            claim.renew()?;
        }
        // A backup goes before what it needs, so that none that is there lacks something.
        let (backups, objects) = (format!("{collection}/backups"), format!("{collection}/objects"));
        doomed.iter().try_for_each(|id| self.place.remove(&manifest_key(collection, id)))?;
        self.place.settle(&backups)?;
        let mut swept = Swept { backups: doomed, ..Swept::default() };
        for (folder, is_object) in [(&backups, false), (&objects, true)] {
            for found in self.place.list(folder)? {
                let is_unneeded = is_object && is_hash(&found.name) && !needed.contains(&found.name);
                if is_unneeded || found.name.starts_with(TEMPORARY) {
                    self.place.remove(&format!("{folder}/{}", found.name))?;
                    swept.objects += 1;
                    swept.bytes += found.bytes;
                    claim.renew()?;
                }
            }
        }
        Ok(swept)
    }
}

/// What is not ours stays.
fn is_hash(name: &str) -> bool {
    name.len() == 2 * blake3::OUT_LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
