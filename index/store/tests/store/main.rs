//! The promises of the store, each a sentence.

mod committing;
mod crashing;
mod damage;
#[cfg(debug_assertions)]
mod fail_points;
mod faults;
mod memory;
mod model;
mod opening;
mod parts;
mod reading;
mod support;
mod torn;
