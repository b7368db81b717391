//! Vectors of points: one without a name, or some under names; as bodies give them, as answers show them, and changed
//! without the rest of a point.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::HttpResponse;
use dehub_index::{
    BATCH_POINTS_MAX, Collection, Name, NamedVector, Receipt, Snapshot, UnknownSpace, VectorsInput,
    WriteError,
};
use dehub_vector::{Numbers, PointId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::{Call, Task};
use crate::decode::{self, Fields, Place};
use crate::errors::{self, EMPTY_BATCH, Written};
use crate::parameters::WRITE;
use crate::points::{self, WriteReply, or_null, same_length};
use crate::problem::Problem;
use crate::selectors::{Chosen, ids_of};

/// The vectors of one point as a body gives them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) unnamed: Numbers,
    pub(crate) named: Vec<NamedVector>,
}

/// The vectors of a point in an answer, as stored: of length one under cosine.
#[derive(Debug, Serialize, PartialEq, ToSchema)]
#[schema(as = Vectors)]
#[serde(untagged)]
pub(crate) enum VectorReply {
    Unnamed(Shown),
    /// Those that the point has, of those asked for.
    Named(BTreeMap<String, Shown>),
}

/// A vector as it is stored, or the vectors of a multi-vector.
#[derive(Debug, Serialize, PartialEq, ToSchema)]
#[schema(as = StoredVector)]
#[serde(untagged)]
pub(crate) enum Shown {
    One(Vec<f32>),
    Several(Vec<Vec<f32>>),
}

impl Shown {
    pub(crate) fn of(space: &Snapshot, row: u32) -> Shown {
        let (config, vector) = (space.config(), space.vector(row));
        if config.multi {
            return Shown::Several(vector.chunks_exact(config.dim.get()).map(<[f32]>::to_vec).collect());
        }
        Shown::One(vector.to_vec())
    }
}

/// Which vectors of a point to answer with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VectorSelector {
    Nothing,
    Everything,
    Named(Vec<String>),
}

impl VectorSelector {
    /// Reads `true`, `false` or a list of names.
    pub(crate) fn read(value: Value, place: Place<'_>) -> Result<VectorSelector, Problem> {
        match value {
            Value::Bool(true) => Ok(VectorSelector::Everything),
            Value::Bool(false) => Ok(VectorSelector::Nothing),
            Value::Array(_) => decode::list(value, place, decode::string).map(VectorSelector::Named),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                Err(decode::wrong(place, &value, "true, false or a list of names of vectors"))
            }
        }
    }

    /// Refuses names of no vector of the collection.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), UnknownSpace> {
        let VectorSelector::Named(names) = self else { return Ok(()) };
        let is_known = |name: &str| match snapshot.has_vectors() {
            true => name.is_empty(),
            false => snapshot.spaces().any(|(own, _)| own.as_str() == name),
        };
        let unknown = |name: &String| {
            let found = snapshot.spaces().map(|(name, _)| name.clone()).collect();
            UnknownSpace { asked: Some(name.clone()), found }
        };
        names.iter().find(|name| !is_known(name)).map_or(Ok(()), |name| Err(unknown(name)))
    }

    /// The vectors of a row, from the state of the collection.
    pub(crate) fn of(&self, snapshot: &Snapshot, row: u32) -> Result<Option<VectorReply>, Problem> {
        let is_asked = |name: &str| match self {
            VectorSelector::Nothing => false,
            VectorSelector::Everything => true,
            VectorSelector::Named(names) => names.iter().any(|own| own == name),
        };
        self.check(snapshot).map_err(|unknown| errors::space(&unknown).at("/with_vector"))?;
        if snapshot.has_vectors() {
            return Ok(is_asked("").then(|| VectorReply::Unnamed(Shown::of(snapshot, row))));
        }
        if *self == VectorSelector::Nothing {
            return Ok(None);
        }
        let asked = snapshot.spaces().filter(|(name, space)| is_asked(name.as_str()) && space.is_live(row));
        let vector = |(name, space): (&Name, &Arc<Snapshot>)| (name.to_string(), Shown::of(space, row));
        Ok(Some(VectorReply::Named(asked.map(vector).collect())))
    }
}

