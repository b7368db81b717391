//! What is measured of collections, when it is asked for.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use dehub_index::{Collection, CollectionState, GalleryInfo, Name, Snapshot, WriterInfo};
use dehub_query::{Settings, plan};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::{Head, Sources, encode_all, encode_one};
use crate::live::Watched;

/// Measures collections.
pub(super) struct Served {
    sources: Sources,
    seen: Mutex<HashMap<(Name, Name), Version>>,
}

/// A version of a correction, and when it was first measured.
struct Version {
    /// The commit that made it, and where the collection is in memory: another one may get the same name.
    made: (u64, usize),
    since: Instant,
}

/// A number of a collection.
struct Measure {
    name: &'static str,
    help: &'static str,
    of: fn(&Measured) -> u64,
}

/// What the numbers of a collection come from.
struct Measured {
    name: Name,
    collection: Arc<Collection>,
    snapshot: Arc<Snapshot>,
    gallery: GalleryInfo,
    writer: WriterInfo,
    learned: Option<Arc<Watched>>,
}

/// The collection, and what else a number is of.
type TwoLabels<'a> = [(&'static str, &'a str); 2];

/// Numbers that may fall.
const GAUGES: [Measure; 11] = [
    Measure {
        name: "collection_points",
        help: "Points that can be found",
        of: |it| it.gallery.points as u64,
    },
    Measure {
        name: "collection_vectors",
        help: "Vectors that can be found",
        of: |it| it.gallery.points as u64,
    },
    Measure {
        name: "collection_sequence",
        help: "The number of the newest commit",
        of: |it| it.snapshot.sequence(),
    },
    Measure {
        name: "collection_writer_failed",
        help: "Whether writes are refused since a commit failed",
        of: |it| u64::from(it.writer.failure.is_some()),
    },
    Measure {
        name: "collection_writer_waiting",
        help: "Writes that are made or wait to become durable",
        of: |it| it.writer.waiting as u64,
    },
    Measure {
        name: "collection_bytes_on_disk",
        help: "Bytes of all files",
        of: |it| it.collection.bytes_on_disk(),
    },
    Measure {
        name: "collection_graph_nodes",
        help: "Nodes of the graph",
        of: |it| it.gallery.graph_nodes.unwrap_or(0) as u64,
    },
    Measure {
        name: "collection_graph_segments",
        help: "Parts of the graph",
        of: |it| it.gallery.segments as u64,
    },
    Measure {
        name: "collection_graph_delta",
        help: "Points outside the graph, if there is one, which searches scan",
        of: |it| it.gallery.delta as u64,
    },
    Measure {
        name: "collection_graph_dead",
        help: "Rows of the graph whose points are deleted",
        of: |it| it.gallery.dead as u64,
    },
    Measure {
        name: "collection_stale_corrections",
        help: "Corrections that have not taken in every entry of their banks",
        of: |it| it.snapshot.corrections().filter(|correction| correction.info().stale > 0).count() as u64,
    },
];

/// Numbers that grow until the collection is opened anew.
const COUNTERS: [Measure; 2] = [
    Measure {
        name: "collection_commits",
        help: "Commits since the collection was opened",
        of: |it| it.writer.commits,
    },
    Measure {
        name: "collection_syncs",
        help: "Syncs of the log since the collection was opened",
        of: |it| it.writer.syncs,
    },
];

const BANK_SIZE: Head = ("bank_size", "Entries of a bank", None);
const CORRECTION_AGE: Head = (
    "correction_age",
    "Time since this version of the correction was first measured here: since it was fitted or brought up to date, or \
     since the server started",
    Some(Unit::Seconds),
);
const SKEWNESS: Head = (
    "hubness_skewness",
    "Skewness of how often points are among the first ten of the answers served, by the correction or raw",
    None,
);
const GATES: Head =
    ("gate_decisions", "Answers by a correction with a gate, by whether the gate was open", None);
const GATE_OPEN_SHARE: Head = ("gate_open_share", "The share of them whose gate was open", None);
const RECALL: Head = (
    "ann_recall_estimate",
    "The share of the exact answer that a query without parameters finds, when last calibrated",
    None,
);

impl Served {
    pub(super) fn new(sources: Sources) -> Served {
        Served { sources, seen: Mutex::default() }
    }

