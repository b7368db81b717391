//! How near the points of a sample are to each other.

use std::sync::Arc;

use dehub_index::{Scope, Snapshot};
use dehub_vector::PointId;

use super::execute::{Fault, RequestError, scope_in, space};
use super::listing::sample;
use super::{Found, serve};
use crate::QueryError;
use crate::execute::run_unlimited;
use crate::query::{Query, Settings, Source};

/// A point of a sample, and the nearest of the others.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixRow {
    /// The point's id.
    pub id: PointId,
    /// Its row in the snapshot.
    pub row: u32,
    /// The others, best first.
    pub nearest: Vec<Found>,
}

/// Draws `count` of the points that the settings' filter allows, and finds for each the nearest of the others drawn,
/// in the order of ids. None if fewer than two are there.
///
/// # Errors
/// As for [`super::answer`].
pub fn matrix(
    base: &Arc<Snapshot>,
    scope: &Scope,
    using: Option<&str>,
    settings: &Settings,
    (count, seed): (usize, u64),
) -> Result<Vec<MatrixRow>, RequestError> {
    nearest(base, scope, using, settings, (count, seed)).map_err(|fault| fault.of(0))
}

fn nearest(
    base: &Arc<Snapshot>,
    scope: &Scope,
    using: Option<&str>,
    settings: &Settings,
    (count, seed): (usize, u64),
) -> Result<Vec<MatrixRow>, Fault> {
    let space = &space(base, using)?;
    settings.check(space)?;
    let scope = scope_in(base, space, &settings.scope(base, scope)?);
    let rows = sample(scope.rows().collect(), seed, count);
    if rows.len() < 2 {
        return Ok(Vec::new());
    }
    let mut drawn: Vec<(PointId, u32)> =
        base.points(&rows)?.into_iter().map(|point| point.id).zip(rows.iter().copied()).collect();
    drawn.sort_unstable();
    let settings = Settings { filter: None, ..settings.clone() };
    let query =
        |(id, _): &(PointId, u32)| Query { source: Source::Point(id.clone()), settings: settings.clone() };
    let queries: Vec<Query> = drawn.iter().map(query).collect();
    let responses = run_unlimited(space, &scope.only(rows), &queries)?;
    let rows = drawn.into_iter().zip(&queries).zip(&responses);
    let row = |(((id, row), query), response)| {
        Ok::<_, QueryError>(MatrixRow { id, row, nearest: serve(space, query, response)? })
    };
    Ok(rows.map(row).collect::<Result<_, _>>()?)
}
