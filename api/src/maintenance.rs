//! Work on a whole collection, as jobs: the graph built, everything verified, the disk given back.

use actix_web::HttpResponse;
use dehub_index::{
    Check, CheckKind, Collection, CompactionError, DiskUse, FitProgress, GalleryInfo, GraphBuild, Name,
    Snapshot, VerifyReport,
};
use dehub_query::calibrate_if_due;
use serde::Serialize;
use serde_json::Value;

use crate::call::{Answer, Call, Task};
use crate::decode::{self, Fields, Place};
use crate::edge::Edge;
use crate::errors::{self, INTERNAL, Written};
use crate::jobs::{Kind, Purpose, Unfinished};
use crate::problem::Problem;

/// The answer to a request that began a job.
#[derive(Serialize)]
struct Begun {
    job: u64,
}

/// The result of a job that built a graph.
#[derive(Serialize)]
struct Built {
    /// Whether anything was frozen: it is false where all was, or there are too few points.
    frozen: bool,
    /// Whether searches were calibrated anew.
    calibrated: bool,
    graph: GraphReply,
    sequence: u64,
}

/// The graph in numbers.
#[derive(Serialize)]
struct GraphReply {
    points: usize,
    /// `null` without a graph, whose points are all scanned.
    nodes: Option<usize>,
    segments: usize,
    /// Points in no segment, which every walk scans.
    delta: usize,
    /// Deleted rows that are still roads.
    dead: usize,
}

impl GraphReply {
    fn new(snapshot: &Snapshot) -> GraphReply {
        let GalleryInfo { points, graph_nodes, segments, delta, dead } = snapshot.gallery();
        GraphReply { points, nodes: graph_nodes, segments, delta, dead }
    }
}

/// The result of a job that verified a collection.
#[derive(Serialize)]
struct Verified {
    /// Whether there is no difference.
    whole: bool,
    report: ReportReply,
    /// What was derived again, and what was found after.
    rebuilt: Option<RebuiltReply>,
}

#[derive(Serialize)]
struct RebuiltReply {
    set_aside: Vec<String>,
    refitted_banks: Vec<String>,
    orphans_dropped: u64,
    after: ReportReply,
}

#[derive(Serialize)]
struct ReportReply {
    sequence: u64,
    differences: u64,
    checks: Vec<CheckReply>,
    /// Records that interrupted writes left; they are no difference.
    orphans: u64,
    set_aside: Vec<String>,
    calibration_due: bool,
}

#[derive(Serialize)]
struct CheckReply {
    check: &'static str,
    checked: u64,
    differences: u64,
    first: Vec<DifferenceReply>,
}

#[derive(Serialize)]
struct DifferenceReply {
    family: &'static str,
    place: String,
    wanted: String,
    found: String,
}

impl ReportReply {
    fn new(report: &VerifyReport) -> ReportReply {
        let check = |check: &Check| CheckReply {
            check: check.kind.name(),
            checked: check.checked,
            differences: check.differences,
            first: check.first.iter().cloned().map(DifferenceReply::new).collect(),
        };
        ReportReply {
            sequence: report.sequence,
            differences: report.differences(),
            checks: report.checks.iter().map(check).collect(),
            orphans: report.orphans.records,
            set_aside: report.set_aside.clone(),
            calibration_due: report.is_calibration_due,
        }
    }
}

impl DifferenceReply {
    fn new(it: dehub_index::Difference) -> DifferenceReply {
        DifferenceReply { family: it.family, place: it.place, wanted: it.wanted, found: it.found }
    }
}

/// The result of a job that gave back disk.
#[derive(Serialize)]
struct CompactedReply {
    bytes_before: BytesReply,
    bytes_after: BytesReply,
    segments_frozen: usize,
    orphans_dropped: u64,
}

#[derive(Serialize)]
struct BytesReply {
    store: u64,
    graph: u64,
    set_aside: u64,
    total: u64,
}

impl BytesReply {
    fn new(bytes: &DiskUse) -> BytesReply {
        let DiskUse { store, graph, set_aside } = *bytes;
        BytesReply { store, graph, set_aside, total: bytes.total() }
    }
}

/// `POST /collections/{collection}/build`: freezes the points that are in no segment if that is due, or with
/// `{"whole": true}` all points to one segment, and calibrates searches; of all vectors, or of the one that
/// `using` names.
pub(crate) async fn build(call: Call) -> HttpResponse {
    call.answer_optional_body(&["using"], |task, body| {
        let whole = only_flag(body, "whole")?;
        let edge = task.shared_edge();
        let name = task.name("collection")?;
        begin(&task, Kind::Build, move |collection, progress| {
            build_job(&edge, &name, collection, progress, whole)
        })
    })
    .await
}

