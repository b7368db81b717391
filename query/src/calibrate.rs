//! Measures a collection's ways of searching against its exact answers, and chooses among them.

use std::collections::HashSet;
use std::time::Instant;

use dehub_index::{
    Calibrated, Calibration, CalibrationSubject, Collection, Cost, Name, Snapshot, Step, cost_among, machine,
};

use crate::query::{Query, Ranking, Search, Settings, Source};
use crate::{QueryError, Response, run};

/// Queries that are asked: the error of a recall of .99 is then about .002.
const QUERIES: usize = 256;

/// Points that each is asked for.
const LIMIT: usize = 10;

/// Efforts of walks, and candidates of scans of codes. None is tried after one that finds [`ENOUGH`].
const SETTINGS: [usize; 9] = [16, 32, 48, 64, 96, 128, 192, 320, 512];

/// A recall that no more is asked of.
const ENOUGH: f64 = 0.9995;

/// Queries asked together, where that matters.
const TOGETHER: [usize; 3] = [1, 16, QUERIES];

/// Calls for one query that are timed.
const ALONE: usize = 24;
