//! From a built graph to a segment: nodes in the order a walk meets them, links and codes in place.

use dehub_vector::{Metric, Projection, dot};
use rayon::prelude::*;

use crate::bytes::LINE;
use crate::codes::{coded_square, encode};
use crate::insert::Draft;
use crate::segment::{Header, NONE, assemble};
use crate::{BuildOptions, CodeKind, Points, Segment};

/// Rows that are projected together.
const BLOCK: usize = 256;

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
    BuildOptions { code: kind, projection, .. }: &BuildOptions,
    center: &[f32],
    order: &[u32],
) -> (Vec<[u64; LINE / 8]>, Vec<f32>, Vec<f32>) {
    let kind = *kind;
    let width = kind.row_bytes(code_width(points, projection.as_ref()));
    // Words, as the numbers in a row need their border.
    let mut words = vec![[0_u64; LINE / 8]; order.len() * width / LINE];
    let blocks = words.par_chunks_mut(BLOCK * width / LINE).zip(order.par_chunks(BLOCK));
    let beside: Vec<(f32, f32)> = blocks
        .flat_map_iter(|(rows, nodes)| {
            let moved: Vec<f32> = nodes.iter().flat_map(|&node| moved(points, center, node)).collect();
            let projected = projection.as_ref().map(|projection| projection.apply(&moved));
            let coded =
                projected.as_ref().unwrap_or(&moved).chunks_exact(code_width(points, projection.as_ref()));
            let rows = rows.chunks_exact_mut(width / LINE);
            let beside = rows.zip(coded).zip(moved.chunks_exact(points.dim)).map(|((row, coded), whole)| {
                let row: &mut [u8] = bytemuck::cast_slice_mut(row.as_flattened_mut());
                let scale = encode(kind, coded, row);
                // What is left out is long as it is, what is coded as its code is.
                let left_out = if projection.is_some() { dot(whole, whole) - dot(coded, coded) } else { 0.0 };
                let term = match points.metric {
                    Metric::Cosine | Metric::Dot => 0.0,
                    Metric::Euclidean => -(coded_square(kind, row, scale) + left_out.max(0.0)) / 2.0,
                };
                (scale, term)
            });
            beside.collect::<Vec<_>>()
        })
        .collect();
    let (scales, terms): (Vec<f32>, Vec<f32>) = beside.into_iter().unzip();
    let scales = if kind == CodeKind::Int8 { scales } else { Vec::new() };
    let terms = if points.metric == Metric::Euclidean { terms } else { Vec::new() };
    (words, scales, terms)
}

/// The vector of a node less the center, if there is one.
fn moved<'a>(points: &'a Points<'_>, center: &'a [f32], node: u32) -> impl Iterator<Item = f32> + 'a {
    let center = center.iter().copied().chain(std::iter::repeat(0.0));
    points.of(node as usize).iter().zip(center).map(|(x, c)| x - c)
}

fn code_width(points: &Points<'_>, projection: Option<&Projection>) -> usize {
    projection.map_or(points.dim, Projection::width)
}

/// Freezes a graph whose every node is reachable.
pub(crate) fn freeze(points: &Points<'_>, options: &BuildOptions, center: &[f32], draft: Draft) -> Segment {
    let order = breadth_first(&draft);
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
    let (layer_starts, layer_nodes, layer_links) = layers(&draft, &order, &new);
    let m = number(draft.m);
    // Half of all the memory a build takes, before the other half is asked for.
    drop(draft);
    let (codes, scales, terms) = codes(points, options, center, &order);
    let directions = options.projection.as_ref().map_or(&[][..], Projection::directions);
    let header = Header {
        identity: options.identity,
        covered: options.covered,
        sequence: options.sequence,
        nodes: number(order.len()),
        entry: if order.is_empty() { NONE } else { 0 },
        metric: points.metric,
        code: options.code,
        dim: number(points.dim),
        width: number(code_width(points, options.projection.as_ref())),
        m,
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
            bytemuck::cast_slice(directions),
            bytemuck::cast_slice(&scales),
            bytemuck::cast_slice(&terms),
            bytemuck::cast_slice(codes.as_flattened()),
        ],
    );
    Segment::from_bytes(bytes).expect("what was assembled is whole")
}
