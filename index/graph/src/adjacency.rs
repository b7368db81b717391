//! The links of a graph that is being built: a fixed number of places a node, read without a lock.
//!
//! A reader may see a list while it is changed: then it misses a link or sees one twice, and every number
//! it sees is a node's. Whoever changes a list holds that node's lock, and never two.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dehub_vector::prefetch;

use crate::geometry::Geometry;

/// An empty place; those after it are empty too.
pub(crate) const EMPTY: u32 = u32::MAX;

/// The bit of a link that a shorter road makes needless: it only fills the list up.
const FILLS: u32 = 1 << 31;

/// A link: where to, and how similar that is to where from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) node: u32,
    pub(crate) similarity: f32,
    /// Whether a nearer neighbour is nearer to it than the owner is.
    pub(crate) fills: bool,
}

/// Lists of links, one after the other.
#[derive(Debug)]
pub(crate) struct Adjacency {
    /// Places a list has.
    stride: usize,
    nodes: Vec<AtomicU32>,
    similarities: Vec<AtomicU32>,
    locks: Vec<AtomicBool>,
}

/// A list that nobody else changes.
struct Locked<'a> {
    lock: &'a AtomicBool,
    nodes: &'a [AtomicU32],
    similarities: &'a [AtomicU32],
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.lock.store(false, Ordering::Release);
    }
}

impl Locked<'_> {
    fn get(&self, place: usize) -> Option<Link> {
        let node = self.nodes[place].load(Ordering::Relaxed);
        let similarity = f32::from_bits(self.similarities[place].load(Ordering::Relaxed));
        (node != EMPTY).then_some(Link { node: node & !FILLS, similarity, fills: node & FILLS != 0 })
    }

    fn put(&self, place: usize, link: Link) {
        let node = if link.fills { link.node | FILLS } else { link.node };
        self.similarities[place].store(link.similarity.to_bits(), Ordering::Relaxed);
        self.nodes[place].store(node, Ordering::Relaxed);
    }

    fn iter(&self) -> impl Iterator<Item = Link> {
        (0..self.nodes.len()).map_while(|place| self.get(place))
    }

    fn rewrite(&self, links: &[Link]) {
        for place in 0..self.nodes.len() {
            match links.get(place) {
                Some(&link) => self.put(place, link),
                None => self.nodes[place].store(EMPTY, Ordering::Relaxed),
            }
        }
    }
}

impl Adjacency {
    /// `lists` empty lists of up to `stride` links.
    pub(crate) fn new(lists: usize, stride: usize) -> Adjacency {
        let numbers = |number| (0..lists * stride).map(|_| AtomicU32::new(number)).collect();
        let locks = (0..lists).map(|_| AtomicBool::new(false)).collect();
        Adjacency { stride, nodes: numbers(EMPTY), similarities: numbers(0), locks }
    }

