//! The best nodes of a walk so far, sorted, with a mark on those whose links were followed.

/// The largest node number: one bit of 32 is the mark.
pub(crate) const NODE_MAX: u32 = u32::MAX >> 1;

/// The bit of an entry that says its links are still to be followed.
const WAITING: u64 = 1;

/// A fixed number of places, best first. Inserting moves the worse entries on by one, which for a few
/// hundred of 8 bytes is cheaper than to keep two heaps.
#[derive(Debug, Default)]
pub(crate) struct Beam {
    width: usize,
    /// Score in an order of bits, node (the lower the better), mark.
    entries: Vec<u64>,
    /// No entry before this one is waiting.
    cursor: usize,
    floor: f32,
}

fn entry(score: f32, node: u32) -> u64 {
    // Negative numbers grow with falling bits; -0 becomes 0.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(ordered) << 32 | u64::from(NODE_MAX - node) << 1 | WAITING
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
fn parts(entry: u64) -> (f32, u32) {
    let ordered = (entry >> 32) as u32;
    let bits = if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered };
    (f32::from_bits(bits), NODE_MAX - (entry as u32 >> 1))
}

impl Beam {
    /// Empties the beam and gives it `width` places.
    pub(crate) fn start(&mut self, width: usize) {
        self.width = width.max(1);
        self.entries.clear();
        self.cursor = 0;
        self.floor = f32::NEG_INFINITY;
    }

    /// Only a higher score gets a place.
    #[inline]
    pub(crate) fn floor(&self) -> f32 {
        self.floor
    }

    /// Takes a node that was not offered before, if its score is above the floor. NaN never is.
    #[inline]
    pub(crate) fn offer(&mut self, score: f32, node: u32) {
        if score > self.floor {
            self.insert(score, node);
        }
    }

    fn insert(&mut self, score: f32, node: u32) {
        let new = entry(score, node);
        let place = self.entries.partition_point(|&entry| entry > new);
        if self.entries.len() < self.width {
            self.entries.insert(place, new);
        } else {
            let last = self.entries.len() - 1;
            self.entries.copy_within(place.min(last)..last, place.min(last) + 1);
            self.entries[place.min(last)] = new;
        }
        self.cursor = self.cursor.min(place);
        if self.entries.len() == self.width {
            self.floor = self.entries.last().map_or(f32::NEG_INFINITY, |&worst| parts(worst).0);
        }
    }

    /// The best waiting node and its score, which stops waiting.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(f32, u32)> {
        let waiting = self.peek()?;
        self.entries[self.cursor] &= !WAITING;
        self.cursor += 1;
        Some(waiting)
    }

    /// The best waiting node and its score.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<(f32, u32)> {
        while let Some(&entry) = self.entries.get(self.cursor) {
            if entry & WAITING != 0 {
                return Some(parts(entry));
            }
            self.cursor += 1;
        }
        None
    }

    /// All entries as scores and nodes, best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (f32, u32)> {
        self.entries.iter().map(|&entry| parts(entry))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_beam_is_the_head_of_a_full_sort(scores in prop::collection::vec(-4_i8..4, 1..60), width in 1_usize..20) {
            let mut beam = Beam::default();
            beam.start(width);
            for (node, &score) in (0..).zip(&scores) {
                beam.offer(f32::from(score), node);
            }
            let mut sorted: Vec<(f32, u32)> = scores.iter().map(|&score| f32::from(score)).zip(0..).collect();
            sorted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            sorted.truncate(width);
            prop_assert_eq!(beam.iter().collect::<Vec<_>>(), sorted.clone());
            prop_assert_eq!(std::iter::from_fn(|| beam.next()).collect::<Vec<_>>(), sorted);
        }
    }

    #[test]
    fn the_best_waiting_node_comes_next_whenever_it_came() {
        let mut beam = Beam::default();
        beam.start(3);
        beam.offer(1.0, 7);
        beam.offer(-0.5, NODE_MAX);
        assert_eq!(beam.next(), Some((1.0, 7)));
        beam.offer(2.0, 0);
        beam.offer(f32::NAN, 3);
        assert_eq!(beam.next(), Some((2.0, 0)));
        beam.offer(0.0, 5);
        assert_eq!(beam.floor(), 0.0, "full: {:?}", beam.iter().collect::<Vec<_>>());
        beam.offer(0.0, 6);
        assert_eq!(beam.next(), Some((0.0, 5)));
        assert_eq!(beam.next(), None);
    }
}
