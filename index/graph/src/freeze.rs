//! From a built graph to a segment: nodes in the order a walk meets them, links and codes in place.

use dehub_vector::Metric;
use rayon::prelude::*;

use crate::bytes::LINE;
use crate::codes::{coded_square, encode};
use crate::geometry::less;
use crate::insert::Draft;
use crate::segment::{Header, NONE, assemble};
use crate::{BuildOptions, CodeKind, Points, Segment};

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("nodes and rows are numbered by 32 bits")
}

/// The nodes breadth first from the entry, so that neighbours lie near each other.
fn breadth_first(draft: &Draft) -> Vec<u32> {
    let nodes = draft.levels.len();
    let mut order = Vec::with_capacity(nodes);
    let mut seen = vec![false; nodes];
    if nodes > 0 {
        order.push(draft.entry);
        seen[draft.entry as usize] = true;
    }
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for linked in draft.ground.links(node as usize) {
            if !std::mem::replace(&mut seen[linked as usize], true) {
                order.push(linked);
            }
        }
    }
    debug_assert_eq!(order.len(), nodes, "every node is reachable");
    order
}

/// The layers above the ground: where each starts, its nodes, and their links as places in it.
fn layers(draft: &Draft, order: &[u32], new: &[u32]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let (mut starts, mut all, mut links) = (vec![0], Vec::new(), Vec::new());
    let top = draft.levels.get(draft.entry as usize).copied().unwrap_or(0);
    for layer in 1..=top {
        let here: Vec<u32> = (0..order.len())
            .filter(|&node| draft.levels[order[node] as usize] >= layer)
            .map(number)
            .collect();
        for &node in &here {
            let list = draft.upper_lists[order[node as usize] as usize] as usize + usize::from(layer) - 1;
            let places =
                draft.upper.links(list).filter_map(|linked| here.binary_search(&new[linked as usize]).ok());
            let mut places: Vec<u32> = places.map(number).collect();
            places.resize(draft.m, NONE);
            links.extend(places);
        }
        all.extend(here);
        starts.push(number(all.len()));
    }
    (starts, all, links)
}

/// The rows of codes, and what belongs beside each.
fn codes(
    points: &Points<'_>,
    kind: CodeKind,
    center: &[f32],
    order: &[u32],
) -> (Vec<u8>, Vec<f32>, Vec<f32>) {
    let width = kind.row_bytes(points.dim);
    // Words, as the numbers in a row need their border.
    let mut words = vec![[0_u64; LINE / 8]; order.len() * width / LINE];
    let rows = words.par_chunks_exact_mut(width / LINE).zip(order);
    let beside: Vec<(f32, f32)> = rows
        .map(|(row, &node)| {
            let row: &mut [u8] = bytemuck::cast_slice_mut(row.as_flattened_mut());
            let vector = points.of(node as usize);
            match points.metric {
                Metric::Cosine | Metric::Dot => (encode(kind, vector, row), 0.0),
                Metric::Euclidean => {
                    let scale = encode(kind, &less(vector, center), row);
                    (scale, -coded_square(kind, row, scale) / 2.0)
                }
            }
        })
        .collect();
    let (scales, terms): (Vec<f32>, Vec<f32>) = beside.into_iter().unzip();
    let scales = if kind == CodeKind::Int8 { scales } else { Vec::new() };
    let terms = if points.metric == Metric::Euclidean { terms } else { Vec::new() };
    (bytemuck::cast_slice(words.as_flattened()).to_vec(), scales, terms)
}

/// Freezes a graph whose every node is reachable.
pub(crate) fn freeze(points: &Points<'_>, options: &BuildOptions, center: &[f32], draft: &Draft) -> Segment {
    let order = breadth_first(draft);
    let mut new = vec![0; order.len()];
    for (place, &node) in order.iter().enumerate() {
        new[node as usize] = number(place);
    }
    let mut row_starts = vec![0];
    let mut rows: Vec<u32> = Vec::new();
    let mut ground = Vec::with_capacity(order.len() * 2 * draft.m);
    for (place, &node) in order.iter().enumerate() {
        rows.extend(&points.groups[node as usize]);
        row_starts.push(number(rows.len()));
        ground.extend(draft.ground.links(node as usize).map(|linked| new[linked as usize]));
        ground.resize((place + 1) * 2 * draft.m, NONE);
    }
    let (layer_starts, layer_nodes, layer_links) = layers(draft, &order, &new);
    let (codes, scales, terms) = codes(points, options.code, center, &order);
    let header = Header {
        identity: options.identity,
        covered: options.covered,
        nodes: number(order.len()),
        entry: if order.is_empty() { NONE } else { 0 },
        metric: points.metric,
        code: options.code,
        dim: number(points.dim),
        m: number(draft.m),
    };
    let bytes = assemble(
        header,
        [
            bytemuck::cast_slice(&row_starts),
            bytemuck::cast_slice(&rows),
            bytemuck::cast_slice(&ground),
            bytemuck::cast_slice(&layer_starts),
            bytemuck::cast_slice(&layer_nodes),
            bytemuck::cast_slice(&layer_links),
            bytemuck::cast_slice(center),
            bytemuck::cast_slice(&scales),
            bytemuck::cast_slice(&terms),
            &codes,
        ],
    );
    Segment::from_bytes(bytes).expect("what was assembled is whole")
}
