//! The operations, by topic, each with examples that a test sends.

mod collections;
mod corrections;
mod points;
mod queries;
mod service;

use utoipa::openapi::path::HttpMethod;

use super::operation::{Operation, operation};

/// Every operation.
pub(super) fn all() -> Vec<Operation> {
    let topics = [
        service::operations(),
        collections::operations(),
        points::operations(),
        queries::operations(),
        corrections::operations(),
    ];
    topics.into_iter().flatten().collect()
}

/// The id, the tag and the summary of an operation.
type About = (&'static str, &'static str, &'static str);

fn get(pattern: &'static str, about: About) -> Operation {
    operation(HttpMethod::Get, pattern, about)
}

fn post(pattern: &'static str, about: About) -> Operation {
    operation(HttpMethod::Post, pattern, about)
}

fn put(pattern: &'static str, about: About) -> Operation {
    operation(HttpMethod::Put, pattern, about)
}

fn patch(pattern: &'static str, about: About) -> Operation {
    operation(HttpMethod::Patch, pattern, about)
}

fn delete(pattern: &'static str, about: About) -> Operation {
    operation(HttpMethod::Delete, pattern, about)
}
