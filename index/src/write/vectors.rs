//! The vectors of points: checked, kept in every space, and changed without the rest of a point.

use std::collections::{BTreeMap, HashMap};

use dehub_vector::{CHUNK_ROWS, Numbers, PointId, Vector};

use super::Draft;
use crate::point::TEXT_BYTES_MAX;
use crate::record::{POINTS, VECTORS, damaged, point_bytes, row_key, vector_bytes};
use crate::spaces::{Role, list};
use crate::{
    BATCH_POINTS_MAX, Name, NamedVector, PointInput, Receipt, UnknownSpace, VectorsInput, WriteError,
};

/// Row numbers are kept below this, so that the last ones can mark the end of a range.
const ROWS_MAX: usize = u32::MAX as usize - 1;

/// A point that was checked.
pub(super) struct Incoming {
    pub(super) id: PointId,
    /// As it is stored.
    pub(super) record: Vec<u8>,
    pub(super) vectors: Vectors,
}

/// The vectors of a point: one, or some of the named ones.
#[derive(Default)]
pub(super) struct Vectors {
    pub(super) unnamed: Option<Vector>,
    pub(super) named: BTreeMap<Name, Vector>,
}

/// Where in a batch a point is that vectors are of.
#[derive(Clone, Copy)]
struct Owner<'a> {
    place: usize,
    id: &'a PointId,
}

