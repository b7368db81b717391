//! Building a graph: levels, insertions on several threads, and the finished segment.

use std::sync::atomic::{AtomicUsize, Ordering};

use dehub_vector::{Metric, Projection};

use crate::beam::NODE_MAX;
use crate::freeze::freeze;
use crate::geometry::{Geometry, mean};
use crate::insert::{Draft, Scratch};
use crate::reference::link_by_hnsw_rs;
use crate::{CodeKind, Segment};

/// The fewest links a new node asks for.
pub const M_MIN: usize = 2;

/// The most links a new node asks for.
pub const M_MAX: usize = 128;

/// The most nodes a graph has.
pub const NODES_MAX: usize = NODE_MAX as usize;

/// Nodes linked in turn before several threads start, so that each finds a graph.
pub(crate) const FIRST_IN_TURN: usize = 1024;

/// Layers above the ground: at the least M, one node in 2¹⁶ is as high.
const LEVEL_MAX: u8 = 16;

/// What a graph is built over.
#[derive(Clone, Copy)]
pub struct Points<'a> {
    /// How vectors compare. Under cosine they have length one.
    pub metric: Metric,
    /// The numbers in a vector.
    pub dim: usize,
    /// The rows of each node, at least one: rows of equal vectors share a node, because a large group of
    /// copies would seal itself off.
    pub groups: &'a [Vec<u32>],
    /// The vector of a row, finite.
    pub vector: &'a (dyn Fn(u32) -> &'a [f32] + Sync),
}

impl Points<'_> {
    /// The vector of a node.
    pub(crate) fn of(&self, node: usize) -> &[f32] {
        (self.vector)(self.groups[node][0])
    }
}

/// What links the nodes of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Builder {
    /// Ours: seeded, and on one thread always the same.
    #[default]
    Own,
    /// hnsw_rs, by the same geometry and the same numbers: several times slower, and an independent graph
    /// to hold ours against. Nodes it leaves unreachable are linked as ours are.
    HnswRs,
}

/// How a graph is built.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildOptions {
    /// What links the nodes.
    pub builder: Builder,
    /// Links a new node asks for on each layer, [`M_MIN`] to [`M_MAX`]; a node keeps up to twice as many
    /// on the ground.
    pub m: usize,
    /// The width of the beam that finds them.
    pub ef_construction: usize,
    /// Whether links that a shorter road makes needless fill up what room is left. That costs a walk
    /// more comparisons, and it misses less.
    pub fill: bool,
    /// How the segment keeps vectors.
    pub code: CodeKind,
    /// What vectors are projected by before they are coded, on fewer numbers than they have: then a walk
    /// reads less of each, and finds what is near by most of the product. Under Euclidean what is
    /// projected is a vector less the mean, and lengths count whole.
    pub projection: Option<Projection>,
    /// What levels and the order of insertion are drawn from, by [`Builder::Own`].
    pub seed: u64,
    /// Threads to build on; with one, the same points always make the same segment.
    pub threads: usize,
    /// A number by which the caller knows the segment for its own.
    pub identity: u64,
    /// Rows from this one on are not covered by the segment.
    pub covered: u32,
    /// The caller's number of the state that the segment reflects.
    pub sequence: u64,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            builder: Builder::default(),
            m: 16,
            ef_construction: 200,
            fill: true,
            code: CodeKind::default(),
            projection: None,
            seed: 0,
            threads: 1,
            identity: 0,
            covered: 0,
            sequence: 0,
        }
    }
}

/// Builds a graph over `points` (Malkov & Yashunin, TPAMI 2020) in which every node can be reached.
///
/// # Panics
/// If there are more than [`NODES_MAX`] nodes, `m` is out of range, a group is empty, a vector does not
/// have `dim` numbers, or the projection is not one of `dim` numbers on fewer.
pub fn build(points: &Points<'_>, options: &BuildOptions) -> Segment {
    build_unless(points, options, &|| false).expect("nobody stops it")
}