    /// The ages of all corrections, in seconds.
    fn ages<'a>(&self, measured: &'a [Measured]) -> Vec<(TwoLabels<'a>, ConstGauge<f64>)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |(collection, correction): &(Name, Name)| {
            let found = measured.iter().find(|it| it.name == *collection);
            found.is_some_and(|it| it.snapshot.correction(correction.as_str()).is_some())
        };
        seen.retain(|names, _| is_there(names));
        let mut ages = Vec::new();
        for it in measured {
            for correction in it.snapshot.corrections() {
                let info = correction.info();
                let made = (info.sequence, Arc::as_ptr(&it.collection).addr());
                let new = || Version { made, since: Instant::now() };
                let version = seen.entry((it.name.clone(), info.name.clone())).or_insert_with(new);
                if version.made != made {
                    *version = new();
                }
                let age = ConstGauge::new(version.since.elapsed().as_secs_f64());
                ages.push((it.labels_with("correction", info.name.as_str()), age));
            }
        }
        ages
    }

    fn encode_whole(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.sources.catalogue.states().unwrap_or_default();
        let count =
            |is_it: fn(&CollectionState) -> bool| states.values().filter(|it| is_it(it)).count() as u64;
        let is_opening = |it: &CollectionState| {
            matches!(it, CollectionState::Closed | CollectionState::Opening { .. } | CollectionState::Closing)
        };
        let is_failed = |it: &CollectionState| matches!(it, CollectionState::Failed { .. });
        let gauges = [
            ("collections_total", "Collections, in whatever state", states.len() as u64),
            ("collections_opening", "Collections that do not serve yet", count(is_opening)),
            ("collections_failed", "Collections that do not open", count(is_failed)),
            (
                "engine_requests",
                "Requests that are with the engine or wait for one of its threads",
                self.sources.requests.taken() as u64,
            ),
        ];
        for (name, help, value) in gauges {
            encode_one(encoder, (name, help, None), ConstGauge::new(value))?;
        }
        let held = ConstGauge::new(self.sources.body_bytes.taken() as u64);
        encode_one(encoder, ("request_body", "Bodies that are held", Some(Unit::Bytes)), held)?;
        let slow = ConstCounter::new(self.sources.slow.count());
        encode_one(encoder, ("slow_queries", "Slow queries since the server started", None), slow)?;
        let jobs = self.sources.jobs.by_state();
        let jobs = jobs.into_iter().map(|(state, count)| ([("state", state)], ConstGauge::new(count)));
        encode_all(encoder, ("jobs", "Jobs that are remembered, by their state", None), jobs)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("folder", &self.sources.catalogue.folder()).finish_non_exhaustive()
    }
}

impl Collector for Served {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let open = self.sources.catalogue.open_ones();
        let measured: Vec<Measured> =
            open.into_iter().map(|open| Measured::new(&self.sources, open)).collect();
        for Measure { name, help, of } in &GAUGES {
            let all = measured.iter().map(|it| (it.labels(), ConstGauge::new(of(it))));
            encode_all(encoder, (name, help, None), all)?;
        }
        for Measure { name, help, of } in &COUNTERS {
            let all = measured.iter().map(|it| (it.labels(), ConstCounter::new(of(it))));
            encode_all(encoder, (name, help, None), all)?;
        }
        let banks = measured.iter().flat_map(|it| {
            it.snapshot.banks().map(|bank| {
                (it.labels_with("bank", bank.name.as_str()), ConstGauge::new(bank.entries as u64))
            })
        });
        encode_all(encoder, BANK_SIZE, banks)?;
        encode_all(encoder, CORRECTION_AGE, self.ages(&measured))?;
        let skewness: Vec<_> = measured.iter().map(Measured::skewness).collect();
        let skewness = measured.iter().zip(&skewness).flat_map(|(it, rankings)| {
            rankings.iter().map(|(name, value)| (it.labels_with("correction", name), ConstGauge::new(*value)))
        });
        encode_all(encoder, SKEWNESS, skewness)?;
        let gates = measured.iter().filter_map(|it| Some((it, it.learned.as_ref()?.gates())));
        let decisions = gates.clone().flat_map(|(it, [closed, open])| {
            [("closed", closed), ("open", open)]
                .map(|(gate, count)| (it.labels_with("gate", gate), ConstCounter::new(count)))
        });
        encode_all(encoder, GATES, decisions)?;
        let shares = gates.filter_map(|(it, counts)| Some((it.labels(), ConstGauge::new(share(counts)?))));
        encode_all(encoder, GATE_OPEN_SHARE, shares)?;
        let recalls = measured.iter().filter_map(|it| Some((it.labels(), ConstGauge::new(it.recall()?))));
        encode_all(encoder, RECALL, recalls)?;
        self.encode_whole(encoder)
    }
}

/// The share of the open ones, if there are any.
#[expect(clippy::cast_precision_loss, reason = "a share needs few digits")]
fn share([closed, open]: [u64; 2]) -> Option<f64> {
    (closed + open > 0).then(|| open as f64 / (closed + open) as f64)
}

impl Measured {
    fn new(sources: &Sources, (name, collection): (Name, Arc<Collection>)) -> Measured {
        let snapshot = collection.snapshot();
        Measured {
            learned: sources.live.known(&name, &collection),
            name,
            gallery: snapshot.gallery(),
            snapshot,
            writer: collection.writer(),
            collection,
        }
    }

    fn labels(&self) -> [(&'static str, &str); 1] {
        [("collection", self.name.as_str())]
    }

    fn labels_with<'a>(&'a self, name: &'static str, value: &'a str) -> TwoLabels<'a> {
        [("collection", self.name.as_str()), (name, value)]
    }

    /// By what ranked the answers, of the corrections that there still are.
    fn skewness(&self) -> Vec<(String, f64)> {
        let Some(learned) = &self.learned else { return Vec::new() };
        let mut rankings = learned.skewness(&self.snapshot);
        rankings.retain(|(name, _)| name == crate::live::RAW || self.snapshot.correction(name).is_some());
        rankings
    }

    /// What a query without parameters finds; none if the collection is empty or was not calibrated.
    fn recall(&self) -> Option<f64> {
        let plan = plan(&self.snapshot, &Settings::default(), 1).ok()?;
        if plan.is_exact() { Some(1.0) } else { plan.recall }
    }
}
