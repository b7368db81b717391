//! Jobs: work that a request began and did not wait for. What becomes of each is kept in the data directory, so that a
//! server that starts again tells it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use actix_web::HttpResponse;
use dehub_index::{Collection, FitProgress, Name, WriteError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::call::{Answer, Call};
use crate::edge::Open;
use crate::errors::{INTERNAL, INVALID_VALUE, JOB_ENDED, OVERLOADED, UNKNOWN_JOB};
use crate::journal::{Journal, Kept};
use crate::problem::Problem;

/// Jobs that have ended and are still told of; the oldest are forgotten first.
const ENDED_MAX: usize = 1000;

/// Jobs that run or wait for their turn. Each has a thread.
const RUNNING_MAX: usize = 64;

/// What a client should wait when there are too many jobs.
const RETRY_SECONDS: u32 = 10;

/// What a job is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) kind: Kind,
    pub(crate) collection: Name,
    /// The named vector that it is about, if it is about one.
    pub(crate) space: Option<Name>,
    /// The correction or the bank; of a backup or a restore, the collection.
    pub(crate) name: Name,
}

impl Purpose {
    /// About a collection as a whole.
    pub(crate) fn of_whole(kind: Kind, collection: Name) -> Purpose {
        Purpose { kind, name: collection.clone(), collection, space: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = JobKind)]
pub(crate) enum Kind {
    Fit,
    Absorb,
    Backup,
    Restore,
    Tune,
    Evaluate,
    Build,
    Verify,
    Compact,
}

#[derive(Debug, Clone)]
enum State {
    Running,
    Done(Value),
    /// With the problem as it is told.
    Failed(Value),
    Cancelled,
    /// The server stopped, or died, before its end.
    Interrupted,
}

struct Job {
    purpose: Purpose,
    progress: FitProgress,
    started: f64,
    /// `None` while it runs, and for one that ended with its server.
    ended: Option<f64>,
    state: State,
    /// The interrupted job that this one goes on from.
    resumes: Option<u64>,
    /// The job that goes on from this interrupted one.
    resumed_by: Option<u64>,
}

impl Job {
    fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }
}

/// The jobs of a server, by their numbers.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Shared>);

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    /// Told whenever a job lets go of its collection.
    ended: Condvar,
    /// Where they are kept, once there is a place.
    journal: OnceLock<Journal>,
    /// Held while a file is written, and taken before the table: what is written last is what is so last.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Table {
    newest: u64,
    jobs: BTreeMap<u64, Job>,
    is_stopping: bool,
}

/// How a job ends that does not do what it was to do.
pub(crate) enum Unfinished {
    Stopped,
    Refused(Problem),
}

/// An error of a job, described by `describe` if it is none of being stopped.
pub(crate) fn unfinished(error: &WriteError, describe: impl FnOnce(&WriteError) -> Problem) -> Unfinished {
    if matches!(error, WriteError::Cancelled | WriteError::Interrupted) {
        Unfinished::Stopped
    } else {
        Unfinished::Refused(describe(error))
    }
}

impl Jobs {
    /// Runs `work` on a thread of its own; gives the job's number.
    pub(crate) fn start(
        &self,
        purpose: Purpose,
        collection: Arc<Collection>,
        open: Open,
        work: impl FnOnce(&Collection, &FitProgress) -> Result<Value, Unfinished> + Send + 'static,
    ) -> Result<u64, Problem> {
        // INVARIANT: the work lets go of the collection before the job ends, for whoever waits for that.
        self.start_alone(purpose, open, move |_, progress| work(&collection, progress))
    }