/// Reads the vectors of a point: a list of numbers, or lists under names, of which the empty one is no name.
pub(crate) fn given(value: Value, place: Place<'_>) -> Result<Given, Problem> {
    match value {
        Value::Object(map) => {
            let mut given = Given::default();
            for (name, value) in map {
                let vector = decode::numbers(value, place.field(&name))?;
                if name.is_empty() {
                    given.unnamed = vector;
                } else {
                    given.named.push(NamedVector { name: vector_name(&name, place)?, vector });
                }
            }
            Ok(given)
        }
        Value::Array(_) => Ok(Given { unnamed: decode::numbers(value, place)?, named: Vec::new() }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let wanted = "a vector (an array of numbers), or an object of vectors under their names";
            Err(decode::wrong(place, &value, wanted))
        }
    }
}

/// Reads the vectors of many points: a list of vectors, or such lists under names, in which `null` stands for none.
pub(crate) fn given_lists(value: Value, wanted: usize, place: Place<'_>) -> Result<Vec<Given>, Problem> {
    let Value::Object(map) = value else {
        let vectors = same_length(decode::list(value, place, decode::numbers)?, wanted, place)?;
        return Ok(vectors.into_iter().map(|unnamed| Given { unnamed, named: Vec::new() }).collect());
    };
    let mut points: Vec<Given> = (0..wanted).map(|_| Given::default()).collect();
    for (name, value) in map {
        let place_of_list = place.field(&name);
        let list = decode::list(value, place_of_list, or_null(decode::numbers))?;
        let list = same_length(list, wanted, place_of_list)?;
        let own = if name.is_empty() { None } else { Some(vector_name(&name, place)?) };
        for (point, vector) in points.iter_mut().zip(list) {
            match (&own, vector) {
                (_, None) => {}
                (None, Some(vector)) => point.unnamed = vector,
                (Some(name), Some(vector)) => point.named.push(NamedVector { name: name.clone(), vector }),
            }
        }
    }
    Ok(points)
}

fn vector_name(name: &str, place: Place<'_>) -> Result<Name, Problem> {
    decode::name(Value::String(name.to_owned()), place.field(name))
}

/// `PUT /collections/{collection}/points/vectors`: gives points some of their vectors anew.
pub(crate) async fn update(call: Call) -> HttpResponse {
    call.answer_body(WRITE, |task, body| {
        let inputs = read_update(body, Place::Body)?;
        let collection = task.collection()?;
        let reply = perform_update(&collection, &inputs)?;
        task.build_graph_if_due(&collection)?;
        task.reply(&reply.found_by_words(&task, &collection)?)
    })
    .await
}

/// Reads `{"points": [{"id", "vector"}]}`.
pub(crate) fn read_update(value: Value, place: Place<'_>) -> Result<Vec<VectorsInput>, Problem> {
    let mut fields = Fields::new(value, place)?;
    let inputs = fields.required("points", |value, place| {
        let inputs = decode::list(value, place, |value, place| {
            let mut fields = Fields::new(value, place)?;
            let id = fields.required("id", decode::id)?;
            let Given { unnamed, named } = fields.required("vector", given)?;
            fields.finish()?;
            Ok(VectorsInput { id, vector: unnamed, named })
        })?;
        points::not_empty(inputs, place)
    })?;
    fields.finish()?;
    Ok(inputs)
}

pub(crate) fn perform_update(
    collection: &Collection,
    inputs: &[VectorsInput],
) -> Result<WriteReply, Problem> {
    let receipt = collection.update_vectors(inputs);
    Ok(WriteReply::upserted(&receipt.map_err(|error| errors::write(&error, &Written::Points))?))
}

/// Vectors to take from points.
pub(crate) struct Taken {
    chosen: Chosen,
    names: Vec<Name>,
}

