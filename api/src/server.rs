//! Listening, serving and stopping.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use actix_web::dev::{Server as HttpServer, ServerHandle};
use actix_web::{App, rt, web};
use dehub_backup::{BackupError, Repository};
use dehub_index::{Catalogue, CatalogueError};

use crate::admission::Limits;
use crate::audit::{Audit, AuditConfig};
use crate::cors::Cors;
use crate::dialect;
use crate::edge::{Edge, Open, Protection};
use crate::guard::Guard;
use crate::hosts::Hosts;
use crate::jobs::Jobs;
use crate::keys::{Key, KeyError};
use crate::live::{Flusher, Live};
use crate::observe::{Observer, SLOW_QUERY_MS, watched};
use crate::rates::{BODY_TIMEOUT, Intake, RateLimit};
use crate::reload::{self, Reload};
use crate::routes;
use crate::tls::{Tls, TlsConfig, TlsError};
use crate::trace::Tracer;
use crate::upkeep::Upkeep;

/// The port when none is chosen.
pub const PORT: u16 = 6363;

/// The largest body taken when no other limit is chosen: a few thousand vectors as text.
pub const BODY_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// The largest limit that is taken for one: several bodies are held in memory.
const BODY_LIMIT_BYTES_MAX: usize = 64 * 1024 * 1024 * 1024;

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
    /// How long a body may take to arrive, or a batch of one that is written in batches.
    pub body_time: Duration,
    /// How often each client may ask; as often as it likes if not given.
    pub rate: Option<RateLimit>,
    /// Where backups are kept: a directory, or the URL of an object store. Without it there are none.
    pub backups: Option<String>,
    /// How much is taken at a time, and how long anything may wait.
    pub limits: Limits,
    /// Keys beside those of the file. Without any key everybody may do everything.
    pub keys: Vec<Key>,
    /// A file of keys, which is read again when it changes.
    pub key_file: Option<PathBuf>,
    /// Whether an address that others can reach may be served without keys.
    pub allow_unauthenticated: bool,
    /// The certificates to speak TLS with; without them it is plain HTTP.
    pub tls: Option<TlsConfig>,
    /// Names that the server answers to, beside those of this machine and its host. Without any it answers to all,
    /// but when only this machine can reach it and there are no keys.
    pub hosts: Vec<String>,
    /// Origins whose pages may use the server from a browser.
    pub cors_origins: Vec<String>,
    /// Where changes are written down.
    pub audit: Option<AuditConfig>,
    /// From how many milliseconds on a query is told as slow; 0 for never.
    pub slow_query_ms: u64,
    /// Who collects spans of requests, if anybody.
    pub tracer: Option<Tracer>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            host: "127.0.0.1".to_owned(),
            port: PORT,
            body_limit_bytes: BODY_LIMIT_BYTES,
            workers: 0,
            body_time: BODY_TIMEOUT,
            rate: None,
            backups: None,
            limits: Limits::default(),
            keys: Vec::new(),
            key_file: None,
            allow_unauthenticated: false,
            tls: None,
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            audit: None,
            slow_query_ms: SLOW_QUERY_MS,
            tracer: None,
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
    /// Others can reach the address, and there are no keys.
    #[error(
        "{address} can be reached by others, and there are no API keys: make one with `dehub key new` and name its \
         file by --key-file, or allow everybody everything by --allow-unauthenticated"
    )]
    Unprotected {
        /// Where.
        address: SocketAddr,
    },
    /// The keys cannot be had.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The audit log cannot be written.
    #[error("the audit log {} cannot be written: {source}", path.display())]
    Audit {
        /// Where.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
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
    edge: web::Data<Edge>,
    reloads: Vec<Reload>,
    stop_timeout: Duration,
    open: Open,
    /// Disconnected when nothing of the server is left that may hold a collection open.
    closed: Receiver<Infallible>,
}

/// Stops a server from another thread.
#[derive(Clone)]
pub struct StopHandle {
    http: ServerHandle,
    edge: Weak<Edge>,
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopHandle").finish_non_exhaustive()
    }
}

impl StopHandle {
    /// Asks the server to stop: it takes no more connections, ends the requests under way, and then
    /// [`Server::run`] returns.
    pub fn stop(&self) {
        if let Some(edge) = self.edge.upgrade() {
            edge.begin_to_stop();
        }
        // The request is sent by this call; what it gives back only tells when it was carried out.
        drop(self.http.stop(true));
    }
}

/// What the server is behind, and what of it is read again.
struct Protected {
    protection: Protection,
    tls: Option<Arc<Tls>>,
    reloads: Vec<Reload>,
}