    /// Runs `work`, which holds no collection when it ends, on a thread of its own; gives the job's number, which
    /// the work is given too.
    pub(crate) fn start_alone(
        &self,
        purpose: Purpose,
        open: Open,
        work: impl FnOnce(u64, &FitProgress) -> Result<Value, Unfinished> + Send + 'static,
    ) -> Result<u64, Problem> {
        let progress = FitProgress::new();
        let id = self.add(purpose, &progress)?;
        let ending = Ending { jobs: self.clone(), id, state: None };
        let run = move || {
            let mut ending = ending;
            let outcome = work(id, &progress);
            ending.state = Some(match outcome {
                Ok(result) => State::Done(result),
                Err(Unfinished::Stopped) if progress.is_interrupted() => State::Interrupted,
                Err(Unfinished::Stopped) => State::Cancelled,
                Err(Unfinished::Refused(problem)) => State::Failed(problem.to_value()),
            });
            drop(ending);
            drop(open);
        };
        match thread::Builder::new().name("job".to_owned()).spawn(run) {
            Ok(_) => Ok(id),
            Err(error) => Err(overloaded(&format!("no thread for the job: {error}"))),
        }
    }

    /// How many there are in each state, by its name.
    pub(crate) fn by_state(&self) -> [(&'static str, u64); 5] {
        let [mut running, mut done, mut failed, mut cancelled, mut interrupted] = [0; 5];
        for job in self.lock().jobs.values() {
            *match &job.state {
                State::Running => &mut running,
                State::Done(_) => &mut done,
                State::Failed(_) => &mut failed,
                State::Cancelled => &mut cancelled,
                State::Interrupted => &mut interrupted,
            } += 1;
        }
        [
            ("running", running),
            ("done", done),
            ("failed", failed),
            ("cancelled", cancelled),
            ("interrupted", interrupted),
        ]
    }

    /// Keeps jobs in a data directory from now on, and takes up what it has: a job that ran when the server before this
    /// one ended was interrupted. Where there is no place for files, jobs are kept in memory alone.
    pub(crate) fn keep_in(&self, data: &Path) {
        let (journal, Kept { jobs, newest }) = match Journal::open::<JobReply>(data) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(%error, folder = %data.display(), "jobs are not kept");
                return;
            }
        };
        let mut table = self.lock();
        table.newest = table.newest.max(newest);
        let mut interrupted = Vec::new();
        for (id, told) in jobs {
            let job = told.into_job();
            if job.is_running() {
                interrupted.push(id);
                table.jobs.insert(id, Job { state: State::Interrupted, ..job });
            } else {
                table.jobs.insert(id, job);
            }
        }
        drop(table);
        if self.0.journal.set(journal).is_ok() {
            interrupted.into_iter().for_each(|id| self.write(id));
            self.forget_oldest();
        }
    }

    /// Writes down what is so of a job, or that it is forgotten.
    fn write(&self, id: u64) {
        let Some(journal) = self.0.journal.get() else { return };
        let _one_at_a_time = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.lock().jobs.get(&id).map(|job| JobReply::new(id, job));
        let outcome = match told {
            None => journal.remove(id),
            Some(told) => journal.write(id, &told).and_then(|is_whole| {
                let left_out = || JobReply { result: Some(json!({ "left_out": TOO_LONG })), ..told };
                if is_whole { Ok(()) } else { journal.write(id, &left_out()).map(drop) }
            }),
        };
        if let Err(error) = outcome {
            tracing::error!(job = id, %error, "what becomes of a job is not kept");
        }
    }

    /// Says that a new job goes on from the newest interrupted one of the same purpose, if there is one.
    pub(crate) fn link(&self, purpose: &Purpose, new: u64) {
        let mut table = self.lock();
        let is_it = |(id, job): &(&u64, &mut Job)| {
            **id != new
                && job.purpose == *purpose
                && matches!(job.state, State::Interrupted)
                && job.resumed_by.is_none()
        };
        let found = table.jobs.iter_mut().rev().find(is_it).map(|(&id, job)| {
            job.resumed_by = Some(new);
            id
        });
        let Some(old) = found else { return };
        if let Some(job) = table.jobs.get_mut(&new) {
            job.resumes = Some(old);
        }
        drop(table);
        self.write(old);
        self.write(new);
    }

    fn add(&self, purpose: Purpose, progress: &FitProgress) -> Result<u64, Problem> {
        let mut table = self.lock();
        let running = table.jobs.values().filter(|job| job.is_running()).count();
        if running >= RUNNING_MAX || table.is_stopping {
            return Err(overloaded(&format!("{running} jobs run or wait")));
        }
        table.newest += 1;
        let id = table.newest;
        let (progress, started) = (progress.clone(), now());
        let (ended, state, resumes, resumed_by) = (None, State::Running, None, None);
        table.jobs.insert(id, Job { purpose, progress, started, ended, state, resumes, resumed_by });
        drop(table);
        // Before its thread begins, so that a server that dies meanwhile leaves word of it.
        self.write(id);
        Ok(id)
    }

    fn end(&self, id: u64, state: State) {
        let mut table = self.lock();
        if let Some(job) = table.jobs.get_mut(&id) {
            (job.ended, job.state) = (Some(now()), state);
        }
        drop(table);
        self.write(id);
        self.forget_oldest();
        self.0.ended.notify_all();
    }

    fn forget_oldest(&self) {
        let mut table = self.lock();
        let ended = table.jobs.iter().filter(|(_, job)| !job.is_running());
        let mut ended: Vec<u64> = ended.map(|(&id, _)| id).collect();
        ended.truncate(ended.len().saturating_sub(ENDED_MAX));
        ended.iter().for_each(|id| _ = table.jobs.remove(id));
        drop(table);
        ended.into_iter().for_each(|id| self.write(id));
    }

    /// Cancels the jobs of a collection, and waits until they have let go of it.
    pub(crate) fn cancel_all(&self, collection: &Name) {
        self.cancel_but(None, collection);
    }

    /// The same, but for the job that asks.
    pub(crate) fn cancel_but(&self, asking: Option<u64>, collection: &Name) {
        let is_running = |(id, job): &(&u64, &Job)| {
            job.purpose.collection == *collection && job.is_running() && asking != Some(**id)
        };
        let mut table = self.lock();
        loop {
            let running: Vec<&Job> = table.jobs.iter().filter(is_running).map(|(_, job)| job).collect();
            if running.is_empty() {
                return;
            }
            running.iter().for_each(|job| job.progress.cancel());
            table = self.0.ended.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Interrupts all jobs, which go on when their collections are opened again, and takes no more.
    pub(crate) fn stop(&self) {
        let mut table = self.lock();
        table.is_stopping = true;
        table.jobs.values().for_each(|job| job.progress.interrupt());
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a job when dropped, even by a panic.
struct Ending {
    jobs: Jobs,
    id: u64,
    state: Option<State>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let panicked = || {
            let problem = Problem::new(INTERNAL, "the job made the engine panic; the server goes on");
            State::Failed(problem.to_value())
        };
        self.jobs.end(self.id, self.state.take().unwrap_or_else(panicked));
    }
}

fn overloaded(reason: &str) -> Problem {
    Problem::new(OVERLOADED, format!("{reason}: try again in {RETRY_SECONDS} s")).retry_after(RETRY_SECONDS)
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// What stands for a result that is too long to be kept.
const TOO_LONG: &str = "the result was too long to outlive the server";

/// What a job is doing, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = JobState)]
enum StateName {
    Running,
    Done,
    Failed,
    Cancelled,
    Interrupted,
}

/// A job in an answer, and in the journal.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobReply {
    job: u64,
    kind: Kind,
    #[schema(value_type = String)]
    collection: Name,
    /// The named vector that it is about, if it is about one.
    #[schema(value_type = Option<String>)]
    using: Option<Name>,
    #[schema(value_type = String)]
    name: Name,
    /// `running`, `done`, `failed`, `cancelled`, or `interrupted`: the server stopped or died before its end.
    state: StateName,
    /// The part that is done, 0 to 1.
    share: f64,
    done: u64,
    total: u64,
    /// Seconds since 1970.
    started: f64,
    /// `null` while it runs, and for a job that ended with its server.
    ended: Option<f64>,
    /// The interrupted job that this one goes on from.
    resumes: Option<u64>,
    /// The job that goes on from this interrupted one.
    resumed_by: Option<u64>,
    #[schema(value_type = Value)]
    result: Option<Value>,
    #[schema(value_type = Value)]
    problem: Option<Value>,
}

impl JobReply {
    fn new(id: u64, job: &Job) -> JobReply {
        let (state, result, problem) = match &job.state {
            State::Running => (StateName::Running, None, None),
            State::Done(result) => (StateName::Done, Some(result.clone()), None),
            State::Failed(problem) => (StateName::Failed, None, Some(problem.clone())),
            State::Cancelled => (StateName::Cancelled, None, None),
            State::Interrupted => (StateName::Interrupted, None, None),
        };
        JobReply {
            job: id,
            kind: job.purpose.kind,
            collection: job.purpose.collection.clone(),
            using: job.purpose.space.clone(),
            name: job.purpose.name.clone(),
            state,
            share: if state == StateName::Done { 1.0 } else { job.progress.share() },
            done: job.progress.done(),
            total: job.progress.total(),
            started: job.started,
            ended: job.ended,
            resumes: job.resumes,
            resumed_by: job.resumed_by,
            result,
            problem,
        }
    }

    /// The job as the journal has it.
    fn into_job(self) -> Job {
        let progress = FitProgress::new();
        progress.set(self.done, self.total);
        let state = match self.state {
            StateName::Running => State::Running,
            StateName::Done => State::Done(self.result.unwrap_or_default()),
            StateName::Failed => State::Failed(self.problem.unwrap_or_default()),
            StateName::Cancelled => State::Cancelled,
            StateName::Interrupted => State::Interrupted,
        };
        Job {
            purpose: Purpose {
                kind: self.kind,
                collection: self.collection,
                space: self.using,
                name: self.name,
            },
            progress,
            started: self.started,
            ended: self.ended,
            state,
            resumes: self.resumes,
            resumed_by: self.resumed_by,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = JobList)]
pub(crate) struct Listed {
    jobs: Vec<JobReply>,
}

/// The answer to a request that began a job.
#[derive(Serialize)]
pub(crate) struct Begun<T: Serialize> {
    pub(crate) job: u64,
    #[serde(flatten)]
    pub(crate) written: T,
}

/// `GET /jobs`
pub(crate) async fn list(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let table = task.edge().jobs().lock();
        let visible = table.jobs.iter().filter(|(_, job)| task.may_read(&job.purpose.collection));
        let jobs = visible.map(|(&id, job)| JobReply::new(id, job)).collect();
        drop(table);
        task.reply(&Listed { jobs })
    })
    .await
}

/// `GET /jobs/{job}`
pub(crate) async fn describe(call: Call) -> HttpResponse {
    call.answer(&[], |task| {
        let id = number(task.segment("job"))?;
        let table = task.edge().jobs().lock();
        // One of a collection that who asks may not read is none.
        let visible = table.jobs.get(&id).filter(|job| task.may_read(&job.purpose.collection));
        let found = visible.map(|job| JobReply::new(id, job));
        drop(table);
        task.reply(&found.ok_or_else(|| unknown(id))?)
    })
    .await
}

/// `DELETE /jobs/{job}`: asks a running one to stop, and says so; it has stopped when it is `cancelled`.
pub(crate) async fn cancel(call: Call) -> HttpResponse {
    call.answer(&[], |task| -> Result<Answer, Problem> {
        let id = number(task.segment("job"))?;
        let table = task.edge().jobs().lock();
        let job = table.jobs.get(&id).ok_or_else(|| unknown(id))?;
        if !job.is_running() {
            return Err(Problem::new(JOB_ENDED, format!("job {id} has ended: there is nothing to cancel")));
        }
        job.progress.cancel();
        let reply = JobReply::new(id, job);
        drop(table);
        Ok(Answer::accepted(task.reply(&reply)?))
    })
    .await
}

fn number(text: &str) -> Result<u64, Problem> {
    let refused = || {
        let detail = format!("the path: {text:?} is no number of a job");
        Problem::new(INVALID_VALUE, detail).wanted("a whole number").found(text)
    };
    text.parse().map_err(|_| refused())
}

fn unknown(id: u64) -> Problem {
    let detail = format!(
        "there is no job {id}: a job is told of until {ENDED_MAX} others have ended after it, and one of a collection \
         that was deleted as any other"
    );
    Problem::new(UNKNOWN_JOB, detail)
}
