//! Freezing points to segments of the graph, beside reads and writes.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use dehub_store::FailPoint;

use crate::graph::build_graph;
use crate::graph_file;
use crate::segments::{Frozen, Segments};
use crate::state::State;
use crate::{Collection, Quantization, Snapshot, WriteError};

/// What became of a request to build the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphBuild {
    /// The graph is up to date, or the collection is too small for one.
    NotDue,
    /// It was brought up to date and is in use.
    Built {
        /// The nodes of all its segments.
        nodes: usize,
    },
}

/// A segment that was built to see what that takes, and serves nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltApart {
    /// Its nodes; points with equal vectors share a node.
    pub nodes: usize,
    /// The bytes of its file.
    pub bytes: usize,
}

impl Collection {
    /// Brings the graph up to date when the collection is large enough for one and too many points are outside
    /// it, too many in it are deleted, or it keeps vectors otherwise than asked for. Each segment is in
    /// use as soon as it is frozen. Reads and writes go on meanwhile.
    pub fn build_graph_if_due(&self) -> Result<GraphBuild, WriteError> {
        self.each_space(Collection::build_graph_if_due, |space| space.build_own_graph_if_due())
    }

    fn build_own_graph_if_due(&self) -> Result<GraphBuild, WriteError> {
        let _one_at_a_time = self.lock_freezing();
        let mut snapshot = self.snapshot();
        let mut outcome = GraphBuild::NotDue;
        while let Some(rows) = snapshot.freezes_next() {
            self.freeze_rows(&snapshot, &rows)?;
            snapshot = self.snapshot();
            outcome = GraphBuild::Built { nodes: node_count(&snapshot) };
        }
        Ok(outcome)
    }

    /// Whether [`Collection::build_graph_if_due`] would build.
    pub fn is_graph_due(&self) -> bool {
        self.snapshot().freezes_next().is_some() || self.spaces.values().any(|space| space.is_graph_due())
    }

    /// Does something to the graph of each named vector, or of the only one.
    fn each_space(
        &self,
        each: impl Fn(&Collection) -> Result<GraphBuild, WriteError>,
        own: impl FnOnce(&Collection) -> Result<GraphBuild, WriteError>,
    ) -> Result<GraphBuild, WriteError> {
        if self.has_vectors() {
            return own(self);
        }
        let mut outcome = GraphBuild::NotDue;
        for space in self.spaces.values() {
            if let GraphBuild::Built { nodes } = each(space)? {
                let before = match outcome {
                    GraphBuild::NotDue => 0,
                    GraphBuild::Built { nodes } => nodes,
                };
                outcome = GraphBuild::Built { nodes: before + nodes };
            }
        }
        Ok(outcome)
    }

    /// Freezes all points to one segment, due or not, if the collection is large enough for a graph. Reads
    /// and writes go on meanwhile.
    pub fn freeze(&self) -> Result<GraphBuild, WriteError> {
        self.each_space(Collection::freeze, |space| space.freeze_own())
    }

    fn freeze_own(&self) -> Result<GraphBuild, WriteError> {
        let _one_at_a_time = self.lock_freezing();
        let snapshot = self.snapshot();
        if !snapshot.config().wants_graph(snapshot.len()) || snapshot.is_one_segment() {
            return Ok(GraphBuild::NotDue);
        }
        self.freeze_rows(&snapshot, &(0..snapshot.row_count()))?;
        Ok(GraphBuild::Built { nodes: node_count(&self.snapshot()) })
    }

    /// Ends what is being frozen soon, with [`WriteError::Interrupted`], and all that is begun later: for a process
    /// that is about to end. Nothing is lost but the time; the points are scanned as before.
    pub fn stop_freezing(&self) {
        self.is_freezing_stopped.store(true, Ordering::Relaxed);
        self.spaces.values().for_each(|space| space.stop_freezing());
    }