/// `POST /collections/{collection}/points/vectors/delete`: takes vectors of some names from points.
pub(crate) async fn delete(call: Call) -> HttpResponse {
    call.answer_body(WRITE, |task, body| {
        let taken = read_delete(body, Place::Body)?;
        let collection = task.collection()?;
        let reply = perform_delete(&task, &collection, &taken)?;
        task.build_graph_if_due(&collection)?;
        task.reply(&reply.found_by_words(&task, &collection)?)
    })
    .await
}

/// Reads `{"points", "vector"}` or `{"filter", "vector"}`.
pub(crate) fn read_delete(value: Value, place: Place<'_>) -> Result<Taken, Problem> {
    let mut fields = Fields::new(value, place)?;
    let chosen = Chosen::read(&mut fields, place)?;
    let names = fields.required("vector", |value, place| {
        let names = decode::list(value, place, decode::name)?;
        if names.is_empty() {
            let detail = format!("`{place}` is empty, wanted at least one name of a vector");
            return Err(Problem::new(EMPTY_BATCH, detail).at(place));
        }
        Ok(names)
    })?;
    fields.finish()?;
    Ok(Taken { chosen, names })
}

/// Takes vectors from the points that are chosen: of a list, in one commit; of a filter, in commits of
/// [`BATCH_POINTS_MAX`].
pub(crate) fn perform_delete(
    task: &Task,
    collection: &Collection,
    taken: &Taken,
) -> Result<WriteReply, Problem> {
    let write = |ids: &[PointId]| {
        collection.delete_vectors(ids, &taken.names).map_err(|error| {
            let problem = errors::write(&error, &Written::Ids);
            if matches!(error, WriteError::Space(_)) { problem.at("/vector") } else { problem }
        })
    };
    let receipt = match &taken.chosen {
        Chosen::Ids(ids) => write(ids)?,
        Chosen::Filter(filter) => {
            let snapshot = collection.snapshot();
            let ids = ids_of(&snapshot, &snapshot.scope().until(task.deadline()?), filter)?;
            // The names are looked at though there may be no point.
            ids.chunks(BATCH_POINTS_MAX).try_fold(write(&[])?, |before, ids| {
                let receipt = write(ids)?;
                Ok::<_, Problem>(Receipt { replaced: before.replaced + receipt.replaced, ..receipt })
            })?
        }
    };
    Ok(WriteReply::upserted(&receipt))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vectors_are_read_with_and_without_names() {
        let named = |name: &str, vector: &[f32]| NamedVector {
            name: name.parse().expect("a good name"),
            vector: vector.to_vec().into(),
        };
        let read = |value| {
            given(value, Place::Body).map_err(|problem| problem.to_value()["errors"][0]["pointer"].clone())
        };
        assert_eq!(read(json!([1, 2])), Ok(Given { unnamed: vec![1.0, 2.0].into(), named: vec![] }));
        let both = json!({"image": [1], "text": [2, 3]});
        let wanted = vec![named("image", &[1.0]), named("text", &[2.0, 3.0])];
        assert_eq!(read(both), Ok(Given { unnamed: vec![].into(), named: wanted }));
        assert_eq!(read(json!({})), Ok(Given::default()));
        assert_eq!(read(json!({"": [4]})), Ok(Given { unnamed: vec![4.0].into(), named: vec![] }));
        assert_eq!(read(json!({"image": [1, "x"]})), Err(json!("/image/1")));
        assert_eq!(read(json!({"a b": [1]})), Err(json!("/a b")));
        assert_eq!(read(json!(7)), Err(json!("")));
    }

    #[test]
    fn lists_of_vectors_leave_out_what_is_null() {
        let lists = json!({"image": [[1], null], "text": [null, null]});
        let points = given_lists(lists, 2, Place::Body).unwrap_or_default();
        assert_eq!(points.iter().map(|point| point.named.len()).collect::<Vec<_>>(), [1, 0]);
        let short = given_lists(json!({"image": [[1]]}), 2, Place::Body).expect_err("one is missing");
        assert_eq!(short.to_value()["errors"][0]["pointer"], json!("/image"));
    }
}
