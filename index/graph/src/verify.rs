//! Whether a segment is that of its vectors: what a checksum cannot tell.

use dehub_vector::{Metric, dot};

use crate::codes::{coded_square, encode};
use crate::geometry::less;
use crate::segment::NONE;
use crate::{CodeKind, Segment};

/// How far a projected vector's numbers may lie from those it was coded from, of the longest number: a sum in
/// another order.
const PROJECTED_SLACK: f32 = 1e-3;

/// A node that is not as its vector says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unlike {
    /// A row of the node.
    pub row: u32,
    /// What is not that of the vector.
    pub what: &'static str,
}

impl Segment {
    /// Codes every node's vector again and compares: bit for bit, or within the rounding of a projection.
    /// `vector` gives that of a row, `None` if the row's is gone; a node of such rows alone is passed over. What
    /// is found is told to `tell`.
    pub fn compare<'a>(&self, vector: &dyn Fn(u32) -> Option<&'a [f32]>, tell: &mut dyn FnMut(Unlike)) {
        for node in 0..self.header().nodes {
            let mut first: Option<&[f32]> = None;
            for &row in self.parts().rows_of(node) {
                let Some(vector) = vector(row) else { continue };
                let what = match first {
                    None => self.unlike(node, vector),
                    Some(first) => (first != vector).then_some("the vector it shares with rows of its node"),
                };
                first.get_or_insert(vector);
                if let Some(what) = what {
                    tell(Unlike { row, what });
                    break;
                }
            }
        }
    }

    /// What of a node is not as a vector says.
    fn unlike(&self, node: u32, vector: &[f32]) -> Option<&'static str> {
        let (parts, node) = (self.parts(), node as usize);
        let moved = if parts.center.is_empty() { vector.to_vec() } else { less(vector, parts.center) };
        let projected = self.projection().map(|projection| projection.apply(&moved));
        let coded = projected.as_ref().unwrap_or(&moved);
        let kind = self.code();
        let mut row = vec![0_u64; kind.row_bytes(self.width()) / size_of::<u64>()];
        let row: &mut [u8] = bytemuck::cast_slice_mut(&mut row);
        let scale = encode(kind, coded, row);
        let found = &parts.codes.bytes[node * row.len()..][..row.len()];
        let is_scale_near = |found: f32| (found - scale).abs() <= PROJECTED_SLACK * scale.abs();
        let (are_codes_so, is_scale_so) = match (kind, parts.codes.scales.get(node), &projected) {
            (_, found_scale, None) => (found == row, found_scale.is_none_or(|found| *found == scale)),
            (CodeKind::Int8, found_scale, Some(_)) => {
                let is_step = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 1;
                (found.iter().zip(&*row).all(is_step), found_scale.is_none_or(|found| is_scale_near(*found)))
            }
            // No collection keeps such codes.
            (CodeKind::F32 | CodeKind::Bf16, _, Some(_)) => (true, true),
        };
        let term = match self.metric() {
            Metric::Cosine | Metric::Dot => 0.0,
            Metric::Euclidean => {
                let left_out =
                    if projected.is_some() { dot(&moved, &moved) - dot(coded, coded) } else { 0.0 };
                -(coded_square(kind, row, scale) + left_out.max(0.0)) / 2.0
            }
        };
        let is_term_so = parts.codes.terms.get(node).is_none_or(|&found| match projected {
            None => found == term,
            Some(_) => (found - term).abs() <= 0.1 * (dot(&moved, &moved) + f32::MIN_POSITIVE),
        });
        match (are_codes_so, is_scale_so, is_term_so) {
            (false, ..) => Some("its code"),
            (true, false, _) => Some("its scale"),
            (true, true, false) => Some("its term"),
            (true, true, true) => None,
        }
    }

    /// How many nodes no links lead to from where walks start.
    pub fn unreachable_nodes(&self) -> usize {
        let (header, parts) = (self.header(), self.parts());
        let width = 2 * header.m as usize;
        let mut seen = vec![false; self.node_count()];
        let mut next: Vec<u32> = (header.entry != NONE).then_some(header.entry).into_iter().collect();
        next.iter().for_each(|&node| seen[node as usize] = true);
        while let Some(node) = next.pop() {
            let links = &parts.ground[node as usize * width..][..width];
            for &linked in links.iter().take_while(|&&linked| linked != NONE) {
                if !std::mem::replace(&mut seen[linked as usize], true) {
                    next.push(linked);
                }
            }
        }
        seen.iter().filter(|seen| !**seen).count()
    }
}
