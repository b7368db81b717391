//! The promises of the store, each a sentence.

mod committing;
mod crashing;
mod model;
mod opening;
mod reading;
mod support;
