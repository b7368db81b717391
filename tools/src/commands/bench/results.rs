//! Result files as ann-benchmarks has them, one a setting.

use std::collections::HashMap;
use std::path::PathBuf;

use dehub_format::{AnnResult, write_ann_result};
use dehub_index::Snapshot;
use dehub_query::{Hit, Response};
use dehub_vector::{Metric, PointId};

use super::curves::{Build, Memory, Row};
use crate::cli::Bench;

/// What all files have in common.
pub(super) struct Results<'a> {
    folder: PathBuf,
    dataset: &'a str,
    count: usize,
    threads: u16,
    snapshot: &'a Snapshot,
    build_seconds: Option<f64>,
    index_bytes: usize,
}

impl<'a> Results<'a> {
    /// `None` if no files are asked for.
    pub(super) fn new(
        command: &'a Bench,
        snapshot: &'a Snapshot,
        build: Option<&Build>,
        memory: &Memory,
    ) -> Option<Results<'a>> {
        let curves = &command.curves;
        Some(Results {
            folder: curves.output.as_ref()?.join("results"),
            dataset: curves.dataset_name.as_deref().unwrap_or(&command.collection),
            count: command.k as usize,
            threads: curves.threads,
            snapshot,
            build_seconds: build.map(|build| build.seconds),
            index_bytes: memory.graph,
        })
    }

    /// Writes what came of a setting. Rankings by a correction have other true neighbours than the data set, so they
    /// are under a name of their own.
    #[expect(clippy::cast_precision_loss, reason = "sizes in kilobytes are far below 2^53")]
    pub(super) fn write(&self, row: &Row, truth: &[Response]) -> anyhow::Result<()> {
        let is_raw = row.ranking == "raw";
        let dataset =
            if is_raw { self.dataset.to_owned() } else { format!("{}-by-{}", self.dataset, row.ranking) };
        let algo =
            if self.threads == 1 { "dehub".to_owned() } else { format!("dehub-{}-threads", self.threads) };
        let numbering = Numbering::of(self.snapshot, truth.iter().chain(&row.timed.responses))?;
        let distance = |hit: &Hit| if is_raw { raw_distance(self.snapshot, hit) } else { -hit.score };
        let list = |response: &Response| -> Vec<(i32, f32)> {
            response.hits.iter().map(|hit| (numbering.of_row[&hit.row], distance(hit))).collect()
        };
        let path = self.folder.join(file_name(&dataset)).join(self.count.to_string()).join(&algo);
        let result = AnnResult {
            algo: &algo,
            name: &format!("{algo}({})", row.search),
            dataset: &dataset,
            distance: if is_raw { distance_name(self.snapshot) } else { "corrected" },
            count: self.count,
            build_time: self.build_seconds,
            index_size: self.index_bytes as f64 / 1024.0,
            best_search_time: 1.0 / row.timed.best_speed(),
            run_count: row.timed.speeds.len(),
            texts: vec![
                ("ranking", row.ranking.clone()),
                ("plan", row.plan.clone()),
                ("neighbors_are", numbering.kind.to_owned()),
            ],
            numbers: vec![("recall", row.recall), ("threads", f64::from(self.threads))],
            times: row.timed.seconds.clone(),
            found: row.timed.responses.iter().map(list).collect(),
            truth: truth.iter().map(list).collect(),
        };
        Ok(write_ann_result(&path.join(file_name(&row.search) + ".hdf5"), &result)?)
    }
}

/// A text as a file may be called.
fn file_name(text: &str) -> String {
    text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c), "_")
}

/// The distance's name in ann-benchmarks, which has none for inner products.
fn distance_name(snapshot: &Snapshot) -> &'static str {
    match snapshot.config().metric {
        Metric::Cosine => "angular",
        Metric::Euclidean => "euclidean",
        Metric::Dot => "dot",
    }
}

/// How far a hit is by the distance that ann-benchmarks would compute.
fn raw_distance(snapshot: &Snapshot, hit: &Hit) -> f32 {
    match snapshot.config().metric {
        Metric::Cosine => 1.0 - hit.raw_score,
        Metric::Euclidean => (-2.0 * hit.raw_score).max(0.0).sqrt(),
        Metric::Dot => -hit.raw_score,
    }
}

/// The numbers that stand for points in files of results.
struct Numbering {
    kind: &'static str,
    of_row: HashMap<u32, i32>,
}

impl Numbering {
    /// The ids of points, which are rows of the file they came from if that had none; their rows in the collection
    /// unless all ids are numbers of 31 bits.
    fn of<'r>(
        snapshot: &Snapshot,
        responses: impl Iterator<Item = &'r Response>,
    ) -> anyhow::Result<Numbering> {
        let mut rows: Vec<u32> =
            responses.flat_map(|response| response.hits.iter().map(|hit| hit.row)).collect();
        rows.sort_unstable();
        rows.dedup();
        let number = |id: &PointId| match id {
            PointId::Number(number) => i32::try_from(*number).ok(),
            PointId::Text(_) => None,
        };
        let points = snapshot.points(&rows)?;
        let ids: Option<Vec<i32>> = points.iter().map(|point| number(&point.id)).collect();
        let kind = if ids.is_some() { "ids" } else { "rows" };
        let own = || rows.iter().map(|&row| i32::try_from(row)).collect();
        let numbers = ids.map_or_else(own, Ok)?;
        Ok(Numbering { kind, of_row: rows.into_iter().zip(numbers).collect() })
    }
}
