//! The graph over the raw geometry: built by hnsw_rs, kept flat, walked by our own code.
//!
//! This is the only file that names hnsw_rs, and it only ever inserts. What would make that panic
//! or exit cannot reach it: distances are finite and never negative (cosine as `1 − q·p` cut at 0,
//! the others squared), vectors are finite and of one dimension, `m` is at most 128.
//! Equal vectors become one node, because a large group of copies would seal itself off.

use std::collections::HashMap;

use dehub_vector::{Chunked, Metric, dot, squared_distance};
use hnsw_rs::prelude::{Distance, Hnsw, Neighbour};

use crate::GraphConfig;

/// Layers hnsw_rs may use; its own limit.
const LAYERS_MAX: usize = 16;

/// Below this many nodes the build is sequential, which makes it reproducible.
const PARALLEL_FROM: usize = 4096;

/// A navigable graph: nodes with links on layers, and the rows each node stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Rows from this one on were added after the graph was built.
    pub(crate) covered: u32,
    pub(crate) entry: Option<u32>,
    /// Node → rows, each in at least one.
    pub(crate) rows: Lists,
    /// The ground layer first.
    pub(crate) layers: Vec<Layer>,
}

/// A list of numbers for each of a row of places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lists {
    /// Where the list of each place starts, and the end of the last.
    pub(crate) starts: Vec<u32>,
    pub(crate) numbers: Vec<u32>,
}

/// The links of the nodes on one layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Layer {
    /// The nodes on the layer, ascending; empty for the ground layer, which has all.
    pub(crate) nodes: Vec<u32>,
    pub(crate) links: Lists,
}

impl Lists {
    fn from_lists(lists: impl IntoIterator<Item = Vec<u32>>) -> Lists {
        let mut all = Lists { starts: vec![0], numbers: Vec::new() };
        for list in lists {
            all.numbers.extend(list);
            all.starts.push(u32::try_from(all.numbers.len()).expect("links of u32 nodes with small degrees"));
        }
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    fn get(&self, place: usize) -> &[u32] {
        &self.numbers[self.starts[place] as usize..self.starts[place + 1] as usize]
    }
}

impl Layer {
    /// The neighbours of a node; none if it is not on this layer.
    pub(crate) fn links(&self, node: u32) -> &[u32] {
        let place = if self.nodes.is_empty() { Ok(node as usize) } else { self.nodes.binary_search(&node) };
        place.map_or(&[], |place| self.links.get(place))
    }
}

impl Graph {
    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many rows the nodes stand for.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.numbers.len()
    }

    pub(crate) fn entry(&self) -> Option<u32> {
        self.entry
    }

    pub(crate) fn covered(&self) -> u32 {
        self.covered
    }

    /// The rows that share the vector of `node`; at least one.
    pub(crate) fn rows(&self, node: u32) -> &[u32] {
        self.rows.get(node as usize)
    }

    /// The rows of all nodes.
    pub(crate) fn all_rows(&self) -> &[u32] {
        &self.rows.numbers
    }

    pub(crate) fn ground(&self) -> &Layer {
        &self.layers[0]
    }

    /// The layers above the ground, from the top down.
    pub(crate) fn upper_layers(&self) -> impl Iterator<Item = &Layer> {
        self.layers[1..].iter().rev()
    }

    /// Builds a graph over `rows` of `vectors`.
    pub(crate) fn build(
        vectors: &Chunked,
        rows: impl Iterator<Item = u32>,
        metric: Metric,
        config: GraphConfig,
    ) -> Graph {
        let covered = u32::try_from(vectors.len()).expect("rows are numbered by u32");
        let groups = group_equal(vectors, rows);
        // A pool of its own: in the shared one, searches and fits would queue behind the whole build.
        let hnsw = match rayon::ThreadPoolBuilder::new().build() {
            Ok(pool) => pool.install(|| insert_all(vectors, &groups, metric, config)),
            Err(_) => insert_all(vectors, &groups, metric, config),
        };
        let layers = flatten(&hnsw, groups.len());
        let entry = layers.last().and_then(|top| match (top.nodes.first(), groups.is_empty()) {
            (Some(&first), _) => Some(first),
            (None, false) => Some(0),
            (None, true) => None,
        });
        Graph { covered, entry, rows: Lists::from_lists(groups), layers }
    }
}

