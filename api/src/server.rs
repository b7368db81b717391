//! Listening, serving and stopping.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::Poll;
use std::time::{Duration, Instant};

use actix_web::dev::{Server as HttpServer, ServerHandle, Service, ServiceRequest, ServiceResponse};
use actix_web::{App, Error, rt, web};
use dehub_backup::{BackupError, Repository};
use dehub_index::{Catalogue, CatalogueError};

use crate::edge::{Edge, Open};
use crate::jobs::Jobs;
use crate::live::{Flusher, Live};
use crate::routes;
use crate::upkeep::Upkeep;

/// The port when none is chosen.
pub const PORT: u16 = 6363;

/// The largest body taken when no other limit is chosen: a few thousand vectors as text.
pub const BODY_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// Threads on which one worker waits for the engine. A fit that its client waits for holds one for as long as
/// it takes.
const ENGINE_THREADS: usize = 16;

/// How long requests under way may take to end once the server was asked to stop.
const STOP_SECONDS: u64 = 30;

/// Where to listen and how much to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The address or name of the interface; only this machine can reach the default.
    pub host: String,
    /// The port; 0 takes any free one.
    pub port: u16,
    /// The largest body of a request.
    pub body_limit_bytes: usize,
    /// Threads that read and write sockets; 0 for one a core.
    pub workers: usize,
    /// Where backups are kept: a directory, or the URL of an object store. Without it there are none.
    pub backups: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            host: "127.0.0.1".to_owned(),
            port: PORT,
            body_limit_bytes: BODY_LIMIT_BYTES,
            workers: 0,
            backups: None,
        }
    }
}

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another program listens there.
    #[error(
        "{address} is in use: stop the program that listens there, or choose another port (0 takes any free one)"
    )]
    InUse {
        /// Where.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// The system's words.
        source: io::Error,
    },
    /// The data directory cannot be had alone.
    #[error(transparent)]
    Data(#[from] CatalogueError),
    /// The place for backups cannot be one.
    #[error(transparent)]
    Backups(#[from] BackupError),
    /// Serving ended with an error.
    #[error("the server stopped: {0}")]
    Run(#[source] io::Error),
}

/// A server that has its port and waits for [`Server::run`].
pub struct Server {
    address: SocketAddr,
    http: HttpServer,
    jobs: Jobs,
    /// Keeps the collections open until their live banks are up to date.
    catalogue: Arc<Catalogue>,
    live: Arc<Live>,
    open: Open,
    /// Disconnected when nothing of the server is left that may hold a collection open.
    closed: Receiver<Infallible>,
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle(ServerHandle);

impl StopHandle {
    /// Asks the server to stop: it takes no more connections, ends the requests under way, and then
    /// [`Server::run`] returns.
    pub fn stop(&self) {
        // The request is sent by this call; what it gives back only tells when it was carried out.
        drop(self.0.stop(true));
    }
}

impl Server {
    /// Takes the port, and the data directory for this process alone. Connections wait until [`Server::run`] is
    /// called.
    pub fn bind(catalogue: Arc<Catalogue>, config: &ServerConfig) -> Result<Server, ServeError> {
        let place = format!("{}:{}", config.host, config.port);
        let fault = |source: io::Error| {
            if source.kind() == io::ErrorKind::AddrInUse {
                ServeError::InUse { address: place.clone() }
            } else {
                ServeError::Listen { address: place.clone(), source }
            }
        };
        let listener = TcpListener::bind((config.host.as_str(), config.port)).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let backups = config.backups.as_deref().map(Repository::open).transpose()?.map(Arc::new);
        backups.as_ref().map_or(Ok(()), |backups| backups.check_outside(catalogue.folder()))?;
        catalogue.lock_exclusively()?;
        let (open, closed) = channel();
        let live = Arc::new(Live::new());
        let edge =
            Edge::new(Arc::clone(&catalogue), Arc::clone(&live), config.body_limit_bytes, open.clone());
        let edge = web::Data::new(edge.with_backups(backups));
        let jobs = edge.jobs().clone();
        jobs.keep_in(catalogue.folder());
        let app = move || App::new().app_data(edge.clone()).wrap_fn(watched).configure(routes::configure);
        let http = actix_web::HttpServer::new(app)
            .worker_max_blocking_threads(ENGINE_THREADS)
            .shutdown_timeout(STOP_SECONDS)
            .shutdown_signal(asked_to_stop());
        let http = if config.workers > 0 { http.workers(config.workers) } else { http };
        let http = http.listen(listener).map_err(fault)?;
        Ok(Server { address, http: http.run(), jobs, catalogue, live, open, closed })
    }

    /// Where it listens, with the port it was given if it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle to stop it by.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.http.handle())
    }

    /// Opens all collections in the background, mends those whose writer fails, and serves until
    /// SIGINT, SIGTERM or a [`StopHandle`] asks it to stop and the requests under way
    /// have ended. Then the server holds nothing of the catalogue any more, unless something took
    /// longer than half a minute to end. Jobs are interrupted; the fits among them go on when their collections
    /// are served again.
    pub fn run(self) -> Result<(), ServeError> {
        let flusher = Flusher::start(&self.live);
        let upkeep = Upkeep::start(&self.catalogue, &self.open);
        drop(self.open);
        rt::System::new().block_on(self.http).map_err(ServeError::Run)?;
        self.jobs.stop();
        drop(upkeep);
        drop(flusher);
        drop(self.catalogue);
        // Workers end after the future does. A store that closes while the process exits aborts it.
        match self.closed.recv_timeout(Duration::from_secs(STOP_SECONDS)) {
            Ok(never) => match never {},
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    "the server stops while work is still under way; what was answered is on disk"
                );
            }
        }
        Ok(())
    }
}

/// Measures and logs a request.
fn watched<S, B>(
    request: ServiceRequest,
    service: &S,
) -> impl Future<Output = Result<ServiceResponse<B>, Error>> + use<S, B>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
{
    let started = Instant::now();
    let (method, path) = (request.method().clone(), request.path().to_owned());
    let edge = request.app_data::<web::Data<Edge>>().cloned();
    let in_flight = edge.as_ref().map(|edge| edge.metrics().begin());
    let response = service.call(request);
    async move {
        let response = response.await;
        let took = started.elapsed();
        let (status, route) = match &response {
            Ok(response) => (response.status(), response.request().match_pattern()),
            Err(error) => (error.as_response_error().status_code(), None),
        };
        if let Some(edge) = edge {
            edge.metrics().end(method.as_str(), route, status.as_u16(), took);
        }
        drop(in_flight);
        tracing::info!(%method, path, status = status.as_u16(), microseconds = took.as_micros(), "request");
        response
    }
}

/// Ends when the process is asked to stop. Left to itself actix would cut requests off at SIGINT.
async fn asked_to_stop() {
    use rt::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            poll_fn(|context| {
                let asked =
                    interrupt.poll_recv(context).is_ready() || terminate.poll_recv(context).is_ready();
                if asked { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "signals cannot be received: the server stops only when it is killed");
            std::future::pending::<()>().await;
        }
    }
}
