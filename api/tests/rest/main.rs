//! The REST edge over real sockets: a server on a free port, a data directory of its own, HTTP.

mod backups;
mod choices;
mod client;
mod concurrency;
mod health;
mod jobs;
mod life;
mod live;
mod named;
mod refusals;
