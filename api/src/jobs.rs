//! Jobs: fits, absorptions, backups and restores that a request began and did not wait for.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use actix_web::HttpResponse;
use dehub_index::{Collection, FitProgress, Name, WriteError};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::call::{Answer, Call};
use crate::edge::Open;
use crate::errors::{INVALID_VALUE, JOB_ENDED, OVERLOADED, UNKNOWN_JOB};
use crate::problem::Problem;

/// Jobs that have ended and are still told of; the oldest are forgotten first.
const ENDED_MAX: usize = 1000;

/// Jobs that run or wait for their turn. Each has a thread.
const RUNNING_MAX: usize = 64;

/// What a client should wait when there are too many jobs.
const RETRY_SECONDS: u32 = 10;

/// What a job is for.
#[derive(Debug, Clone)]
pub(crate) struct Purpose {
    pub(crate) kind: Kind,
    pub(crate) collection: Name,
    /// The correction or the bank; of a backup or a restore, the collection.
    pub(crate) name: Name,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = JobKind)]
pub(crate) enum Kind {
    Fit,
    Absorb,
    Backup,
    Restore,
}

#[derive(Debug)]
enum State {
    Running,
    Done(Value),
    Failed(Problem),
    Cancelled,
}

struct Job {
    purpose: Purpose,
    progress: FitProgress,
    started: f64,
    ended: Option<f64>,
    state: State,
}

/// The jobs of a server, by their numbers.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Shared>);

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    /// Told whenever a job lets go of its collection.
    ended: Condvar,
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
                Err(Unfinished::Stopped) => State::Cancelled,
                Err(Unfinished::Refused(problem)) => State::Failed(problem),
            });
            drop(ending);
            drop(open);
        };
        match thread::Builder::new().name("job".to_owned()).spawn(run) {
            Ok(_) => Ok(id),
            Err(error) => Err(overloaded(&format!("no thread for the job: {error}"))),
        }
    }

    /// How many run or wait.
    pub(crate) fn running(&self) -> usize {
        self.lock().jobs.values().filter(|job| job.ended.is_none()).count()
    }

    fn add(&self, purpose: Purpose, progress: &FitProgress) -> Result<u64, Problem> {
        let mut table = self.lock();
        let running = table.jobs.values().filter(|job| job.ended.is_none()).count();
        if running >= RUNNING_MAX || table.is_stopping {
            return Err(overloaded(&format!("{running} jobs run or wait")));
        }
        table.newest += 1;
        let id = table.newest;
        let progress = progress.clone();
        table.jobs.insert(id, Job { purpose, progress, started: now(), ended: None, state: State::Running });
        Ok(id)
    }

    fn end(&self, id: u64, state: State) {
        let mut table = self.lock();
        if let Some(job) = table.jobs.get_mut(&id) {
            (job.ended, job.state) = (Some(now()), state);
        }
        let ended: Vec<u64> =
            table.jobs.iter().filter(|(_, job)| job.ended.is_some()).map(|(&id, _)| id).collect();
        for id in &ended[..ended.len().saturating_sub(ENDED_MAX)] {
            table.jobs.remove(id);
        }
        drop(table);
        self.0.ended.notify_all();
    }

    /// Cancels the jobs of a collection, and waits until they have let go of it.
    pub(crate) fn cancel_all(&self, collection: &Name) {
        self.cancel_but(None, collection);
    }

    /// The same, but for the job that asks.
    pub(crate) fn cancel_but(&self, asking: Option<u64>, collection: &Name) {
        let is_running = |(id, job): &(&u64, &Job)| {
            job.purpose.collection == *collection && job.ended.is_none() && asking != Some(**id)
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
            State::Failed(Problem::new(
                crate::errors::INTERNAL,
                "the job made the engine panic; the server goes on",
            ))
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

/// A job in an answer.
#[derive(Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobReply {
    job: u64,
    kind: Kind,
    collection: String,
    name: String,
    state: &'static str,
    /// The part that is done, 0 to 1.
    share: f64,
    done: u64,
    total: u64,
    /// Seconds since 1970.
    started: f64,
    ended: Option<f64>,
    #[schema(value_type = Value)]
    result: Option<Value>,
    #[schema(value_type = Value)]
    problem: Option<Value>,
}

impl JobReply {
    fn new(id: u64, job: &Job) -> JobReply {
        let (state, result, problem) = match &job.state {
            State::Running => ("running", None, None),
            State::Done(result) => ("done", Some(result.clone()), None),
            State::Failed(problem) => ("failed", None, Some(problem.to_value())),
            State::Cancelled => ("cancelled", None, None),
        };
        JobReply {
            job: id,
            kind: job.purpose.kind,
            collection: job.purpose.collection.to_string(),
            name: job.purpose.name.to_string(),
            state,
            share: if matches!(job.state, State::Done(_)) { 1.0 } else { job.progress.share() },
            done: job.progress.done(),
            total: job.progress.total(),
            started: job.started,
            ended: job.ended,
            result,
            problem,
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
        if job.ended.is_some() {
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
    let refused = || Problem::new(INVALID_VALUE, format!("the path: {text:?} is no number of a job"));
    text.parse().map_err(|_| refused())
}

fn unknown(id: u64) -> Problem {
    let detail = format!(
        "there is no job {id}. Jobs do not outlive the process, but their fits do: a fit that was under way goes on, \
         as a new job, when its collection is next asked for"
    );
    Problem::new(UNKNOWN_JOB, detail)
}
