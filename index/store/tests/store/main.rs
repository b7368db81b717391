//! The promises of the store, each a sentence.

mod committing;
mod crashing;
#[cfg(debug_assertions)]
mod fail_points;
mod model;
mod opening;
mod reading;
mod support;
