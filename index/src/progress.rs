//! How far a fit is, and the word to stop it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use dehub_vector::CHUNK_ROWS;

use crate::WriteError;

/// Rows fitted between two looks at the word to stop, at least; each processor gets some of them.
const PIECE_ROWS: usize = 16 * CHUNK_ROWS;

const GO_ON: u8 = 0;
const CANCEL: u8 = 1;
const INTERRUPT: u8 = 2;

/// How far a fit is, and the word to stop it. A clone is the same progress, for another thread to read.
#[derive(Clone)]
pub struct FitProgress(Arc<Shared>);

struct Shared {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicU8,
    piece_rows: usize,
    watch: Option<Box<Watch>>,
}

type Watch = dyn Fn(&FitProgress) + Send + Sync;

impl Default for FitProgress {
    fn default() -> FitProgress {
        FitProgress::new()
    }
}

impl fmt::Debug for FitProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FitProgress").field("done", &self.done()).field("total", &self.total()).finish()
    }
}

impl FitProgress {
    /// The progress of a fit to come.
    pub fn new() -> FitProgress {
        let processors = rayon::current_num_threads();
        FitProgress::with(PIECE_ROWS.max(4 * CHUNK_ROWS * processors), None)
    }

    /// The same, that calls `watch` after each piece of work, while it holds no lock of the collection.
    pub fn with_watch(watch: impl Fn(&FitProgress) + Send + Sync + 'static) -> FitProgress {
        FitProgress::with(FitProgress::new().piece_rows(), Some(Box::new(watch)))
    }

    /// The same for a fit of about `rows` rows at a time.
    pub fn watched(rows: usize, watch: impl Fn(&FitProgress) + Send + Sync + 'static) -> FitProgress {
        FitProgress::with(rows.div_ceil(CHUNK_ROWS).max(1) * CHUNK_ROWS, Some(Box::new(watch)))
    }

    fn with(piece_rows: usize, watch: Option<Box<Watch>>) -> FitProgress {
        let (done, total, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU8::new(GO_ON));
        FitProgress(Arc::new(Shared { done, total, stop, piece_rows, watch }))
    }

    /// What is done, in rows × statistics; it only rises. An iteration of a balance counts as a statistic, and so
    /// does a gate.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// What there is to do in all. It rises when a bank that is fitted from changes meanwhile.
    pub fn total(&self) -> u64 {
        self.0.total.load(Ordering::Relaxed)
    }

    /// The part that is done, 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    pub fn share(&self) -> f64 {
        let total = self.total();
        if total == 0 { 0.0 } else { (self.done() as f64 / total as f64).min(1.0) }
    }

    /// Ends the fit soon with [`WriteError::Cancelled`]; it leaves nothing.
    pub fn cancel(&self) {
        self.0.stop.store(CANCEL, Ordering::Relaxed);
    }

    /// Ends the fit soon with [`WriteError::Interrupted`]; what is done is kept for the same fit to go on from.
    pub fn interrupt(&self) {
        // A fit that was cancelled stays so.
        _ = self.0.stop.compare_exchange(GO_ON, INTERRUPT, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the work was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed) != GO_ON
    }

    /// Whether the work was asked to end by [`FitProgress::interrupt`].
    pub fn is_interrupted(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed) == INTERRUPT
    }

    /// Tells how far other work than a fit is.
    pub fn set(&self, done: u64, total: u64) {
        self.begin(done, total);
    }

    pub(crate) fn check(&self) -> Result<(), WriteError> {
        match self.0.stop.load(Ordering::Relaxed) {
            CANCEL => Err(WriteError::Cancelled),
            INTERRUPT => Err(WriteError::Interrupted),
            _ => Ok(()),
        }
    }

    pub(crate) fn piece_rows(&self) -> usize {
        self.0.piece_rows
    }

    pub(crate) fn begin(&self, done: u64, total: u64) {
        self.0.total.store(total.max(done), Ordering::Relaxed);
        self.0.done.store(done, Ordering::Relaxed);
    }

    /// Tells of work that is done.
    pub(crate) fn advance(&self, units: u64) {
        let done = self.0.done.fetch_add(units, Ordering::Relaxed) + units;
        self.0.total.fetch_max(done, Ordering::Relaxed);
    }

    /// Tells of work that has to be done again.
    pub(crate) fn repeat(&self, units: u64) {
        self.0.total.fetch_add(units, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.done.fetch_max(self.total(), Ordering::Relaxed);
    }

    /// Shows the progress to whoever watches.
    pub(crate) fn show(&self) {
        if let Some(watch) = &self.0.watch {
            watch(self);
        }
    }
}