/// The same, or nothing if `is_stopped` says so meanwhile. It is asked before every node is linked.
///
/// # Panics
/// As [`build`].
pub fn build_unless(
    points: &Points<'_>,
    options: &BuildOptions,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Option<Segment> {
    assert!(points.groups.len() <= NODES_MAX, "at most {NODES_MAX} nodes");
    assert!((M_MIN..=M_MAX).contains(&options.m), "between {M_MIN} and {M_MAX} links");
    assert!(points.groups.iter().all(|rows| !rows.is_empty()), "a node has rows");
    let is_narrower = |projection: &Projection| {
        projection.dim() == points.dim && (1..points.dim).contains(&projection.width())
    };
    assert!(options.projection.as_ref().is_none_or(is_narrower), "a projection of vectors on fewer numbers");
    let center = match points.metric {
        Metric::Euclidean => mean(points),
        Metric::Cosine | Metric::Dot => Vec::new(),
    };
    // A pool of its own: in the shared one, what else the process does would queue behind the whole build.
    match rayon::ThreadPoolBuilder::new().num_threads(options.threads.max(1)).build() {
        Ok(pool) => pool.install(|| {
            let draft = link(points, options, &center, Some(&pool), is_stopped)?;
            Some(freeze(points, options, &center, draft))
        }),
        Err(_) => {
            let draft = link(points, options, &center, None, is_stopped)?;
            Some(freeze(points, options, &center, draft))
        }
    }
}

fn link(
    points: &Points<'_>,
    options: &BuildOptions,
    center: &[f32],
    pool: Option<&rayon::ThreadPool>,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Option<Draft> {
    let nodes = points.groups.len();
    let geometry = Geometry::new(points, center);
    let draft = match options.builder {
        Builder::Own => {
            let mut random = Random(options.seed);
            let levels: Vec<u8> = (0..nodes).map(|_| random.level(options.m)).collect();
            let draft = Draft::without_links(geometry, levels, options);
            // The node every walk starts from comes first, so it never changes.
            let node = |place: usize| u32::try_from(place).expect("nodes are numbered by 31 bits");
            let mut order: Vec<u32> = (0..nodes).map(node).filter(|&node| node != draft.entry).collect();
            random.shuffle(&mut order);
            insert_all(&draft, &order, pool.filter(|pool| pool.current_num_threads() > 1), is_stopped);
            draft
        }
        Builder::HnswRs => link_by_hnsw_rs(nodes, options, geometry),
    };
    if is_stopped() {
        return None;
    }
    draft.reach_all();
    Some(draft)
}

/// Links the nodes, or only some of them once it is stopped.
fn insert_all(
    draft: &Draft,
    order: &[u32],
    pool: Option<&rayon::ThreadPool>,
    is_stopped: &(dyn Fn() -> bool + Sync),
) {
    let in_turn = if pool.is_some() { FIRST_IN_TURN.min(order.len()) } else { order.len() };
    let mut scratch = Scratch::default();
    order[..in_turn].iter().take_while(|_| !is_stopped()).for_each(|&node| draft.insert(node, &mut scratch));
    if let Some(pool) = pool {
        let next = AtomicUsize::new(in_turn);
        pool.broadcast(|_| {
            let mut scratch = Scratch::default();
            while let Some(&node) = order.get(next.fetch_add(1, Ordering::Relaxed))
                && !is_stopped()
            {
                draft.insert(node, &mut scratch);
            }
        });
    }
}

/// A generator of the SplitMix64 family (Steele, Lea & Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, which is far below 2³² here, so that no remainder is noticeably likelier.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 1).unwrap_or(0) % bound.max(1)
    }

    /// A level: each is 1/m as likely as the one below.
    fn level(&mut self, m: usize) -> u8 {
        let mut level = 0;
        while level < LEVEL_MAX && self.below(m) == 0 {
            level += 1;
        }
        level
    }

    /// Fisher and Yates.
    fn shuffle(&mut self, order: &mut [u32]) {
        for place in (1..order.len()).rev() {
            order.swap(place, self.below(place + 1));
        }
    }
}
