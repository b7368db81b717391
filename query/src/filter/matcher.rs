//! A filter, ready to be asked about the points of a snapshot, one by one.

use dehub_index::{PayloadColumn, PayloadPath, ReadError, RowSet, Scalar, Scope, Snapshot};
use dehub_vector::PointId;
use rayon::prelude::*;
use serde_json::Value;

use super::{Bounds, Condition, Filter, Slice, Test};
use crate::QueryError;

/// Points whose payloads are read at once. The clock is looked at as often.
pub(super) const BLOCK: usize = 256;

/// A filter bound to a snapshot: ids are looked up, and indexes found.
pub struct Matcher<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) root: Node<'a>,
}

pub(super) enum Node<'a> {
    All(Vec<Node<'a>>),
    AtLeast(usize, Vec<Node<'a>>),
    Not(Box<Node<'a>>),
    Rows(RowSet),
    /// Points with a vector there.
    In(&'a Snapshot),
    Slice(Slice),
    Always(bool),
    Field {
        key: &'a PayloadPath,
        test: &'a Test,
        column: Option<&'a PayloadColumn>,
    },
    Count {
        key: &'a PayloadPath,
        bounds: &'a Bounds<u64>,
    },
    IsEmpty(&'a PayloadPath),
    IsNull(&'a PayloadPath),
    Nested {
        key: PayloadPath,
        inside: Box<Node<'a>>,
    },
}

/// What a filter is asked about.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    /// A point whose payload was not read yet.
    Row(u32),
    /// A point.
    Point(u32, &'a (PointId, Value)),
    /// An object in a payload.
    Element(&'a Value),
}

impl<'a> Subject<'a> {
    fn payload(self) -> Option<&'a Value> {
        match self {
            Subject::Row(_) => None,
            Subject::Point(_, (_, payload)) | Subject::Element(payload) => Some(payload),
        }
    }

    fn row(self) -> Option<u32> {
        match self {
            Subject::Row(row) | Subject::Point(row, _) => Some(row),
            Subject::Element(_) => None,
        }
    }
}

impl Filter {
    /// The filter, ready for the points of a snapshot.
    pub fn matcher<'a>(&'a self, snapshot: &'a Snapshot) -> Result<Matcher<'a>, QueryError> {
        Ok(Matcher { snapshot, root: Node::of_filter(self, Some(snapshot))? })
    }
}

impl Matcher<'_> {
    /// Those of some rows whose points it allows, in their order. Payloads are read only where indexes do not tell.
    pub fn keep(&self, rows: &[u32]) -> Result<Vec<u32>, ReadError> {
        let by_index: Vec<Option<bool>> =
            rows.iter().map(|&row| self.root.holds(Subject::Row(row))).collect();
        let open: Vec<u32> =
            rows.iter().zip(&by_index).filter(|(_, told)| told.is_none()).map(|(&row, _)| row).collect();
        let points = self.snapshot.payloads(&open)?;
        let mut read = open
            .iter()
            .zip(&points)
            .map(|(&row, point)| self.root.holds(Subject::Point(row, point)).unwrap_or(false));
        let mut told = by_index.into_iter().map(|told| told.or_else(|| read.next()).unwrap_or(false));
        Ok(rows.iter().copied().filter(|_| told.next().unwrap_or(false)).collect())
    }

    /// The same for any number of rows, by all threads, in the time that a scope has.
    pub(super) fn keep_within(&self, rows: &[u32], scope: &Scope) -> Result<Vec<u32>, QueryError> {
        let keep = |block: &[u32]| {
            scope.in_time(())?;
            Ok(self.keep(block)?)
        };
        let kept = rows.par_chunks(BLOCK).map(keep).collect::<Result<Vec<_>, QueryError>>()?;
        Ok(scope.in_time(kept.concat())?)
    }
}

impl<'a> Node<'a> {
    fn of_filter(filter: &'a Filter, snapshot: Option<&'a Snapshot>) -> Result<Node<'a>, QueryError> {
        let list = |conditions: &'a [Condition]| -> Result<Vec<Node<'a>>, QueryError> {
            conditions.iter().map(|condition| Node::of(condition, snapshot)).collect()
        };
        let mut all = list(&filter.must)?;
        all.extend(list(&filter.must_not)?.into_iter().map(|node| Node::Not(Box::new(node))));
        if !filter.should.is_empty() {
            all.push(Node::AtLeast(1, list(&filter.should)?));
        }
        if let Some(some) = &filter.min_should {
            all.push(Node::AtLeast(some.least, list(&some.conditions)?));
        }
        Ok(Node::All(all))
    }

    /// A condition on the points of a snapshot, or on objects within payloads, which are no points.
    fn of(condition: &'a Condition, snapshot: Option<&'a Snapshot>) -> Result<Node<'a>, QueryError> {
        Ok(match condition {
            Condition::Field { key, test } => {
                let column = snapshot.and_then(|snapshot| snapshot.payload_column(key));
                Node::Field { key, test, column: column.filter(|column| test.can_use(column.kind())) }
            }
            Condition::Count { key, bounds } => Node::Count { key, bounds },
            Condition::IsEmpty(key) => Node::IsEmpty(key),
            Condition::IsNull(key) => Node::IsNull(key),
            Condition::HasId(ids) => match snapshot {
                Some(snapshot) => Node::Rows(snapshot.find_all(ids)?.into_iter().collect()),
                None => Node::Always(false),
            },
            Condition::Slice(slice) => Node::Slice(*slice),
            Condition::HasVector(name) => Node::of_vector(name, snapshot),
            Condition::Nested { key, filter } => {
                Node::Nested { key: key.to_array(), inside: Box::new(Node::of_filter(filter, None)?) }
            }
            Condition::Filter(filter) => Node::of_filter(filter, snapshot)?,
            Condition::Not(condition) => Node::Not(Box::new(Node::of(condition, snapshot)?)),
        })
    }

    /// Points that have a vector of this name. Where vectors have no names, every point has the one.
    fn of_vector(name: &str, snapshot: Option<&'a Snapshot>) -> Node<'a> {
        let named = snapshot.and_then(|all| all.spaces().find(|(own, _)| own.as_str() == name));
        match named {
            Some((_, space)) => Node::In(space),
            None => Node::Always(snapshot.is_some_and(Snapshot::has_vectors) && name.is_empty()),
        }
    }

    /// Whether it holds; `None` if only the payload tells, which was not read.
    pub(super) fn holds(&self, subject: Subject<'_>) -> Option<bool> {
        match self {
            Node::All(nodes) => {
                let mut all = Some(true);
                for node in nodes {
                    match node.holds(subject) {
                        Some(true) => {}
                        Some(false) => return Some(false),
                        None => all = None,
                    }
                }
                all
            }
            Node::AtLeast(least, nodes) => at_least(*least, nodes, subject),
            Node::Not(node) => node.holds(subject).map(|holds| !holds),
            Node::Rows(rows) => Some(subject.row().is_some_and(|row| rows.contains(row))),
            Node::In(space) => Some(subject.row().is_some_and(|row| space.is_live(row))),
            Node::Slice(slice) => match subject {
                Subject::Row(_) => None,
                Subject::Point(_, (id, _)) => Some(slice.contains(id)),
                Subject::Element(_) => Some(false),
            },
            Node::Always(holds) => Some(*holds),
            Node::Field { key, test, column } => {
                let indexed = column.zip(subject.row()).and_then(|(column, row)| column.values(row));
                match indexed {
                    Some(values) => Some(values.iter().any(|value| test.takes(value.scalar()))),
                    None => Some(passes(key, test, subject.payload()?)),
                }
            }
            Node::Count { key, bounds } => Some(count_is(key, bounds, subject.payload()?)),
            Node::IsEmpty(key) => Some(is_empty(key, subject.payload()?)),
            Node::IsNull(key) => Some(is_null(key, subject.payload()?)),
            Node::Nested { key, inside } => Some(has_element(key, inside, subject.payload()?)),
        }
    }
}

fn at_least(least: usize, nodes: &[Node<'_>], subject: Subject<'_>) -> Option<bool> {
    if least == 0 {
        return Some(true);
    }
    let (mut holding, mut open) = (0, 0);
    for node in nodes {
        match node.holds(subject) {
            Some(holds) => holding += usize::from(holds),
            None => open += 1,
        }
        if holding >= least {
            return Some(true);
        }
    }
    if holding + open < least { Some(false) } else { None }
}

fn passes(key: &PayloadPath, test: &Test, payload: &Value) -> bool {
    let mut passes = false;
    key.each(payload, |value| passes = passes || test.takes(Scalar::of(value)));
    passes
}

fn count_is(key: &PayloadPath, bounds: &Bounds<u64>, payload: &Value) -> bool {
    let count = |value: &Value| match value {
        Value::Null => 0,
        Value::Array(entries) => entries.len() as u64,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => 1,
    };
    let found = key.find(payload);
    if found.is_empty() {
        bounds.contains(&0)
    } else {
        found.into_iter().any(|it| bounds.contains(&count(it)))
    }
}

fn is_empty(key: &PayloadPath, payload: &Value) -> bool {
    key.find(payload).into_iter().all(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
}

fn is_null(key: &PayloadPath, payload: &Value) -> bool {
    let has_null = |value: &Value| value.as_array().is_some_and(|entries| entries.iter().any(Value::is_null));
    key.find(payload).into_iter().any(|value| value.is_null() || has_null(value))
}

fn has_element(key: &PayloadPath, inside: &Node<'_>, payload: &Value) -> bool {
    let arrays = key.find(payload).into_iter().filter_map(Value::as_array);
    let mut objects = arrays.flatten().filter(|element| element.is_object());
    objects.any(|element| inside.holds(Subject::Element(element)) == Some(true))
}
