//! Making every node reachable from the entry.

use crate::adjacency::Link;
use crate::insert::{Draft, Scratch};

impl Draft {
    /// Links every node that no road leads to from the nearest reached one with room. The builder leaves
    /// a place in each list, so there always is one.
    pub(crate) fn reach_all(&self) {
        let nodes = self.levels.len();
        if nodes == 0 {
            return;
        }
        let mut reached = vec![false; nodes];
        self.spread(self.entry, &mut reached);
        let mut scratch = Scratch::default();
        for node in 0..nodes {
            if reached[node] {
                continue;
            }
            let number = u32::try_from(node).expect("nodes are numbered by 31 bits");
            self.search(number, self.entry, 0, &mut scratch);
            let has_room = |node: usize| reached[node] && self.ground.len(node) < self.ground.stride();
            let nearest = self.found(&scratch).find(|&(_, near)| has_room(near as usize));
            let from =
                nearest.map(|(_, near)| near as usize).or_else(|| (0..nodes).find(|&node| has_room(node)));
            let Some(from) = from else { continue };
            let near = u32::try_from(from).expect("nodes are numbered by 31 bits");
            let similarity = self.geometry.similarity(near, number);
            self.ground.append(from, Link { node: number, similarity, fills: false });
            self.spread(number, &mut reached);
        }
    }

    /// Marks what the ground's links lead to from `start`.
    fn spread(&self, start: u32, reached: &mut [bool]) {
        let mut ahead = vec![start];
        reached[start as usize] = true;
        while let Some(node) = ahead.pop() {
            for next in self.ground.links(node as usize) {
                if !reached[next as usize] {
                    reached[next as usize] = true;
                    ahead.push(next);
                }
            }
        }
    }
}
