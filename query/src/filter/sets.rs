//! A filter, evaluated for sets of points.
//!
//! In three values, as for single points: of each condition the points that it holds of, as far as that is known
//! without a look at payloads, and those that it may hold of. What is open for the whole filter in the end is looked at
//! point by point.

use dehub_index::{PayloadColumn, RowSet, Scope};
use rayon::prelude::*;

use super::matcher::{BLOCK, Matcher, Node, Subject};
use super::test::Test;
use crate::QueryError;

/// So few points are looked at sooner than postings are found.
const FEW: usize = 64;

/// To look at the cell of a row takes about as long as to read so many rows of postings.
const CELL_COST: usize = 8;

/// Among the words of a set of rows, so many are read in the time of one row of postings.
const ROWS_EACH: usize = 256;

/// Points by what is known of a condition.
struct Known {
    /// It holds of these.
    holds: RowSet,
    /// It may hold of these, which are among them.
    may: RowSet,
}

/// Where sets are made.
struct Within<'a> {
    points: usize,
    has_all: bool,
    scope: &'a Scope,
}

impl Matcher<'_> {
    /// The points of a scope that it allows.
    pub(super) fn narrow(&self, scope: &Scope) -> Result<Scope, QueryError> {
        let within =
            Within { points: self.snapshot.len(), has_all: self.snapshot.space_name().is_none(), scope };
        let Known { mut holds, may } = within.known(&self.root, scope.row_set())?;
        if may.len() > holds.len() {
            let mut open = may;
            open.remove_all(&holds);
            let rows: Vec<u32> = open.iter().collect();
            holds.extend(self.keep_within(&rows, scope)?);
        }
        Ok(scope.in_time(scope.clone().keeping(&holds))?)
    }
}

impl Known {
    fn exactly(rows: RowSet) -> Known {
        Known { holds: rows.clone(), may: rows }
    }

    fn only(rows: &RowSet, of: &RowSet) -> Known {
        let mut rows = rows.clone();
        rows.keep(of);
        Known::exactly(rows)
    }

    fn open(of: &RowSet) -> Known {
        Known { holds: RowSet::default(), may: of.clone() }
    }
}

