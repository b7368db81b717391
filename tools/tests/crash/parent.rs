//! Starts the child, kills it, and compares what it left with what it said.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use dehub_api::restore_from;
use dehub_backup::Repository;
use dehub_index::{
    Catalogue, Collection, CollectionConfig, FailPoint, GraphConfig, Name, TEXT_FIELD, TextField, TextQuery,
};
use dehub_vector::Metric;
use tempfile::TempDir;

use crate::CHILD;
use crate::expected::Contents;
use crate::journal;
use crate::operation::{DIM, Numbers, Operation, Stream};

/// How long the child may take to open everything.
const START_MAX: Duration = Duration::from_secs(120);
/// How long the child may take to reach a point; one that it does not reach is killed where it is.
const POINT_MAX: Duration = Duration::from_secs(120);
/// The longest time that a child runs which is killed at a random moment.
const RUN_MS_MAX: u64 = 250;
/// After so many kills the collection is compacted, opened again and counted.
const COMPACT_EVERY: usize = 6;
/// After so many the newest backup is restored.
const RESTORE_EVERY: usize = 5;

/// When to kill.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kill {
    /// So long after everything runs.
    After(Duration),
    /// So long after the process was started, which still opens then.
    Opening(Duration),
    /// When the point is reached for the n-th time.
    At(FailPoint, u32),
}

impl Kill {
    pub(crate) fn at_random(seed: u64) -> impl Iterator<Item = Kill> {
        let mut numbers = Numbers::new(&[seed, 7]);
        // Short lives are as likely as long ones, and what happens right after the opening counts too.
        std::iter::repeat_with(move || {
            let most = 1 + numbers.below(RUN_MS_MAX);
            let time = Duration::from_millis(numbers.below(most));
            if numbers.below(6) == 0 { Kill::Opening(time / 2) } else { Kill::After(time) }
        })
    }
}

/// What the parent knows.
pub(crate) struct Parent {
    test: String,
    seed: u64,
    folder: TempDir,
    kills: usize,
    /// Of each stream: how many operations are done for certain, and what they made.
    streams: BTreeMap<Stream, (u64, Contents)>,
    missed: Vec<String>,
}

pub(crate) fn main_collection() -> Name {
    "main".parse().expect("a good name")
}

pub(crate) fn other_collection() -> Name {
    "other".parse().expect("a good name")
}

/// With a graph from the first point on. Under the inner product vectors stay as they were given.
pub(crate) fn config() -> CollectionConfig {
    let graph = GraphConfig { full_scan_threshold: 0, m: 4, ef_construction: 20, ..GraphConfig::default() };
    CollectionConfig::new(DIM, Metric::Dot, graph).expect("a good configuration")
}

/// The first operation of each stream that the child has to do.
pub(crate) fn read_starts(folder: &Path) -> BTreeMap<Stream, u64> {
    let text = fs::read_to_string(folder.join("starts")).expect("the parent wrote it");
    Stream::all().zip(text.lines().map(|line| line.parse().expect("a number"))).collect()
}

impl Parent {
    pub(crate) fn new(test: &str, seed: u64) -> Parent {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut parent = Parent {
            test: test.to_owned(),
            seed,
            folder,
            kills: 0,
            streams: BTreeMap::new(),
            missed: Vec::new(),
        };
        let catalogue = parent.catalogue();
        let collection = catalogue.create(&main_collection(), config()).expect("a new collection");
        let texts = [(TEXT_FIELD.to_owned(), TextField::default())];
        collection.set_text_fields(&texts.into()).expect("a good field");
        for stream in Stream::all() {
            let mut contents = Contents::default();
            // Fits need points and a bank.
            let first = u64::from(stream != Stream::Fits);
            for number in 0..first {
                let operation = Operation::new(seed, stream, number);
                operation.apply(&collection);
                contents.apply(&operation);
            }
            parent.streams.insert(stream, (first, contents));
        }
        parent
    }

    pub(crate) fn kill_and_check(&mut self, kill: Kill) {
        self.kills += 1;
        self.live_and_die(kill);
        let catalogue = self.catalogue();
        let collection =
            catalogue.get(&main_collection()).unwrap_or_else(|error| panic!("{kill:?}: {error}"));
        self.compare(&collection, kill);
        verify(&collection, kill);
        if self.kills.is_multiple_of(COMPACT_EVERY) {
            self.compact_and_recount(collection, &catalogue, kill);
        } else {
            drop(collection);
        }
        if catalogue.names().expect("readable").contains(&other_collection()) {
            let other =
                catalogue.get(&other_collection()).unwrap_or_else(|error| panic!("{kill:?}: {error}"));
            verify(&other, kill);
        }
        self.check_backups(&catalogue, kill);
    }

