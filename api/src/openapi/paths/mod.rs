//! The operations, by topic, each with examples that a test sends.

mod collections;
mod corrections;
mod points;
mod queries;
mod service;

use utoipa::openapi::path::HttpMethod;

use super::operation::{Operation, operation};
use super::schema::any_text;

/// Every operation.
pub(super) fn all() -> Vec<Operation> {
    let topics = [
        service::operations(),
        collections::operations(),
        points::operations(),
        queries::operations(),
        corrections::operations(),
    ];
    topics.into_iter().flatten().map(with_using).collect()
}

/// What is about one vector of a collection takes its name.
fn with_using(operation: Operation) -> Operation {
    const OF_ONE_VECTOR: [&str; 10] = [
        "/banks",
        "/corrections",
        "/default",
        "/hubness",
        "/live",
        "/evaluate",
        "/tune",
        "/neighbours",
        "/drift",
        "/build",
    ];
    let path = operation.pattern.strip_prefix("/collections/{collection}").unwrap_or_default();
    if !OF_ONE_VECTOR.iter().any(|part| path.starts_with(part) || path.ends_with(part)) {
        return operation;
    }
    operation.parameter("using", any_text().schema, "The name of the vector that it is about.")
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
