//! What bodies of requests look like. They are decoded by hand, field by field, so these types are only documentation;
//! a test compares them with what the decoders take.
#![expect(dead_code, reason = "nothing is ever made of what only describes a body")]

pub(super) mod collections;
pub(super) mod corrections;
pub(super) mod filters;
pub(super) mod points;
pub(super) mod queries;