impl Within<'_> {
    /// What is known of a condition on some points.
    fn known(&self, node: &Node<'_>, of: &RowSet) -> Result<Known, QueryError> {
        self.scope.in_time(())?;
        if of.is_empty() {
            return Ok(Known::exactly(RowSet::default()));
        }
        match node {
            Node::All(nodes) => self.all(nodes, of),
            Node::AtLeast(least, nodes) => self.at_least(*least, nodes, of),
            Node::Not(node) => {
                let Known { holds, may } = self.known(node, of)?;
                let (mut lacks, mut may_lack) = (of.clone(), of.clone());
                lacks.remove_all(&may);
                may_lack.remove_all(&holds);
                Ok(Known { holds: lacks, may: may_lack })
            }
            Node::Rows(rows) => Ok(Known::only(rows, of)),
            Node::In(space) => Ok(Known::only(space.scope().row_set(), of)),
            Node::Always(true) => Ok(Known::exactly(of.clone())),
            Node::Always(false) => Ok(Known::exactly(RowSet::default())),
            Node::Field { column: Some(column), test, .. } => self.field(node, column, test, of),
            Node::Field { column: None, .. }
            | Node::Slice(_)
            | Node::Count { .. }
            | Node::IsEmpty(_)
            | Node::IsNull(_)
            | Node::Nested { .. } => Ok(Known::open(of)),
        }
    }

    /// The conditions that are likely to hold of few come first, so that the others are asked about few.
    fn all(&self, nodes: &[Node<'_>], of: &RowSet) -> Result<Known, QueryError> {
        let mut known = Known::exactly(of.clone());
        for node in self.rarest_first(nodes) {
            let part = self.known(node, &known.may)?;
            known.may = part.may;
            known.holds.keep(&part.holds);
        }
        Ok(known)
    }

    fn rarest_first<'n, 'm>(&self, nodes: &'n [Node<'m>]) -> Vec<&'n Node<'m>> {
        let likely = |node: &Node<'_>| node.estimate(self.points, self.has_all).likely;
        let mut ranked: Vec<(f64, &Node<'m>)> = nodes.iter().map(|node| (likely(node), node)).collect();
        if nodes.len() > 1 {
            ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        }
        ranked.into_iter().map(|(_, node)| node).collect()
    }

    /// By how many hold, of those asked so far. Nothing is asked of points of which enough hold.
    fn at_least(&self, least: usize, nodes: &[Node<'_>], of: &RowSet) -> Result<Known, QueryError> {
        if least > nodes.len() {
            return Ok(Known::exactly(RowSet::default()));
        }
        // By place: the points of which so many hold.
        let mut hold = vec![RowSet::default(); least + 1];
        hold[0] = of.clone();
        let mut may = hold.clone();
        for node in nodes {
            let mut rest = of.clone();
            rest.remove_all(&hold[least]);
            let part = self.known(node, &rest)?;
            count_one_more(&mut hold, &part.holds);
            count_one_more(&mut may, &part.may);
        }
        let (holds, mut may) = (hold.swap_remove(least), may.swap_remove(least));
        may.insert_all(&holds);
        Ok(Known { holds, may })
    }

    /// A condition on an indexed field.
    fn field(
        &self,
        node: &Node<'_>,
        column: &PayloadColumn,
        test: &Test,
        of: &RowSet,
    ) -> Result<Known, QueryError> {
        if of.len() <= FEW {
            return self.by_row(node, of);
        }
        let Some(postings) = column.postings() else { return self.by_row(node, of) };
        let found = test.look_up(column.kind(), postings, of.len() / 2);
        let by_row = of.len().saturating_mul(CELL_COST);
        let cost = |cost: usize| cost + self.points / ROWS_EACH;
        let Some(found) = found.filter(|found| cost(found.cost(postings)) <= by_row) else {
            return self.by_row(node, of);
        };
        let mut rows = found.rows(postings);
        rows.keep(of);
        let mut known = if found.is_exact { Known::exactly(rows) } else { self.by_row(node, &rows)? };
        let open = postings.open().filter(|&row| of.contains(row));
        known.may.extend(open);
        let changed: RowSet = postings.changed().filter(|&row| of.contains(row)).collect();
        let changed = self.by_row(node, &changed)?;
        known.holds.insert_all(&changed.holds);
        known.may.insert_all(&changed.may);
        Ok(known)
    }

    /// What a condition is for each of some points, without their payloads.
    fn by_row(&self, node: &Node<'_>, of: &RowSet) -> Result<Known, QueryError> {
        let rows: Vec<u32> = of.iter().collect();
        let look = |block: &[u32]| -> Result<(Vec<u32>, Vec<u32>), QueryError> {
            self.scope.in_time(())?;
            let (mut holds, mut open) = (Vec::new(), Vec::new());
            for &row in block {
                match node.holds(Subject::Row(row)) {
                    Some(true) => holds.push(row),
                    Some(false) => {}
                    None => open.push(row),
                }
            }
            Ok((holds, open))
        };
        let blocks = rows.par_chunks(BLOCK).map(look).collect::<Result<Vec<_>, QueryError>>()?;
        let holds: RowSet = blocks.iter().flat_map(|(holds, _)| holds).copied().collect();
        let mut may = holds.clone();
        may.extend(blocks.iter().flat_map(|(_, open)| open).copied());
        Ok(Known { holds, may })
    }
}

/// Takes in a condition that holds of these rows.
fn count_one_more(counted: &mut [RowSet], rows: &RowSet) {
    for place in (1..counted.len()).rev() {
        let mut more = counted[place - 1].clone();
        more.keep(rows);
        counted[place].insert_all(&more);
    }
}
