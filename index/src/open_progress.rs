//! How far a collection that is being opened has been read.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What is being read, in the order in which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenPhase {
    /// The store's logs are checked and read again.
    Store,
    /// Vectors and ids of points.
    Points,
    /// Entries of banks.
    Banks,
    /// States of corrections.
    Corrections,
    /// Files of the graph.
    Graph,
    /// The index of texts, which is brought up to date.
    Texts,
}

impl OpenPhase {
    const ALL: [OpenPhase; 6] = [
        OpenPhase::Store,
        OpenPhase::Points,
        OpenPhase::Banks,
        OpenPhase::Corrections,
        OpenPhase::Graph,
        OpenPhase::Texts,
    ];

    /// In a word or two, as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            OpenPhase::Store => "store",
            OpenPhase::Points => "points",
            OpenPhase::Banks => "banks",
            OpenPhase::Corrections => "corrections",
            OpenPhase::Graph => "graph",
            OpenPhase::Texts => "texts",
        }
    }

    /// About how much of the time of opening it takes; all together take 1.
    fn weight(self) -> f64 {
        match self {
            OpenPhase::Store => 0.1,
            OpenPhase::Points => 0.4,
            OpenPhase::Banks => 0.05,
            OpenPhase::Corrections => 0.3,
            OpenPhase::Graph => 0.05,
            OpenPhase::Texts => 0.1,
        }
    }
}

/// Told by the thread that opens a collection, asked by any other; neither waits for the other.
#[derive(Debug, Default)]
pub struct OpenProgress {
    /// The phase's place in [`OpenPhase::ALL`].
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    /// The bits of the largest share that was told. A share is not negative, so they are in its order.
    largest: AtomicU64,
}

impl OpenProgress {
    /// Begins a phase of `total` parts of any kind; 0 if that is not known.
    pub fn begin(&self, phase: OpenPhase, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// So many more parts of the phase are read.
    pub fn add(&self, parts: u64) {
        self.done.fetch_add(parts, Ordering::Relaxed);
    }

    /// What is being read.
    pub fn phase(&self) -> OpenPhase {
        OpenPhase::ALL[usize::from(self.phase.load(Ordering::Acquire)).min(OpenPhase::ALL.len() - 1)]
    }

    /// About which part of the whole is read, 0 to 1; never less than it was.
    pub fn share(&self) -> f64 {
        let phase = self.phase();
        let before: f64 =
            OpenPhase::ALL.iter().take_while(|other| **other != phase).map(|phase| phase.weight()).sum();
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let within = if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) };
        let share = (before + phase.weight() * within).min(1.0);
        let largest = self.largest.fetch_max(share.to_bits(), Ordering::Relaxed);
        share.max(f64::from_bits(largest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_from_0_to_1_through_all_phases() {
        let progress = OpenProgress::default();
        assert_eq!((progress.share(), progress.phase()), (0.0, OpenPhase::Store));
        let mut last = 0.0;
        for phase in OpenPhase::ALL {
            progress.begin(phase, 4);
            for _ in 0..4 {
                progress.add(1);
                let share = progress.share();
                assert!(share > last && share < 1.0 + 1e-9, "{phase:?}: {share} after {last}");
                last = share;
            }
        }
        assert!((last - 1.0).abs() < 1e-9, "{last}");
        // What is told too late or twice takes nothing back.
        progress.add(9);
        progress.begin(OpenPhase::Store, 0);
        assert_eq!(progress.share(), last);
    }
}
