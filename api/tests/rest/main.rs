//! The REST edge over real sockets: a server on a free port, a data directory of its own, HTTP.

mod admission;
mod aliases;
mod backups;
mod bodies;
mod browsers;
mod choices;
mod client;
mod concurrency;
mod health;
mod hostile;
mod jobs;
mod life;
mod live;
mod measured;
mod named;
mod observe;
mod openapi;
mod payloads;
mod priors;
mod qdrant;
mod queries;
mod raw;
mod refusals;
mod security;
mod snapshots;
mod tls;