impl ServerConfig {
    /// Reads the keys and certificates, and tries whatever else can be tried without the data directory; gives what is
    /// wrong. The port is let go again. The audit log is made if there is none.
    pub fn check(&self) -> Vec<ServeError> {
        let of = |outcome: Result<(), ServeError>| outcome.err();
        let place = format!("{}:{}", self.host, self.port);
        let listening = TcpListener::bind((self.host.as_str(), self.port));
        let address = listening.and_then(|listener| listener.local_addr());
        let checks = [
            of(self.check_limits()),
            self.guard().err(),
            self.open_tls().err(),
            self.open_cors().err(),
            self.open_hosts(true).err(),
            self.open_audit().err(),
            match address {
                Ok(address) => self.guard().ok().and_then(|guard| of(self.check_protected(&guard, address))),
                Err(source) => Some(not_listening(place, source)),
            },
            self.open_backups().err(),
        ];
        checks.into_iter().flatten().collect()
    }

    fn check_limits(&self) -> Result<(), ServeError> {
        let fault = match self.limits.fault() {
            None if self.body_limit_bytes == 0 => Some("the largest body has 0 bytes, wanted more"),
            None if self.body_limit_bytes > BODY_LIMIT_BYTES_MAX => Some(
                "the largest body has more than 64 GiB, wanted at most as much: bodies are held in memory",
            ),
            fault => fault,
        };
        fault.map_or(Ok(()), |fault| Err(ServeError::Setting(fault.to_owned())))
    }

    fn guard(&self) -> Result<Arc<Guard>, ServeError> {
        Ok(Arc::new(Guard::open(self.keys.clone(), self.key_file.clone())?))
    }

    fn open_tls(&self) -> Result<Option<Arc<Tls>>, ServeError> {
        Ok(self.tls.as_ref().map(Tls::open).transpose()?.map(Arc::new))
    }

    fn open_cors(&self) -> Result<Cors, ServeError> {
        Cors::new(&self.cors_origins).map_err(ServeError::Setting)
    }

    fn open_hosts(&self, is_exposed: bool) -> Result<Hosts, ServeError> {
        Hosts::new(&self.host, &self.hosts, is_exposed).map_err(ServeError::Setting)
    }

    fn open_backups(&self) -> Result<Option<Repository>, ServeError> {
        let backups = self.backups.as_deref().map(Repository::open).transpose()?;
        backups.as_ref().map_or(Ok(()), Repository::check_writable)?;
        Ok(backups)
    }

    fn open_audit(&self) -> Result<Option<Arc<Audit>>, ServeError> {
        let Some(config) = &self.audit else { return Ok(None) };
        let fault = |source| ServeError::Audit { path: config.path.clone(), source };
        Ok(Some(Arc::new(Audit::open(config).map_err(fault)?)))
    }

    /// Whether the server may be reached there with these keys.
    fn check_protected(&self, guard: &Guard, address: SocketAddr) -> Result<(), ServeError> {
        let is_open = guard.is_open() && !self.allow_unauthenticated;
        let is_ours_alone = address.ip().to_canonical().is_loopback();
        if is_open && !is_ours_alone { Err(ServeError::Unprotected { address }) } else { Ok(()) }
    }

    /// `is_local` tells whether only this machine can reach the server.
    fn protected(&self, is_local: bool) -> Result<Protected, ServeError> {
        let (guard, tls, audit) = (self.guard()?, self.open_tls()?, self.open_audit()?);
        let mut reloads = Vec::new();
        if let Some(file) = guard.file().cloned() {
            let guard = Arc::clone(&guard);
            reloads.push(Reload::new("the key file", vec![file], move || {
                guard.reload().map(|count| format!("{count} keys")).map_err(|error| error.to_string())
            }));
        }
        if let Some(tls) = tls.clone() {
            reloads.push(Reload::new("the certificates", tls.files(), move || {
                tls.reload().map(|()| "for new connections".to_owned()).map_err(|error| error.to_string())
            }));
        }
        if let Some(audit) = audit.clone() {
            reloads.push(Reload::new("the audit log", Vec::new(), move || {
                audit.reopen().map(|()| "opened anew".to_owned()).map_err(|error| error.to_string())
            }));
        }
        let hosts = self.open_hosts(guard.is_open() && is_local)?;
        let protection = Protection { guard, hosts, cors: self.open_cors()?, audit };
        Ok(Protected { protection, tls, reloads })
    }
}

