//! Finding a new node's nearest, and linking it with them.

use crate::BuildOptions;
use crate::adjacency::{Adjacency, EMPTY, Link, Rule, select};
use crate::beam::Beam;
use crate::geometry::Geometry;
use crate::visited::Visited;

/// Rows that are asked for before they are compared.
pub(crate) const AHEAD: usize = 4;

/// A graph that is being built.
pub(crate) struct Draft {
    pub(crate) geometry: Geometry,
    /// The highest layer of each node.
    pub(crate) levels: Vec<u8>,
    /// The node that every walk starts from; it is on the highest layer.
    pub(crate) entry: u32,
    pub(crate) ground: Adjacency,
    /// The layers above the ground, those of one node next to each other.
    pub(crate) upper: Adjacency,
    /// Where the lists of a node begin in `upper`.
    pub(crate) upper_lists: Vec<u32>,
    pub(crate) m: usize,
    pub(crate) ef_construction: usize,
    pub(crate) fill: bool,
}

/// What an insertion works with.
#[derive(Default)]
pub(crate) struct Scratch {
    beam: Beam,
    visited: Visited,
    batch: Vec<u32>,
    links: Vec<Link>,
}

impl Draft {
    /// Nodes on their layers, not yet linked. Every walk will start from the first of the highest.
    pub(crate) fn without_links(geometry: Geometry, levels: Vec<u8>, options: &BuildOptions) -> Draft {
        let nodes = levels.len();
        let number = |place: usize| u32::try_from(place).expect("nodes are numbered by 31 bits");
        let entry = (0..nodes).max_by_key(|&node| (levels[node], std::cmp::Reverse(node))).unwrap_or(0);
        let mut upper = 0;
        let upper_lists = levels
            .iter()
            .map(|&level| {
                upper += usize::from(level);
                number(upper - usize::from(level))
            })
            .collect();
        Draft {
            geometry,
            levels,
            entry: number(entry),
            ground: Adjacency::new(nodes, 2 * options.m),
            upper: Adjacency::new(upper, options.m),
            upper_lists,
            m: options.m,
            ef_construction: options.ef_construction.max(options.m),
            fill: options.fill,
        }
    }

    /// The lists of a layer, and which of them is the node's.
    fn list(&self, node: u32, layer: u8) -> (&Adjacency, usize) {
        match layer {
            0 => (&self.ground, node as usize),
            _ => (&self.upper, self.upper_lists[node as usize] as usize + usize::from(layer) - 1),
        }
    }

    /// The links a list of a layer has room for. On the ground one place is left for [`Draft::reach_all`].
    pub(crate) fn room(&self, layer: u8) -> usize {
        if layer == 0 { self.ground.stride() - 1 } else { self.upper.stride() }
    }

    fn rule(&self, layer: u8) -> Rule {
        Rule { room: self.room(layer), fill: self.fill }
    }

    /// Replaces the list of a node.
    pub(crate) fn set(&self, node: u32, layer: u8, links: &[Link]) {
        let (lists, list) = self.list(node, layer);
        lists.set(list, links);
    }

    /// Links a node with its nearest among those inserted before.
    pub(crate) fn insert(&self, node: u32, scratch: &mut Scratch) {
        let level = self.levels[node as usize];
        let mut here = self.entry;
        for layer in (level + 1..=self.levels[self.entry as usize]).rev() {
            here = self.descend(node, here, layer);
        }
        let mut chosen = Vec::with_capacity(usize::from(level) + 1);
        for layer in (0..=level).rev() {
            self.search(node, here, layer, scratch);
            let rule = Rule { room: self.m, fill: self.fill };
            chosen.push(select(&self.geometry, scratch.beam.iter(), rule));
            here = scratch.beam.iter().next().map_or(here, |(_, nearest)| nearest);
        }
        // A node has its own links on every layer before others lead to it, the ground first.
        chosen.reverse();
        for (layer, chosen) in (0..).zip(&chosen) {
            self.set(node, layer, chosen);
        }
        for (layer, chosen) in (0..).zip(&chosen) {
            let rule = self.rule(layer);
            for link in chosen {
                let (lists, list) = self.list(link.node, layer);
                let back = Link { node, similarity: link.similarity, fills: false };
                lists.offer(&self.geometry, list, back, rule, &mut scratch.links);
            }
        }
    }

    /// From `here` to ever nearer nodes of a layer, until none is nearer to `node`.
    fn descend(&self, node: u32, mut here: u32, layer: u8) -> u32 {
        let mut nearest = self.geometry.similarity(node, here);
        loop {
            let from = here;
            let (lists, list) = self.list(from, layer);
            lists.links(list).for_each(|next| self.geometry.fetch(next));
            for next in lists.links(list) {
                let similarity = self.geometry.similarity(node, next);
                if similarity > nearest {
                    (nearest, here) = (similarity, next);
                }
            }
            if here == from {
                return here;
            }
        }
    }

    /// Leaves the nearest nodes of a layer in the beam.
    pub(crate) fn search(&self, node: u32, start: u32, layer: u8, scratch: &mut Scratch) {
        let Scratch { beam, visited, batch, .. } = scratch;
        beam.start(self.ef_construction);
        visited.start(self.levels.len());
        visited.is_first(start);
        beam.offer(self.geometry.similarity(node, start), start);
        while let Some((_, from)) = beam.next() {
            let (lists, list) = self.list(from, layer);
            visited.first_of(lists.all_links(list), EMPTY, batch);
            batch.iter().take(AHEAD).for_each(|&next| self.geometry.fetch(next));
            if let Some((_, likely)) = beam.peek() {
                let (lists, list) = self.list(likely, layer);
                lists.fetch(list);
            }
            for (place, &next) in batch.iter().enumerate() {
                if let Some(&ahead) = batch.get(place + AHEAD) {
                    self.geometry.fetch(ahead);
                }
                beam.offer(self.geometry.similarity(node, next), next);
            }
        }
    }

    /// The nodes in the beam, nearest first.
    pub(crate) fn found<'a>(&self, scratch: &'a Scratch) -> impl Iterator<Item = (f32, u32)> + 'a {
        scratch.beam.iter()
    }
}
