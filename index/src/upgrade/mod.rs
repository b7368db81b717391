//! Bringing the store of an older version to the present format, when it is opened.
//!
//! A step turns the records of one format into those of the next, in one synced commit that raises the number too; so
//! a kill leaves the one format or the other. It reads records as JSON and names no type of today, so that it goes on
//! being right when those change.

mod from_2;
mod from_3;
mod from_4;

use std::path::Path;

use dehub_store::{Batch, Durability, FailPoint, Store};

use crate::config::{FORMAT, Head, VERSION};
use crate::record::{CONFIG_KEY, META, damaged, from_json};
use crate::{OpenError, ReadError};

/// The changes that make the records of one format those of the next.
type Step = fn(&Store) -> Result<Batch, ReadError>;

/// The oldest format that is read.
pub(crate) const OLDEST: u32 = 2;

/// The step from each format on from [`OLDEST`], the present one excepted.
const STEPS: [Step; (FORMAT - OLDEST) as usize] = [from_2::changes, from_3::changes, from_4::changes];

/// Brings a store to the present format. One of a newer or a forgotten format is refused.
pub(crate) fn run(path: &Path, store: &Store) -> Result<(), OpenError> {
    loop {
        let read = |source| OpenError::Read { path: path.to_owned(), source };
        let Head { format, written_by } = head(store).map_err(read)?;
        if format == FORMAT {
            return Ok(());
        }
        let step = format.checked_sub(OLDEST).and_then(|place| STEPS.get(place as usize));
        let Some(step) = step else {
            let (path, supported) = (path.to_owned(), FORMAT);
            return Err(OpenError::Format { path, found: format, supported, written_by });
        };
        let batch = step(store).map_err(read)?;
        FailPoint::UpgradeBegun.reach();
        let failed = |source| OpenError::Upgrade { path: path.to_owned(), from: format, source };
        store.commit(batch, Durability::Strict).map_err(failed)?;
        tracing::info!(path = %path.display(), from = format, to = format + 1, by = VERSION, "upgraded");
    }
}

fn head(store: &Store) -> Result<Head, ReadError> {
    let bytes = store.get(META, CONFIG_KEY)?.ok_or_else(|| damaged(META, "there is no configuration"))?;
    Ok(from_json(META, &bytes)?)
}