impl Draft<'_> {
    pub(super) fn check(&self, points: &[PointInput]) -> Result<Vec<Incoming>, WriteError> {
        self.check_len(points.len())?;
        let mut places = HashMap::new();
        let mut checked = Vec::with_capacity(points.len());
        for (place, point) in points.iter().enumerate() {
            let id = &point.id;
            check_once(&mut places, place, id)?;
            if let Some(found) = point.text.as_ref().map(String::len).filter(|&found| found > TEXT_BYTES_MAX)
            {
                return Err(WriteError::TextTooLong { place, id: id.clone(), found });
            }
            let vectors = self.vectors(Owner { place, id }, &point.vector, &point.named)?;
            let record = point_bytes(id, point.text.as_deref(), point.payload.as_ref());
            checked.push(Incoming { id: id.clone(), record, vectors });
        }
        Ok(checked)
    }

    fn check_len(&self, points: usize) -> Result<(), WriteError> {
        if points > BATCH_POINTS_MAX {
            return Err(WriteError::BatchTooLarge { found: points });
        }
        if self.next.vectors.len() + points > ROWS_MAX {
            return Err(WriteError::TooManyPoints { found: self.next.vectors.len() });
        }
        Ok(())
    }

    fn vectors(
        &self,
        owner: Owner<'_>,
        unnamed: &Numbers,
        named: &[NamedVector],
    ) -> Result<Vectors, WriteError> {
        let Owner { place, id } = owner;
        let refused = |name: Option<&Name>, reason: String| {
            let found = match self.next.role {
                Role::Points => list(self.spaces.keys()),
                Role::Unnamed | Role::Space(..) => "one vector, without a name".to_owned(),
            };
            WriteError::VectorName { place, id: id.clone(), name: name.cloned(), reason, found }
        };
        let unknown = |name: &Name| refused(Some(name), format!("there is no vector `{name}`"));
        let mut vectors = Vectors::default();
        if self.next.role == Role::Points {
            if !unnamed.is_empty() {
                return Err(refused(None, "it has a vector without a name".to_owned()));
            }
        } else {
            if let Some(first) = named.first() {
                return Err(unknown(&first.name));
            }
            let config = &self.next.config;
            let vector = config.vector(unnamed);
            let wrap = |source| WriteError::Vector { item: "point", place, id: Some(id.clone()), source };
            vectors.unnamed = Some(vector.map_err(wrap)?);
        }
        for NamedVector { name, vector } in named {
            let config = self.spaces.get(name).map(|space| space.config).ok_or_else(|| unknown(name))?;
            let wrap = |source| WriteError::NamedVector { place, id: id.clone(), name: name.clone(), source };
            let vector = config.vector(vector).map_err(wrap)?;
            if vectors.named.insert(name.clone(), vector).is_some() {
                return Err(refused(Some(name), format!("vector `{name}` is given twice")));
            }
        }
        Ok(vectors)
    }

    /// Gives points that are there some vectors anew; all else of them stays.
    pub(crate) fn update_vectors(&mut self, inputs: &[VectorsInput]) -> Result<Receipt, WriteError> {
        self.check_len(inputs.len())?;
        let mut places = HashMap::new();
        let mut changed = Vec::with_capacity(inputs.len());
        for (place, VectorsInput { id, vector, named }) in inputs.iter().enumerate() {
            check_once(&mut places, place, id)?;
            let new = self.vectors(Owner { place, id }, vector, named)?;
            let stored = self.stored(id)?;
            let mut point = stored.ok_or_else(|| WriteError::UnknownPoint { place, id: id.clone() })?;
            if new.unnamed.is_none() && new.named.is_empty() {
                continue;
            }
            point.vectors.unnamed = new.unnamed;
            point.vectors.named.extend(new.named);
            changed.push(point);
        }
        self.put_points(&changed)
    }

    /// Takes vectors of these names from points; an id that does not exist is no error. `replaced` of the receipt is
    /// how many points had one.
    pub(crate) fn delete_vectors(&mut self, ids: &[PointId], names: &[Name]) -> Result<Receipt, WriteError> {
        self.check_len(ids.len())?;
        if let Some(name) = names.iter().find(|name| !self.spaces.contains_key(*name)) {
            let (asked, found) = (Some(name.to_string()), self.spaces.keys().cloned().collect());
            return Err(UnknownSpace { asked, found }.into());
        }
        let mut places = HashMap::new();
        let mut changed = Vec::new();
        for (place, id) in ids.iter().enumerate() {
            if places.insert(id, place).is_some() {
                continue;
            }
            let Some(mut point) = self.stored(id)? else { continue };
            let before = point.vectors.named.len();
            point.vectors.named.retain(|name, _| !names.contains(name));
            if point.vectors.named.len() < before {
                changed.push(point);
            }
        }
        self.put_points(&changed)
    }

    /// A point as it is.
    fn stored(&self, id: &PointId) -> Result<Option<Incoming>, WriteError> {
        let Some(row) = self.row(id)? else { return Ok(None) };
        let record = self.store.whole().get(POINTS, &row_key(row))?;
        let record = record.ok_or_else(|| damaged(POINTS, format!("row {row} has no record")))?;
        let vector = |state: &crate::state::State| {
            let is_there = state.role != Role::Points && state.live.contains(row);
            is_there.then(|| Vector::stored(state.vectors.row(row as usize)))
        };
        let named = self.spaces.iter().filter_map(|(name, space)| Some((name.clone(), vector(space)?)));
        let vectors = Vectors { unnamed: vector(&self.next), named: named.collect() };
        Ok(Some(Incoming { id: id.clone(), record, vectors }))
    }

    /// Gives points the rows from `first` on in every named space.
    pub(super) fn put_named(
        &mut self,
        points: &[Incoming],
        first: u32,
        gone: &[u32],
    ) -> Result<(), WriteError> {
        let names: Vec<Name> = self.spaces.keys().cloned().collect();
        for name in names {
            self.in_space(&name, |space| {
                for (row, point) in (first..).zip(points) {
                    match point.vectors.named.get(&name) {
                        Some(vector) => {
                            space.next.push_row(vector);
                            space.next.live.insert(row);
                            space.visible.put(VECTORS, &row_key(row), &vector_bytes(vector.as_slice()));
                        }
                        None => space.next.push_gone(1),
                    }
                }
                let ids: Vec<&PointId> = points.iter().map(|point| &point.id).collect();
                let gone = space.live_among(gone);
                space.forget(&gone);
                space.fit_rows(first, &ids)?;
                space.repair_gates(&gone)?;
                let chunks = first as usize / CHUNK_ROWS..space.next.vectors.len() / CHUNK_ROWS;
                space.next.clear_dead_chunks(chunks);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Takes the vectors of rows out of every named space.
    pub(super) fn forget_named(&mut self, gone: &[u32]) -> Result<(), WriteError> {
        let has_some = |(name, space): (&Name, &std::sync::Arc<crate::state::State>)| {
            gone.iter().any(|&row| space.live.contains(row)).then(|| name.clone())
        };
        let names: Vec<Name> = self.spaces.iter().filter_map(has_some).collect();
        for name in names {
            self.in_space(&name, |space| {
                let gone = space.live_among(gone);
                space.forget(&gone);
                space.repair_gates(&gone)
            })?;
        }
        Ok(())
    }

    fn live_among(&self, rows: &[u32]) -> Vec<u32> {
        rows.iter().copied().filter(|&row| self.next.live.contains(row)).collect()
    }
}

fn check_once<'a>(
    places: &mut HashMap<&'a PointId, usize>,
    place: usize,
    id: &'a PointId,
) -> Result<(), WriteError> {
    match places.insert(id, place) {
        Some(first) => Err(WriteError::DuplicateId { item: "point", place, first, id: id.clone() }),
        None => Ok(()),
    }
}