fn build_job(
    edge: &Edge,
    name: &Name,
    collection: &Collection,
    progress: &FitProgress,
    whole: bool,
) -> Result<Value, Unfinished> {
    // Only one at a time builds.
    let claim = edge.claim_builds(name, || progress.is_stopped()).ok_or(Unfinished::Stopped)?;
    let steps = 2;
    progress.set(0, steps);
    let refused = |error| Unfinished::Refused(errors::write(&error, &Written::Path));
    let mut frozen = false;
    if whole {
        frozen = matches!(collection.freeze().map_err(refused)?, GraphBuild::Built { .. });
    }
    while !frozen || collection.is_graph_due() {
        check(progress)?;
        match collection.build_graph_if_due().map_err(refused)? {
            GraphBuild::Built { .. } => frozen = true,
            GraphBuild::NotDue => break,
        }
    }
    progress.set(1, steps);
    check(progress)?;
    let calibrated = calibrate_if_due(collection).map_err(|error| {
        Unfinished::Refused(Problem::new(INTERNAL, format!("searches were not calibrated: {error}")))
    })?;
    drop(claim);
    progress.set(steps, steps);
    let snapshot = collection.snapshot();
    to_value(&Built { frozen, calibrated, graph: GraphReply::new(&snapshot), sequence: snapshot.sequence() })
}

/// `POST /collections/{collection}/verify`: derives everything again and compares; with `{"rebuild": true}` puts in
/// place what differs and is derived.
pub(crate) async fn verify(call: Call) -> HttpResponse {
    call.answer_optional_body(&[], |task, body| {
        let rebuild = only_flag(body, "rebuild")?;
        begin(&task, Kind::Verify, move |collection, progress| verify_job(collection, progress, rebuild))
    })
    .await
}

fn verify_job(collection: &Collection, progress: &FitProgress, rebuild: bool) -> Result<Value, Unfinished> {
    let checks = CheckKind::ALL.len() as u64;
    let look = |offset: u64, total: u64| {
        let mut done = offset;
        let report = collection.verify(&mut |_| {
            progress.set(done, total);
            done += 1;
        });
        check(progress).map(|()| report)
    };
    let report = look(0, checks)?;
    let has_work = !report.is_whole() || report.orphans.records > 0;
    let mut rebuilt = None;
    if rebuild && has_work {
        let done = collection.rebuild(&report);
        let done = done.map_err(|error| Unfinished::Refused(errors::write(&error, &Written::Path)))?;
        rebuilt = Some((done, look(checks, 2 * checks)?));
    }
    let whole = rebuilt.as_ref().map_or(report.is_whole(), |(_, after)| after.is_whole());
    let rebuilt = rebuilt.map(|(done, after)| RebuiltReply {
        set_aside: done.set_aside,
        refitted_banks: done.refitted.iter().map(Name::to_string).collect(),
        orphans_dropped: done.orphans.records,
        after: ReportReply::new(&after),
    });
    to_value(&Verified { whole, report: ReportReply::new(&report), rebuilt })
}

/// `POST /collections/{collection}/compact`: gives back what deleted and replaced data takes on disk.
pub(crate) async fn compact(call: Call) -> HttpResponse {
    call.answer_optional_body(&[], |task, body| {
        Fields::new(body, Place::Body)?.finish()?;
        begin(&task, Kind::Compact, |collection, progress| {
            check(progress)?;
            let compacted = collection.compact().map_err(|error| Unfinished::Refused(refused(&error)))?;
            to_value(&CompactedReply {
                bytes_before: BytesReply::new(&compacted.before),
                bytes_after: BytesReply::new(&compacted.after),
                segments_frozen: compacted.frozen,
                orphans_dropped: compacted.orphans.records,
            })
        })
    })
    .await
}

fn refused(error: &CompactionError) -> Problem {
    if let CompactionError::Write(error) = error {
        return errors::write(error, &Written::Path);
    }
    errors::by_blame(error.blame(), error.to_string())
}

fn begin(
    task: &Task,
    kind: Kind,
    work: impl FnOnce(&Collection, &FitProgress) -> Result<Value, Unfinished> + Send + 'static,
) -> Result<Answer, Problem> {
    let collection = match task.parameters.text("using") {
        None => task.collection()?,
        Some(_) => task.space()?,
    };
    let space = collection.space_name().cloned();
    let purpose = Purpose { space, ..Purpose::of_whole(kind, task.name("collection")?) };
    let job = task.edge().start(purpose, &collection, work)?;
    Ok(Answer::accepted(task.reply(&Begun { job })?))
}

fn only_flag(body: Value, name: &'static str) -> Result<bool, Problem> {
    let mut fields = Fields::new(body, Place::Body)?;
    let flag = fields.optional(name, decode::flag)?.unwrap_or(false);
    fields.finish()?;
    Ok(flag)
}

/// Ends a job that was asked to end.
pub(crate) fn check(progress: &FitProgress) -> Result<(), Unfinished> {
    if progress.is_stopped() { Err(Unfinished::Stopped) } else { Ok(()) }
}

/// The result of a job.
pub(crate) fn to_value<T: Serialize>(result: &T) -> Result<Value, Unfinished> {
    let refused = |error| Problem::new(INTERNAL, format!("the result has no JSON form: {error}"));
    serde_json::to_value(result).map_err(|error| Unfinished::Refused(refused(error)))
}
