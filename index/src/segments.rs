//! The graph as a collection has it: segments over disjoint runs of rows.

use std::ops::Range;
use std::sync::Arc;

use dehub_graph::Segment;

use crate::merging::{FrozenRun, Run, due};
use crate::row_set::RowSet;
use crate::{CollectionConfig, Quantization, Snapshot};

/// A graph over the points of a run of rows.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Every point with one of these rows is in the graph.
    pub(crate) rows: Range<u32>,
    pub(crate) quantization: Quantization,
    pub(crate) graph: Segment,
}

/// Segments in the order of their rows. A clone is shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments(Arc<[Arc<Frozen>]>);

impl Segments {
    /// These segments, whose rows are disjoint.
    pub(crate) fn new(mut list: Vec<Arc<Frozen>>) -> Segments {
        list.sort_unstable_by_key(|frozen| frozen.rows.start);
        debug_assert!(list.windows(2).all(|two| two[0].rows.end <= two[1].rows.start), "no row is in two");
        Segments(list.into())
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Frozen> {
        self.0.iter().map(Arc::as_ref)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with `new`, if there is one, in the place of those over `rows`.
    pub(crate) fn with(&self, rows: &Range<u32>, new: Option<Frozen>) -> Segments {
        let others = self.0.iter().filter(|old| old.rows.end <= rows.start || rows.end <= old.rows.start);
        Segments::new(others.cloned().chain(new.map(Arc::new)).collect())
    }

    /// All rows below `end`, in order: those of each segment, and those of none.
    fn spans(&self, end: u32) -> impl Iterator<Item = (Range<u32>, Option<&Frozen>)> {
        let mut next = 0;
        let last = (self.0.last().map_or(0, |last| last.rows.end)..end, None);
        let spans = self.iter().flat_map(move |frozen| {
            let between = next..frozen.rows.start;
            next = frozen.rows.end;
            [(between, None), (frozen.rows.clone(), Some(frozen))]
        });
        spans.chain([last]).filter(|(rows, _)| !rows.is_empty())
    }

    /// What is to be frozen next, of rows below `end`.
    pub(crate) fn due(&self, live: &RowSet, end: u32, config: &CollectionConfig) -> Option<Range<u32>> {
        if !config.wants_graph(live.len()) {
            // No new segment, but one whose points are all gone goes too.
            return self
                .iter()
                .map(|frozen| &frozen.rows)
                .find(|rows| live.has_none((*rows).clone()))
                .cloned();
        }
        let run = |(rows, frozen): (Range<u32>, Option<&Frozen>)| {
            let live = live.count(rows.clone());
            let frozen = frozen.map(|frozen| FrozenRun {
                dead: frozen.graph.rows().len() - live,
                is_as_asked: frozen.quantization == config.graph.quantization,
            });
            Run { rows, live, frozen }
        };
        due(&self.spans(end).map(run).collect::<Vec<_>>())
    }
}

/// A segment of the graph in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Every point with one of these rows is in it.
    pub rows: Range<u32>,
    /// Its nodes; points with equal vectors share a node.
    pub nodes: usize,
    /// Its points.
    pub points: usize,
    /// Rows in it whose points are deleted: roads that are no answers.
    pub dead: usize,
    /// How it keeps vectors.
    pub quantization: Quantization,
    /// The bytes a node's vector takes.
    pub vector_bytes: usize,
    /// The bytes of its file.
    pub bytes: usize,
}

impl Snapshot {
    /// The graphs to walk, one after the other. No row is in two.
    pub(crate) fn segments(&self) -> impl ExactSizeIterator<Item = &Segment> {
        self.segments.iter().map(|frozen| &frozen.graph)
    }

    /// The rows of points in no segment, ascending.
    pub(crate) fn delta_rows(&self) -> impl Iterator<Item = u32> {
        let outside = self.segments.spans(self.row_count()).filter(|(_, frozen)| frozen.is_none());
        outside.flat_map(|(rows, _)| self.live.within(rows))
    }

    /// The segments of the graph in numbers, in the order of their rows.
    pub fn segment_infos(&self) -> Vec<SegmentInfo> {
        let info = |frozen: &Frozen| {
            let points = self.live.count(frozen.rows.clone());
            SegmentInfo {
                rows: frozen.rows.clone(),
                nodes: frozen.graph.node_count(),
                points,
                dead: frozen.graph.rows().len() - points,
                quantization: frozen.quantization,
                vector_bytes: frozen.graph.vector_bytes(),
                bytes: frozen.graph.byte_len(),
            }
        };
        self.segments.iter().map(info).collect()
    }
}
