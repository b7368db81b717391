//! Points as they are written and read.

use dehub_vector::{Numbers, PointId};

use crate::{Name, Payload, PointAlarm};

/// Points in one write. A batch's rows are validated, committed and acknowledged together.
pub const BATCH_POINTS_MAX: usize = 16_384;

/// The longest text of a point, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A point as it is given: its vector is not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct PointInput {
    /// Its id. A point with this id that exists already is replaced.
    pub id: PointId,
    /// Its vector's coordinates, or those of its several vectors; none in a collection with named vectors.
    pub vector: Numbers,
    /// Its vectors in a collection with named ones: some, all or none of them.
    pub named: Vec<NamedVector>,
    /// Its payload.
    pub payload: Option<Payload>,
    /// Its text.
    pub text: Option<String>,
}

/// The coordinates of a vector of a name; not checked yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedVector {
    /// The name, which is one of the collection's.
    pub name: Name,
    /// The coordinates, or those of several vectors.
    pub vector: Numbers,
}

impl PointInput {
    /// A point with one vector, or with none for a collection with named vectors, and nothing else.
    pub fn new(id: impl Into<PointId>, vector: impl Into<Numbers>) -> PointInput {
        PointInput { id: id.into(), vector: vector.into(), named: Vec::new(), payload: None, text: None }
    }
}

/// Vectors of a point that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorsInput {
    /// Its id.
    pub id: PointId,
    /// As of [`PointInput::vector`].
    pub vector: Numbers,
    /// As of [`PointInput::named`]. Those that are not among them stay.
    pub named: Vec<NamedVector>,
}

/// A point as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its id.
    pub id: PointId,
    /// Its payload.
    pub payload: Option<Payload>,
    /// Its text.
    pub text: Option<String>,
}

/// What a write did. It is on disk, and every snapshot taken from now on sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// The number of the commit; commits of a collection are numbered from 1.
    pub sequence: u64,
    /// Points or entries that are new.
    pub added: usize,
    /// Points that replaced one of the same id.
    pub replaced: usize,
    /// Points or entries that were removed.
    pub deleted: usize,
}

/// What an upsert did, and which of its points look like hubs.
#[derive(Debug, Clone, PartialEq)]
pub struct Upserted {
    /// What became of the gallery. `deleted` counts points whose new version is held.
    pub receipt: Receipt,
    /// The points that are hubs by the rule that was asked for, by rising `p`.
    pub alarms: Vec<PointAlarm>,
    /// The points that are in quarantine, by rising `p`.
    pub held: Vec<PointAlarm>,
}