/// The rows of each distinct vector, in the order of the first.
fn group_equal(vectors: &Chunked, rows: impl Iterator<Item = u32>) -> Vec<Vec<u32>> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut group_of: HashMap<&[u8], usize> = HashMap::new();
    for row in rows {
        let bytes = bytemuck::cast_slice(vectors.row(row as usize));
        let group = *group_of.entry(bytes).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(row);
    }
    groups
}

fn insert_all(
    vectors: &Chunked,
    groups: &[Vec<u32>],
    metric: Metric,
    config: GraphConfig,
) -> Hnsw<'static, f32, Gap> {
    let gap = match metric {
        Metric::Cosine => Gap::Angle,
        Metric::Dot | Metric::Euclidean => Gap::Squared,
    };
    let hnsw = Hnsw::new(config.m, groups.len().max(1), LAYERS_MAX, config.ef_construction, gap);
    let row = |group: &Vec<u32>| vectors.row(group[0] as usize);
    let lifted = match metric {
        Metric::Cosine | Metric::Euclidean => None,
        Metric::Dot => Some(lift(groups.iter().map(row))),
    };
    let data: Vec<(&[f32], usize)> = match &lifted {
        Some(lifted) => lifted.iter().map(Vec::as_slice).zip(0..).collect(),
        None => groups.iter().map(row).zip(0..).collect(),
    };
    if data.len() < PARALLEL_FROM {
        data.iter().for_each(|&item| hnsw.insert_slice(item));
    } else {
        // The first nodes are linked in turn, so that the others find an entry.
        let (first, rest) = data.split_at(1);
        hnsw.insert_slice(first[0]);
        hnsw.parallel_insert_slice(&rest.to_vec());
    }
    hnsw
}

/// Vectors under dot as points whose neighbours are alike in direction and in length:
/// `[x / ‖x‖, ‖x‖ / M]`. A walk then turns to the query and climbs to the long vectors. On the sphere
/// of Bachrach et al. (RecSys 2014), `[x, √(M² − ‖x‖²)]`, short vectors are everyone's neighbours.
fn lift<'a>(rows: impl Iterator<Item = &'a [f32]> + Clone) -> Vec<Vec<f32>> {
    let length = |row: &[f32]| dot(row, row).sqrt();
    // A row of zeros has no direction, and any length will do to divide by.
    let positive = |length: f32| if length > 0.0 { length } else { 1.0 };
    let longest = positive(rows.clone().map(length).fold(0.0, f32::max));
    let lifted = |row: &[f32]| {
        let own = length(row);
        row.iter().map(|x| x / positive(own)).chain([own / longest]).collect()
    };
    rows.map(lifted).collect()
}

fn flatten(hnsw: &Hnsw<'static, f32, Gap>, nodes: usize) -> Vec<Layer> {
    let node = |number: usize| u32::try_from(number).expect("nodes are groups of u32 rows");
    let mut ground: Vec<Vec<u32>> = vec![Vec::new(); nodes];
    let mut upper: Vec<Vec<(u32, Vec<u32>)>> = Vec::new();
    for point in hnsw.get_point_indexation().into_iter() {
        let level = usize::from(point.get_point_id().0);
        upper.resize_with(upper.len().max(level), Vec::new);
        for (layer, links) in point.get_neighborhood_id().into_iter().take(level + 1).enumerate() {
            let links = links.iter().map(Neighbour::get_origin_id).map(node).collect();
            match layer {
                0 => ground[point.get_origin_id()] = links,
                _ => upper[layer - 1].push((node(point.get_origin_id()), links)),
            }
        }
    }
    let ground = Layer { nodes: Vec::new(), links: Lists::from_lists(ground) };
    let upper = upper.into_iter().map(|mut listed| {
        listed.sort_unstable_by_key(|&(node, _)| node);
        let (nodes, links): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
        Layer { nodes, links: Lists::from_lists(links) }
    });
    std::iter::once(ground).chain(upper).collect()
}

/// The distance hnsw_rs links by: finite and never negative.
#[derive(Debug, Clone, Copy)]
enum Gap {
    /// `1 − q·p` of unit vectors.
    Angle,
    /// `‖q − p‖²`.
    Squared,
}

impl Distance<f32> for Gap {
    fn eval(&self, left: &[f32], right: &[f32]) -> f32 {
        match self {
            Gap::Angle => (1.0 - dot(left, right)).max(0.0),
            // Vectors' squared lengths are bounded, but a difference's may still overflow.
            Gap::Squared => squared_distance(left, right).min(f32::MAX),
        }
    }
}