    /// Keeps vectors so in segments that are frozen from now on; those there are become due.
    pub fn set_quantization(&self, quantization: Quantization) -> Result<(), WriteError> {
        if !self.has_vectors() {
            return self.spaces.values().try_for_each(|space| space.set_quantization(quantization));
        }
        self.write_space(|draft| {
            draft.set_quantization(quantization);
            Ok(())
        })
    }

    fn lock_freezing(&self) -> MutexGuard<'_, ()> {
        self.freezing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one segment of the points with these rows, and puts it in the place of those over them.
    pub(crate) fn freeze_rows(&self, snapshot: &Snapshot, rows: &Range<u32>) -> Result<(), WriteError> {
        // A graph must not know of points that a power cut may take from the store.
        self.writer.sync()?;
        let identity = self.lock().identity;
        let quantization = snapshot.config().graph.quantization;
        let frozen = if snapshot.live.count(rows.clone()) == 0 {
            None
        } else {
            let path = graph_file::path(&self.folder, rows, quantization);
            let is_stopped = || self.is_freezing_stopped.load(Ordering::Relaxed);
            let built = build_graph(snapshot, rows.clone(), identity, &is_stopped);
            let built = built.ok_or(WriteError::Interrupted)?;
            // Of a named vector it is made with its first graph.
            fs::create_dir_all(&self.folder).map_err(WriteError::GraphFile)?;
            built.write_and(&path, || FailPoint::GraphWritten.reach()).map_err(WriteError::GraphFile)?;
            drop(built);
            // From its file, so that its memory can be taken from it and given back.
            let graph = graph_file::map(&self.folder, (rows, quantization), identity, snapshot.config());
            let graph = graph.map_err(WriteError::GraphFile)?;
            Some(Frozen { rows: rows.clone(), quantization, graph })
        };
        FailPoint::GraphRenamed.reach();
        let segments = self.swap_segments(rows, frozen)?;
        FailPoint::GraphSwapped.reach();
        graph_file::remove_others(&self.folder, &segments);
        Ok(())
    }

    /// Serves `frozen`, or nothing, in the place of the segments over `rows`; gives all there are then.
    pub(crate) fn swap_segments(
        &self,
        rows: &Range<u32>,
        frozen: Option<Frozen>,
    ) -> Result<Segments, WriteError> {
        self.writer.change(|whole| {
            let state = whole.state(self.role.name());
            let segments = state.segments.with(rows, frozen);
            Ok((whole.with(State { segments: segments.clone(), ..State::clone(state) }), segments))
        })
    }
}

fn node_count(snapshot: &Snapshot) -> usize {
    snapshot.segments().map(dehub_graph::Segment::node_count).sum()
}

impl Snapshot {
    /// Builds one segment of all points from nothing and writes it to `file`, as [`Collection::freeze`] does, but
    /// leaves the collection as it is. `None` if it is too small for a graph.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn build_apart(&self, file: &Path) -> io::Result<Option<BuiltApart>> {
        if !self.config().wants_graph(self.len()) {
            return Ok(None);
        }
        let Some(built) = build_graph(self, 0..self.row_count(), 0, &|| false) else { return Ok(None) };
        built.write_and(file, || ())?;
        Ok(Some(BuiltApart { nodes: built.node_count(), bytes: built.byte_len() }))
    }

    /// The rows to freeze next, if any are due.
    pub(crate) fn freezes_next(&self) -> Option<Range<u32>> {
        let find = || self.segments.due(&self.live, self.row_count(), &self.config);
        self.freezes_next.get_or_init(find).clone()
    }

    /// Whether all points, and no deleted ones, are in one segment that keeps vectors as asked for.
    fn is_one_segment(&self) -> bool {
        let gallery = self.gallery();
        let as_asked =
            self.segments.iter().all(|frozen| frozen.quantization == self.config.graph.quantization);
        gallery.segments == 1 && gallery.delta == 0 && gallery.dead == 0 && as_asked
    }
}