    /// The places a list has.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    fn places<'a>(&self, numbers: &'a [AtomicU32], list: usize) -> &'a [AtomicU32] {
        &numbers[list * self.stride..][..self.stride]
    }

    fn lock(&self, list: usize) -> Locked<'_> {
        let lock = &self.locks[list];
        let take = || lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed);
        let mut tries = 0_u32;
        while take().is_err() {
            // A list is held for less than a microsecond, unless its holder was put to sleep.
            tries = tries.wrapping_add(1);
            if tries.is_multiple_of(64) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let [nodes, similarities] = [&self.nodes, &self.similarities].map(|all| self.places(all, list));
        Locked { lock, nodes, similarities }
    }

    /// The nodes a list leads to, and [`EMPTY`] for each place that is left.
    #[inline]
    pub(crate) fn all_links(&self, list: usize) -> impl ExactSizeIterator<Item = u32> {
        let nodes = self.places(&self.nodes, list).iter().map(|node| node.load(Ordering::Relaxed));
        nodes.map(|node| if node == EMPTY { EMPTY } else { node & !FILLS })
    }

    /// The nodes a list leads to.
    pub(crate) fn links(&self, list: usize) -> impl Iterator<Item = u32> {
        self.all_links(list).take_while(|&node| node != EMPTY)
    }

    /// Asks for a list to be brought near.
    #[inline]
    pub(crate) fn fetch(&self, list: usize) {
        prefetch(self.places(&self.nodes, list));
    }

    /// How many links a list has.
    pub(crate) fn len(&self, list: usize) -> usize {
        self.links(list).count()
    }

    /// Replaces a list.
    pub(crate) fn set(&self, list: usize, links: &[Link]) {
        self.lock(list).rewrite(links);
    }

    /// Adds a link to a list that has room; says whether it had.
    pub(crate) fn append(&self, list: usize, link: Link) -> bool {
        let locked = self.lock(list);
        let Some(place) = (0..self.stride).find(|&place| locked.get(place).is_none()) else { return false };
        locked.put(place, link);
        true
    }

    /// Adds a link, and keeps the rule of [`select`] up: a link is needless where a nearer neighbour that
    /// is not is nearer to it than the owner. Over `room` links, the farthest needless one goes, or the
    /// farthest of all; unless `fill`, all needless ones go.
    pub(crate) fn offer(
        &self,
        geometry: &Geometry,
        list: usize,
        mut new: Link,
        rule: Rule,
        links: &mut Vec<Link>,
    ) {
        let locked = self.lock(list);
        links.clear();
        links.extend(locked.iter());
        if links.iter().any(|link| link.node == new.node) {
            return;
        }
        judge(geometry, links, &mut new);
        links.push(new);
        if links.len() > rule.room {
            let needless = links.iter().any(|link| link.fills);
            let going = links.iter().enumerate().filter(|(_, link)| link.fills || !needless);
            let farthest = going.min_by(|(_, a), (_, b)| a.similarity.total_cmp(&b.similarity));
            if let Some((place, _)) = farthest {
                links.swap_remove(place);
            }
            if !rule.fill {
                links.retain(|link| !link.fills);
            }
        }
        locked.rewrite(links);
    }
}

/// What a list keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The most links.
    pub(crate) room: usize,
    /// Whether needless links fill the room that is left.
    pub(crate) fill: bool,
}

/// Marks the new link if a nearer one makes it needless, or those that it makes needless.
fn judge(geometry: &Geometry, links: &mut [Link], new: &mut Link) {
    links.iter().filter(|link| !link.fills).for_each(|link| geometry.fetch(link.node));
    for link in links.iter().filter(|link| !link.fills && link.similarity >= new.similarity) {
        if geometry.similarity(link.node, new.node) > new.similarity {
            new.fills = true;
            return;
        }
    }
    for link in links.iter_mut().filter(|link| !link.fills && link.similarity < new.similarity) {
        link.fills = geometry.similarity(link.node, new.node) > link.similarity;
    }
}

/// The links of a new node from its nearest, best first (Malkov & Yashunin, algorithm 4): one that is
/// nearer to a chosen one than to the node is passed over; with `fill`, the nearest of those fill the room up.
pub(crate) fn select(
    geometry: &Geometry,
    nearest: impl Iterator<Item = (f32, u32)>,
    Rule { room, fill }: Rule,
) -> Vec<Link> {
    let mut chosen: Vec<Link> = Vec::with_capacity(room);
    let mut passed_over = Vec::new();
    for (similarity, node) in nearest {
        if chosen.len() == room {
            break;
        }
        let fills = chosen.iter().any(|link| geometry.similarity(link.node, node) > similarity);
        let link = Link { node, similarity, fills };
        if fills { passed_over.push(link) } else { chosen.push(link) }
    }
    if fill {
        let left = room - chosen.len();
        chosen.extend(passed_over.into_iter().take(left));
    }
    chosen
}
