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

    /// Leaves those of `nodes` that are seen for the first time in `batch`, in their order. Which they are
    /// cannot be foretold, so nothing branches on it.
    #[inline]
    pub(crate) fn first_of(
        &mut self,
        nodes: impl ExactSizeIterator<Item = u32>,
        none: u32,
        batch: &mut Vec<u32>,
    ) {
        batch.resize(nodes.len(), 0);
        let mut count = 0;
        for node in nodes {
            if node == none {
                break;
            }
            batch[count] = node;
            count += usize::from(self.is_first(node));
        }
        batch.truncate(count);
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
