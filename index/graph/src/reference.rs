//! A graph that hnsw_rs builds, by the same geometry: what ours is held against, and a second choice.

use hnsw_rs::prelude::{Distance, Hnsw};
use rayon::prelude::*;

use crate::BuildOptions;
use crate::adjacency::Link;
use crate::build::FIRST_IN_TURN;
use crate::geometry::Geometry;
use crate::insert::Draft;

/// Layers hnsw_rs may use; it takes no more than 16.
const LAYERS: usize = 16;

/// What hnsw_rs compares: a point is the number of its node, alone in a slice.
struct Apart<'a>(&'a Geometry);

impl Distance<u32> for Apart<'_> {
    fn eval(&self, left: &[u32], right: &[u32]) -> f32 {
        match (left, right) {
            (&[left], &[right]) => self.0.distance(left, right),
            _ => f32::MAX,
        }
    }
}

/// The graph of `nodes` points as hnsw_rs links them, on the threads of the pool it is called in. Its levels
/// are drawn from a seed of its own.
pub(crate) fn link_by_hnsw_rs(nodes: usize, options: &BuildOptions, geometry: Geometry) -> Draft {
    let number = |node: usize| u32::try_from(node).expect("nodes are numbered by 31 bits");
    let mut levels = vec![0; nodes];
    let mut lists = vec![Vec::new(); nodes];
    if nodes > 0 {
        let mut peer = Hnsw::new(options.m, nodes, LAYERS, options.ef_construction, Apart(&geometry));
        peer.set_keeping_pruned(options.fill);
        let insert = |node: usize| peer.insert_slice((&[number(node)], node));
        // Threads that start together on no graph leave many nodes without links.
        (0..nodes.min(FIRST_IN_TURN)).for_each(insert);
        (FIRST_IN_TURN.min(nodes)..nodes).into_par_iter().for_each(insert);
        for point in peer.get_point_indexation() {
            let node = point.get_origin_id();
            levels[node] = point.get_point_id().0;
            lists[node] = point.get_neighborhood_id();
        }
    }
    let draft = Draft::without_links(geometry, levels, options);
    for (node, layers) in lists.iter().enumerate() {
        for (layer, links) in (0..=draft.levels[node]).zip(layers) {
            // It may name nodes that are not on this layer, and itself.
            let is_here = |&(to, _): &(usize, f32)| to != node && draft.levels[to] >= layer;
            let links = links.iter().map(|near| (near.d_id, near.distance)).filter(is_here);
            let links =
                links.map(|(to, distance)| Link { node: number(to), similarity: -distance, fills: false });
            draft.set(number(node), layer, &links.take(draft.room(layer)).collect::<Vec<_>>());
        }
    }
    draft
}