    /// Every point was reached, or all kills were at random.
    pub(crate) fn end(self) {
        assert!(self.missed.is_empty(), "these points were not reached: {:?}", self.missed);
        let done: Vec<u64> = self.streams.values().map(|(done, _)| *done).collect();
        assert!(done.iter().all(|&done| done > 10), "the streams did {done:?} operations");
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(Catalogue::new(&self.path("data")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a child and kills it.
    fn live_and_die(&mut self, kill: Kill) {
        let starts: String = self.streams.values().map(|(done, _)| format!("{done}\n")).collect();
        fs::write(self.path("starts"), starts).expect("writable");
        let mut command = Command::new(env::current_exe().expect("this test's program"));
        command.args([self.test.as_str(), "--exact", "--nocapture"]).env(CHILD, self.folder.path());
        if let Kill::At(point, nth) = kill {
            command.env("DEHUB_FAIL_POINT", format!("{}:{nth}", point.name()));
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a child");
        let lines = lines_of(&mut child);
        match kill {
            Kill::After(time) => {
                wait_for(&lines, "started", START_MAX);
                thread::sleep(time);
            }
            Kill::Opening(time) => thread::sleep(time),
            Kill::At(point, _) => {
                // It may be reached while the child opens.
                if !wait_for(&lines, &format!("reached {}", point.name()), POINT_MAX) {
                    self.missed.push(format!("{kill:?}"));
                }
            }
        }
        child.kill().expect("it runs");
        let status = child.wait().expect("it is ours");
        assert!(status.code().is_none(), "{kill:?}: the child ended by itself: {status}");
    }

    /// What is there is what every stream acknowledged, and of what it had begun all or nothing.
    fn compare(&mut self, collection: &Collection, kill: Kill) {
        let found = Contents::of(&collection.snapshot());
        let mut candidates = vec![(Contents::default(), Vec::new())];
        for (&stream, (done, contents)) in &self.streams {
            let reached = journal::take(self.folder.path(), stream, *done);
            let mut contents = contents.clone();
            for number in *done..reached.acknowledged {
                contents.apply(&Operation::new(self.seed, stream, number));
            }
            let mut choices = vec![(reached.acknowledged, contents.clone())];
            if reached.begun > reached.acknowledged {
                contents.apply(&Operation::new(self.seed, stream, reached.acknowledged));
                choices.push((reached.begun, contents));
            }
            candidates = extend(&candidates, stream, &choices);
        }
        let matching = candidates.iter().find(|(joined, _)| *joined == found);
        let Some((_, streams)) = matching else {
            let differences: Vec<String> =
                candidates.iter().map(|(joined, _)| joined.difference(&found)).collect();
            panic!("{kill:?} left what no stream made:\n{}", differences.join("\n"));
        };
        self.streams = streams.iter().cloned().collect();
    }

    fn compact_and_recount(&self, collection: Arc<Collection>, catalogue: &Catalogue, kill: Kill) {
        let before = Contents::of(&collection.snapshot());
        collection.compact().unwrap_or_else(|error| panic!("{kill:?}: {error}"));
        drop(collection);
        catalogue.with_closed(&main_collection(), |_| ()).expect("nobody has it");
        let collection =
            catalogue.get(&main_collection()).unwrap_or_else(|error| panic!("{kill:?}: {error}"));
        assert!(
            Contents::of(&collection.snapshot()) == before,
            "{kill:?}: a compaction changed the contents"
        );
        verify(&collection, kill);
    }

    /// Every backup that is listed is whole; now and then the newest is restored and verified.
    fn check_backups(&self, catalogue: &Catalogue, kill: Kill) {
        let repository = Repository::in_directory(&self.path("backups"));
        let main = main_collection();
        let listing = repository.list(main.as_str()).expect("the repository is readable");
        assert!(listing.damaged.is_empty(), "{kill:?}: {:?}", listing.damaged);
        let Some(newest) = listing.backups.last() else { return };
        let checked = repository
            .check(main.as_str(), Some(&newest.id), &mut |_| ControlFlow::Continue(()))
            .expect("a backup that is listed is there");
        assert!(checked.damage.is_empty(), "{kill:?}: {:?}", checked.damage);
        if self.kills.is_multiple_of(RESTORE_EVERY) {
            let names = (&main, &other_collection(), true);
            restore_from(catalogue, names, (&repository, None), &mut |_| ControlFlow::Continue(()), || ())
                .unwrap_or_else(|error| panic!("{kill:?}: {error}"));
            let restored = catalogue.get(&other_collection()).expect("it was restored");
            assert_eq!(restored.snapshot().sequence(), newest.about.sequence);
            verify(&restored, kill);
        }
    }
}

type Candidates = Vec<(Contents, Vec<(Stream, (u64, Contents))>)>;

/// Every candidate with each choice of one more stream.
fn extend(candidates: &Candidates, stream: Stream, choices: &[(u64, Contents)]) -> Candidates {
    let with = |(joined, streams): &(Contents, Vec<_>)| {
        let (joined, streams) = (joined.clone(), streams.clone());
        choices.iter().map(move |choice| {
            let (mut joined, mut streams) = (joined.clone(), streams.clone());
            joined.join(&choice.1);
            streams.push((stream, choice.clone()));
            (joined, streams)
        })
    };
    candidates.iter().flat_map(with).collect()
}

/// Everything that is derived is what a fresh derivation gives: the biases above all.
fn verify(collection: &Collection, kill: Kill) {
    let report = collection.verify(&mut |_| ());
    assert!(report.is_whole(), "{kill:?}: {report:#?}");
    let snapshot = collection.snapshot();
    if snapshot.text_fields().is_some() {
        let found = |words: &str| -> Vec<u32> {
            let answer = snapshot.search_text(&snapshot.scope(), &TextQuery::new(words), usize::MAX);
            let answer = answer.unwrap_or_else(|error| panic!("{kill:?}: {error}"));
            answer.hits.into_iter().map(|hit| hit.row).collect()
        };
        let mut all = found("common");
        all.sort_unstable();
        assert_eq!(all, snapshot.rows().collect::<Vec<u32>>(), "{kill:?}: each point is found once");
        for row in snapshot.rows().step_by(17) {
            let point = snapshot.points(&[row]).expect("readable").swap_remove(0);
            assert_eq!(found(&format!("id{}", point.id)), [row], "{kill:?}: by the text it has now");
        }
    }
}

/// The lines of a child's output, as they come.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let output = child.stdout.take().expect("it is piped");
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Whether the line comes in time.
fn wait_for(lines: &Receiver<String>, wanted: &str, most: Duration) -> bool {
    let until = Instant::now() + most;
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line == wanted => return true,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => panic!("the child ended before it said `{wanted}`"),
        }
    }
}
