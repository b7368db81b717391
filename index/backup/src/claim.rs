//! Claims: nobody sweeps objects that a backup under way counts on.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::BackupError;
use crate::objects::Marker;

/// Objects of a claim that was not renewed for so long belong to a process that died.
pub(crate) const DEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a claim that is marked by an object is renewed.
const RENEW: Duration = Duration::from_secs(10 * 60);

/// What a claim is for. Any number may use objects at a time, or one may sweep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Use,
    Sweep,
}

impl Purpose {
    /// How the name of a marker starts.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Purpose::Use => "use-",
            Purpose::Sweep => "sweep-",
        }
    }
}

/// Held while objects are used or swept.
pub(crate) enum Claim {
    /// A lock of the operating system, which ends with the process.
    Locked { _lock: File },
    /// An object that others see.
    Marked { marker: Marker, renewed: Instant },
    /// The file system knows no locks.
    Unheld,
}

impl Claim {
    /// Shows others that the work goes on.
    pub(crate) fn renew(&mut self) -> Result<(), BackupError> {
        match self {
            Claim::Marked { marker, renewed } if renewed.elapsed() >= RENEW => {
                marker.write()?;
                *renewed = Instant::now();
                Ok(())
            }
            Claim::Marked { .. } | Claim::Locked { .. } | Claim::Unheld => Ok(()),
        }
    }
}