impl Server {
    /// Takes the port, and the data directory for this process alone. Connections wait until [`Server::run`] is
    /// called.
    pub fn bind(catalogue: Arc<Catalogue>, config: &ServerConfig) -> Result<Server, ServeError> {
        config.check_limits()?;
        let place = format!("{}:{}", config.host, config.port);
        let fault = |source| not_listening(place.clone(), source);
        let listener = TcpListener::bind((config.host.as_str(), config.port)).map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let is_local = address.ip().to_canonical().is_loopback();
        let Protected { protection, tls, reloads } = config.protected(is_local)?;
        config.check_protected(&protection.guard, address)?;
        if !protection.guard.is_open() && tls.is_none() && !is_local {
            tracing::warn!(%address, "API keys come over plain HTTP: whoever is on the way can read them");
        }
        let backups = config.open_backups()?.map(Arc::new);
        backups.as_ref().map_or(Ok(()), |backups| backups.check_outside(catalogue.folder()))?;
        catalogue.lock_exclusively()?;
        let (open, closed) = channel();
        let live = Arc::new(Live::new());
        let edge =
            Edge::new(Arc::clone(&catalogue), Arc::clone(&live), config.body_limit_bytes, open.clone())
                .with_backups(backups)
                .with_intake(Intake::new(config.body_time, config.rate))
                .with_limits(config.limits.clone())
                .with_protection(protection)
                .with_observer(Observer::new(config.tracer, config.slow_query_ms));
        edge.jobs().keep_in(catalogue.folder());
        let edge = web::Data::new(edge);
        let http = listen(config, listener, tls.as_deref(), &edge)?.map_err(fault)?;
        let stop_timeout = config.limits.stop_timeout;
        let jobs = edge.jobs().clone();
        Ok(Server { address, http, jobs, catalogue, live, edge, reloads, stop_timeout, open, closed })
    }

    /// Where it listens, with the port it was given if it asked for any.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle to stop it by.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle { http: self.http.handle(), edge: Arc::downgrade(&self.edge.clone().into_inner()) }
    }

    /// Opens all collections in the background, mends those whose writer fails, and serves until
    /// SIGINT, SIGTERM or a [`StopHandle`] asks it to stop and the requests under way
    /// have ended. Then the server holds nothing of the catalogue any more, unless something took
    /// longer to end than [`Limits::stop_timeout`]. Jobs are interrupted; the fits among them go on when their
    /// collections are served again.
    pub fn run(self) -> Result<(), ServeError> {
        let flusher = Flusher::start(&self.live);
        let upkeep = Upkeep::start(&self.catalogue, &self.open);
        drop(self.open);
        drop(self.edge);
        let served = rt::System::new().block_on(async {
            reload::watch(self.reloads);
            self.http.await
        });
        served.map_err(ServeError::Run)?;
        self.jobs.stop();
        self.catalogue.open_ones().values().for_each(|collection| collection.stop_freezing());
        drop(upkeep);
        drop(flusher);
        drop(self.catalogue);
        // Workers end after the future does. A store that closes while the process exits aborts it.
        match self.closed.recv_timeout(self.stop_timeout) {
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

/// Why an address cannot be listened on.
fn not_listening(address: String, source: io::Error) -> ServeError {
    if source.kind() == io::ErrorKind::AddrInUse {
        ServeError::InUse { address }
    } else {
        ServeError::Listen { address, source }
    }
}

/// A server that takes what comes to the listener, within the limits.
fn listen(
    config: &ServerConfig,
    listener: TcpListener,
    tls: Option<&Tls>,
    edge: &web::Data<Edge>,
) -> Result<io::Result<HttpServer>, TlsError> {
    let limits = &config.limits;
    let stopping = Arc::downgrade(&edge.clone().into_inner());
    let delay = limits.stop_delay;
    let stop = async move {
        asked_to_stop().await;
        if let Some(edge) = stopping.upgrade() {
            edge.begin_to_stop();
        }
        rt::time::sleep(delay).await;
    };
    let edge = edge.clone();
    let app = move || {
        let app = App::new().app_data(edge.clone()).wrap_fn(watched).wrap_fn(dialect::speak);
        app.configure(routes::configure)
    };
    let http = actix_web::HttpServer::new(app)
        .worker_max_blocking_threads(limits.engine_threads)
        .max_connections(limits.connections)
        .client_request_timeout(limits.head_timeout)
        .tls_handshake_timeout(limits.head_timeout)
        .keep_alive(limits.keep_alive)
        .shutdown_timeout(limits.stop_timeout.as_secs().max(1))
        .shutdown_signal(stop);
    let http = if config.workers > 0 { http.workers(config.workers) } else { http };
    let http = match tls {
        Some(tls) => http.listen_rustls_0_23(listener, tls.server_config()?),
        None => http.listen(listener),
    };
    Ok(http.map(actix_web::HttpServer::run))
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
