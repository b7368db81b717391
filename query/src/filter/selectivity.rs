//! How many points a filter allows, before it is evaluated.

use super::matcher::{Matcher, Node};

/// How many points a filter allows: not fewer than `least` and not more than `most`, and probably about `likely`,
/// which is half of them for a condition of which nothing is known, and what chance would give for several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Selectivity {
    /// Not fewer.
    pub least: usize,
    /// Not more.
    pub most: usize,
    /// Probably about so many.
    pub likely: f64,
}

impl Matcher<'_> {
    /// How many points of the snapshot it allows.
    pub fn estimate(&self) -> Selectivity {
        self.root.estimate(self.snapshot.len(), self.snapshot.space_name().is_none())
    }
}

impl Selectivity {
    fn exactly(count: usize, points: usize) -> Selectivity {
        let count = count.min(points);
        Selectivity { least: count, most: count, likely: number(count) }
    }

    fn unknown(points: usize) -> Selectivity {
        Selectivity { least: 0, most: points, likely: number(points) / 2.0 }
    }

    fn all(parts: &[Selectivity], points: usize) -> Selectivity {
        let missing: usize = parts.iter().map(|part| points - part.least).sum();
        let share: f64 = parts.iter().map(|part| part.share(points)).product();
        let most = parts.iter().map(|part| part.most).min().unwrap_or(points);
        Selectivity { least: points.saturating_sub(missing), most, likely: share * number(points) }.in_order()
    }

    /// Where at least so many of some conditions hold.
    fn at_least(wanted: usize, parts: &[Selectivity], points: usize) -> Selectivity {
        if wanted == 0 {
            return Selectivity::exactly(points, points);
        }
        if wanted > parts.len() {
            return Selectivity::exactly(0, points);
        }
        let sum = |count: fn(&Selectivity) -> usize| parts.iter().map(count).sum::<usize>();
        // Each point that is allowed is in `wanted` of the conditions' points or more, and in all of them at most;
        // each other one in less than `wanted`.
        let most = sum(|part| part.most) / wanted;
        let beyond = sum(|part| part.least).saturating_sub((wanted - 1) * points);
        let least = beyond.div_ceil(parts.len() - wanted + 1);
        // By place: the chance that so many hold, of those looked at.
        let mut chances = vec![1.0];
        for part in parts {
            let share = part.share(points);
            chances.push(0.0);
            for place in (0..chances.len()).rev() {
                let before = if place == 0 { 0.0 } else { chances[place - 1] };
                chances[place] = chances[place] * (1.0 - share) + before * share;
            }
        }
        let share: f64 = chances[wanted..].iter().sum();
        Selectivity { least, most: most.min(points), likely: share * number(points) }.in_order()
    }

    fn opposite(self, points: usize) -> Selectivity {
        Selectivity {
            least: points - self.most,
            most: points - self.least,
            likely: number(points) - self.likely,
        }
    }

    fn share(&self, points: usize) -> f64 {
        if points == 0 { 0.0 } else { self.likely / number(points) }
    }

    /// The likely number is one that there may be.
    fn in_order(self) -> Selectivity {
        Selectivity { likely: self.likely.min(number(self.most)).max(number(self.least)), ..self }
    }
}

impl Node<'_> {
    /// Of so many points; `has_all` says that these are all points of the collection.
    pub(super) fn estimate(&self, points: usize, has_all: bool) -> Selectivity {
        let list = |nodes: &[Node<'_>]| -> Vec<Selectivity> {
            nodes.iter().map(|node| node.estimate(points, has_all)).collect()
        };
        match self {
            Node::All(nodes) => Selectivity::all(&list(nodes), points),
            Node::AtLeast(least, nodes) => Selectivity::at_least(*least, &list(nodes), points),
            Node::Not(node) => node.estimate(points, has_all).opposite(points),
            Node::Rows(rows) => Selectivity::exactly(rows.len(), points),
            Node::Always(holds) => Selectivity::exactly(if *holds { points } else { 0 }, points),
            Node::Slice(slice) => {
                let likely = number(points) / number(usize::try_from(slice.total).unwrap_or(usize::MAX));
                Selectivity { likely, ..Selectivity::unknown(points) }.in_order()
            }
            Node::Field { test, column, .. } => {
                let told = column.and_then(|column| Some((column.kind(), column.postings_made()?)));
                let found =
                    told.and_then(|(kind, postings)| Some((postings, test.look_up(kind, postings, 0)?)));
                let Some((postings, found)) = found else { return Selectivity::unknown(points) };
                let (count, changed) = (found.most(postings), postings.changed_count());
                let most = points.min(count + changed + postings.open_count());
                let least = if has_all { found.least(postings).saturating_sub(changed) } else { 0 };
                Selectivity { least, most, likely: number(count) }.in_order()
            }
            Node::In(_) | Node::Count { .. } | Node::IsEmpty(_) | Node::IsNull(_) | Node::Nested { .. } => {
                Selectivity::unknown(points)
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate needs few digits")]
fn number(count: usize) -> f64 {
    count as f64
}
