//! Which nodes a walk has seen: a stamp a node, so that a new walk need not clear them.

/// Stamps of one byte. Every 255 walks they are cleared.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    stamps: Vec<u8>,
    epoch: u8,
}

impl Visited {
    /// Forgets everything, and makes room for `nodes`.
    pub(crate) fn start(&mut self, nodes: usize) {
        if self.epoch == u8::MAX || self.stamps.len() != nodes {
            self.stamps.clear();
            self.stamps.resize(nodes, 0);
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    /// Whether this is the first time the node is seen.
    #[inline]
    pub(crate) fn is_first(&mut self, node: u32) -> bool {
        let stamp = &mut self.stamps[node as usize];
        let first = *stamp != self.epoch;
        *stamp = self.epoch;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_walk_sees_each_node_first_once() {
        let mut visited = Visited::default();
        for walk in 0..600 {
            visited.start(if walk < 300 { 3 } else { 5 });
            assert!(visited.is_first(2), "walk {walk}");
            assert!(!visited.is_first(2), "walk {walk}");
            assert!(visited.is_first(0), "walk {walk}");
        }
    }
}
