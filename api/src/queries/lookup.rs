//! Vectors and points of other collections.

use std::cell::RefCell;
use std::sync::Arc;

use dehub_index::{Name, Snapshot};
use dehub_query::Source;
use dehub_vector::PointId;
use serde_json::Value;

use crate::call::Task;
use crate::decode::{self, Fields, Place};
use crate::errors::{self, FORBIDDEN};
use crate::problem::Problem;

/// Another collection, whose vectors the ids of examples stand for.
pub(crate) struct Lookup {
    name: Name,
    /// The name of the vector; `None` for the unnamed one.
    vector: Option<String>,
    snapshot: Arc<Snapshot>,
    /// Whether it is the collection that is searched.
    is_here: bool,
    /// The points whose vectors were taken.
    taken: RefCell<Vec<PointId>>,
}

impl Lookup {
    /// Reads `{"collection", "vector"}`. `None` for the collection that is searched and the vector that is searched
    /// by, where an id stands for a point as it does without.
    pub(crate) fn read(
        elsewhere: &dyn Elsewhere,
        value: Value,
        place: Place<'_>,
        has_name: bool,
    ) -> Result<Option<Lookup>, Problem> {
        let mut fields = Fields::new(value, place)?;
        let name = fields.required("collection", decode::name)?;
        let vector = fields.optional("vector", decode::string)?.filter(|name| !name.is_empty());
        fields.finish()?;
        let is_same_vector = vector.is_none() || !has_name;
        let is_here = elsewhere.is_here(&name)?;
        if is_same_vector && is_here {
            return Ok(None);
        }
        let snapshot = elsewhere.snapshot(&name, place.field("collection"))?;
        Ok(Some(Lookup { name, vector, snapshot, is_here, taken: RefCell::default() }))
    }

    /// The points of the collection that is searched which were named: they are no answer.
    pub(crate) fn left_out(self) -> Vec<PointId> {
        if self.is_here { self.taken.into_inner() } else { Vec::new() }
    }

    /// The vector of one of its points.
    pub(crate) fn vector(&self, id: &PointId, place: Place<'_>) -> Result<Source, Problem> {
        let row = self.snapshot.find(id).map_err(|error| errors::read(&error))?;
        let row = row.ok_or_else(|| {
            let detail = format!("collection `{}` has no point with the id {id}", self.name);
            Problem::new(errors::UNKNOWN_POINT, detail).at(place).found(id)
        })?;
        let space = self.snapshot.space(self.vector.as_deref());
        let space = space.map_err(|unknown| errors::space(&unknown).at(place))?;
        if !space.is_live(row) {
            let detail = format!("the point {id} of collection `{}` has no such vector", self.name);
            return Err(Problem::new(errors::NO_VECTOR, detail).at(place).found(id));
        }
        self.taken.borrow_mut().push(id.clone());
        Ok(Source::Vector(space.config().numbers(space.vector(row))))
    }
}

/// The collections that a body may name.
pub(crate) trait Elsewhere {
    /// Whether a name, or what it is an alias of, is that of the collection that the path names.
    fn is_here(&self, name: &Name) -> Result<bool, Problem>;

    /// The state of one that the body names at `place`.
    fn snapshot(&self, name: &Name, place: Place<'_>) -> Result<Arc<Snapshot>, Problem>;
}

impl Elsewhere for Task {
    fn is_here(&self, name: &Name) -> Result<bool, Problem> {
        let resolved = self.edge().catalogue().resolve(name.clone());
        Ok(resolved.map_err(|error| errors::catalogue(&error))? == self.name("collection")?)
    }

    /// Who may read the collection of the path need not be allowed to read this one.
    fn snapshot(&self, name: &Name, place: Place<'_>) -> Result<Arc<Snapshot>, Problem> {
        let catalogue = self.edge().catalogue();
        let name = catalogue.resolve(name.clone()).map_err(|error| errors::catalogue(&error))?;
        if !self.may_read(&name) {
            let detail = format!("the key may not read the collection `{name}`");
            return Err(Problem::new(FORBIDDEN, detail).at(place));
        }
        let opened = catalogue.get(&name);
        let collection =
            opened.map_err(|error| errors::opening(&error, &name).unprocessable_if_unknown().at(place))?;
        Ok(collection.snapshot())
    }
}
