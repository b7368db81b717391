//! Segments against the vectors of their rows.

use std::path::Path;
use std::sync::PoisonError;

use dehub_graph::{Raw, Segment, Width};
use dehub_vector::Metric;

use super::Verifier;
use crate::ReadError;
use crate::graph_file::{self, GraphFileError, Owner};
use crate::segments::Frozen;

/// Points of a segment that are searched for by their own vectors.
const SAMPLED: usize = 64;

/// The effort of these walks, and what part of the points they must find: a graph is approximate, and among many
/// points that are nearly equal any may be the one that is not found.
const EFFORT: usize = 128;
const FOUND_MIN: f64 = 0.5;

impl Verifier<'_> {
    pub(super) fn graph(&mut self) -> Result<(), ReadError> {
        let state = self.state;
        let owner = Owner {
            identity: state.identity,
            sequence: state.counters.sequence,
            config: &state.config,
            rows: state.row_count(),
            live: &state.live,
        };
        for frozen in state.segments.iter() {
            let before = self.report.own_differences();
            let path = graph_file::path(&self.collection.folder, &frozen.rows, frozen.quantization);
            let file = file_name(&path);
            self.report.looked_at(state.live.count(frozen.rows.clone()) as u64);
            if let Err(error) = self.file(&path, frozen, &owner) {
                self.report.differ("graph", &file, "a whole file of this collection", error);
            }
            self.nodes(&file, &frozen.graph);
            self.walks(&file, frozen);
            if self.report.own_differences() > before {
                self.report.repairs.segments.push(frozen.rows.clone());
            }
        }
        let broken = graph_file::broken(&self.collection.folder);
        self.report.set_aside = broken.iter().map(|path| file_name(path)).collect();
        Ok(())
    }

    /// Reads the file of a segment, unless another segment was put in its place since.
    fn file(&self, path: &Path, frozen: &Frozen, owner: &Owner<'_>) -> Result<(), GraphFileError> {
        let _none_is_frozen = self.collection.freezing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = self.collection.lock().segments.iter().any(|used| std::ptr::eq(used, frozen));
        if is_used { graph_file::check(path, frozen, owner) } else { Ok(()) }
    }

    fn nodes(&mut self, file: &str, graph: &Segment) {
        let state = self.state;
        let vector = |row: u32| state.live.contains(row).then(|| state.vectors.row(row as usize));
        let report = &mut self.report;
        graph.compare(&vector, &mut |unlike| {
            report.differ("graph", format!("{file}, row {}", unlike.row), unlike.what, "another");
        });
        let unreachable = graph.unreachable_nodes();
        if unreachable > 0 {
            report.differ("graph", file, "links to every node", format!("{unreachable} without"));
        }
    }

    /// Points that are found by their own vectors. The longest is the best under dot, so that is no test there.
    fn walks(&mut self, file: &str, frozen: &Frozen) {
        if self.state.config.metric == Metric::Dot {
            return;
        }
        let live: Vec<u32> = self.state.live.within(frozen.rows.clone()).collect();
        let sampled = live.len().min(SAMPLED);
        let is_found = |place: &usize| {
            let row = live[place * live.len() / sampled];
            let width = Width { effort: EFFORT, keep: EFFORT };
            let found = frozen.graph.walk(self.state.vectors.row(row as usize), &Raw, width);
            found.candidates.iter().any(|candidate| candidate.row == row)
        };
        let found = (0..sampled).filter(is_found).count();
        if (found as f64) < FOUND_MIN * sampled as f64 {
            self.report.differ("graph", file, format!("{sampled} points found by their vectors"), found);
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
