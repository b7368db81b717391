//! Named places where a test may kill the process.

use std::fmt;

/// The environment variable that arms one point: its name, or `name:n` for the n-th time it is reached.
#[cfg(debug_assertions)]
const ARMING: &str = "DEHUB_FAIL_POINT";

/// A place between two steps of a write, where a kill must do no harm.
///
/// A build with debug assertions looks at the environment variable `DEHUB_FAIL_POINT` once. If it is `name`, or
/// `name:n`, then the n-th time (the first without `n`) that point is reached, the process prints the line
/// `reached name` on its standard output, and the thread that reached it sleeps for ever, so that a parent can kill the
/// process there. Other threads go on. In any other build there is nothing of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailPoint {
    /// A batch is checked and about to be written.
    BeforeCommit,
    /// A batch is written, and nobody was told.
    AfterCommit,
    /// The log is synced, and nobody was told.
    AfterSync,
    /// One of several batches that belong together is written.
    BetweenPieces,
    /// A commit is durable, and no reader sees it.
    BeforePublish,
    /// A graph file is written under its temporary name.
    GraphWritten,
    /// A graph file has its name, and nobody uses it.
    GraphRenamed,
    /// A graph is in use, and the files it replaces are still there.
    GraphSwapped,
    /// A fit is computed beside the data and not installed.
    FitPrepared,
    /// A piece of a fit is stored, and no record names it.
    FitPieceKept,
    /// A collection is made under its temporary name.
    CreateMade,
    /// A collection has its name, and nobody was told.
    CreateRenamed,
    /// A collection to be deleted lost its name, and its files are still there.
    DeleteRenamed,
    /// A checkpoint is complete, and nobody was told.
    CheckpointMade,
    /// An object of a backup is stored, and no manifest names it.
    BackupObjectStored,
    /// The manifest of a backup is written, and nobody was told.
    BackupManifestWritten,
    /// What is restored is on disk under its temporary name.
    RestoreFetched,
    /// What is restored has its name, and nobody was told.
    RestoreRenamed,
    /// A compaction begins.
    CompactBegun,
    /// A compaction is done, and nobody was told.
    CompactDone,
    /// Texts are given to their index, and it has not committed them.
    TextsWritten,
    /// The index of texts has committed, and nobody searches what is new.
    TextsCommitted,
    /// The records of an older format are about to be rewritten.
    UpgradeBegun,
}

impl FailPoint {
    /// Every point.
    pub const ALL: [FailPoint; 23] = [
        FailPoint::BeforeCommit,
        FailPoint::AfterCommit,
        FailPoint::AfterSync,
        FailPoint::BetweenPieces,
        FailPoint::BeforePublish,
        FailPoint::GraphWritten,
        FailPoint::GraphRenamed,
        FailPoint::GraphSwapped,
        FailPoint::FitPrepared,
        FailPoint::FitPieceKept,
        FailPoint::CreateMade,
        FailPoint::CreateRenamed,
        FailPoint::DeleteRenamed,
        FailPoint::CheckpointMade,
        FailPoint::BackupObjectStored,
        FailPoint::BackupManifestWritten,
        FailPoint::RestoreFetched,
        FailPoint::RestoreRenamed,
        FailPoint::CompactBegun,
        FailPoint::CompactDone,
        FailPoint::TextsWritten,
        FailPoint::TextsCommitted,
        FailPoint::UpgradeBegun,
    ];

    /// The name by which `DEHUB_FAIL_POINT` knows it.
    pub const fn name(self) -> &'static str {
        match self {
            FailPoint::BeforeCommit => "before-commit",
            FailPoint::AfterCommit => "after-commit",
            FailPoint::AfterSync => "after-sync",
            FailPoint::BetweenPieces => "between-pieces",
            FailPoint::BeforePublish => "before-publish",
            FailPoint::GraphWritten => "graph-written",
            FailPoint::GraphRenamed => "graph-renamed",
            FailPoint::GraphSwapped => "graph-swapped",
            FailPoint::FitPrepared => "fit-prepared",
            FailPoint::FitPieceKept => "fit-piece-kept",
            FailPoint::CreateMade => "create-made",
            FailPoint::CreateRenamed => "create-renamed",
            FailPoint::DeleteRenamed => "delete-renamed",
            FailPoint::CheckpointMade => "checkpoint-made",
            FailPoint::BackupObjectStored => "backup-object-stored",
            FailPoint::BackupManifestWritten => "backup-manifest-written",
            FailPoint::RestoreFetched => "restore-fetched",
            FailPoint::RestoreRenamed => "restore-renamed",
            FailPoint::CompactBegun => "compact-begun",
            FailPoint::CompactDone => "compact-done",
            FailPoint::TextsWritten => "texts-written",
            FailPoint::TextsCommitted => "texts-committed",
            FailPoint::UpgradeBegun => "upgrade-begun",
        }
    }

    /// Says that this place is reached; does not return if a test armed it.
    ///
    /// # Panics
    /// If `DEHUB_FAIL_POINT` names no point, for a test would wait in vain. Only with debug assertions.
    #[cfg(debug_assertions)]
    pub fn reach(self) {
        use std::sync::LazyLock;
        use std::sync::atomic::{AtomicU64, Ordering};

        static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
            let setting = std::env::var(ARMING).ok()?;
            Some(Armed::parse(&setting).unwrap_or_else(|| panic!("{ARMING}={setting:?} names no fail point")))
        });
        static REACHED: AtomicU64 = AtomicU64::new(0);

        let Some(armed) = *ARMED else { return };
        if armed.point == self && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == armed.time {
            stop_at(self);
        }
    }

    /// Says that this place is reached; nothing in this build.
    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub fn reach(self) {}
}

impl fmt::Display for FailPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tells the parent, and waits for the kill.
#[cfg(debug_assertions)]
#[expect(
    clippy::print_stdout,
    reason = "a parent that tests this process reads where it is; no shipped build has it"
)]
fn stop_at(point: FailPoint) -> ! {
    use std::io::Write as _;

    println!("\nreached {point}");
    // A parent that does not listen is no reason to go on.
    let _ = std::io::stdout().flush();
    loop {
        std::thread::park();
    }
}

/// The point to stop at, and the how manieth time, from 1.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Armed {
    point: FailPoint,
    time: u64,
}

#[cfg(debug_assertions)]
impl Armed {
    fn parse(setting: &str) -> Option<Armed> {
        let (name, time) = match setting.split_once(':') {
            Some((name, time)) => (name, time.parse().ok().filter(|&time| time > 0)?),
            None => (setting, 1),
        };
        let point = FailPoint::ALL.into_iter().find(|point| point.name() == name)?;
        Some(Armed { point, time })
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn setting_is_a_name_and_optionally_a_count_from_one() {
        let first = |point| Some(Armed { point, time: 1 });
        for point in FailPoint::ALL {
            assert_eq!(Armed::parse(point.name()), first(point));
            assert_eq!(Armed::parse(&format!("{point}:7")), Some(Armed { point, time: 7 }));
        }
        for bad in ["", ":", "after", "after-commit:", "after-commit:0", "after-commit:x", "after-commit:1:1"]
        {
            assert_eq!(Armed::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = FailPoint::ALL.into_iter().map(FailPoint::name).collect();
        assert_eq!(names.len(), FailPoint::ALL.len());
        let is_kebab = |name: &&str| name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase());
        assert!(names.iter().all(is_kebab), "{names:?}");
    }
}
