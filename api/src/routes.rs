//! The paths, the methods each takes, and who may use them.

use std::sync::Arc;

use actix_web::http::Method;
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Route, web};

use crate::call::Call;
use crate::errors::{UNKNOWN_PATH, WRONG_METHOD};
use crate::problem::Problem;
use crate::routes::Access::{Manage, Public, Read, Write};
use crate::{
    backups, banks, collections, corrections, defaults, health, hubness, jobs, live, metrics, points,
    quarantine, queries, service, vectors,
};

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Everybody.
    Public,
    /// Who may read the collection.
    Read,
    /// Who may change what is in it.
    Write,
    /// Who may make, remove and back up collections, and steer the server.
    Manage,
}

/// A path, and the methods it takes.
struct Path {
    pattern: &'static str,
    entries: Vec<Entry>,
}

/// One method of a path.
struct Entry {
    method: Method,
    access: Access,
    route: Route,
}

/// A method of a path, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) method: Method,
    pub(crate) pattern: &'static str,
    pub(crate) access: Access,
}

/// Every method of every path.
pub(crate) fn list() -> Vec<Listed> {
    let of = |path: Path| {
        let pattern = path.pattern;
        let listed = move |Entry { method, access, .. }: Entry| Listed { method, pattern, access };
        path.entries.into_iter().map(listed)
    };
    table().into_iter().flat_map(of).collect()
}

/// Registers every path.
pub(crate) fn configure(app: &mut web::ServiceConfig) {
    for path in table() {
        app.service(path.resource());
    }
    app.default_service(web::to(unknown_path));
}

fn table() -> Vec<Path> {
    [general(), vectors(), points(), chosen(), kept(), learned(), fitted()].into_iter().flatten().collect()
}

fn general() -> Vec<Path> {
    vec![
        path("/", [get(Public, service::about)]),
        path("/healthz", [get(Public, health::alive)]),
        path("/livez", [get(Public, health::alive)]),
        path("/readyz", [get(Public, health::ready)]),
        path("/metrics", [get(Read, metrics::metrics)]),
        path("/collections", [get(Read, collections::list)]),
        path(
            "/collections/{collection}",
            [
                delete(Manage, collections::delete),
                get(Read, collections::describe),
                patch(Manage, collections::update),
                put(Manage, collections::create),
            ],
        ),
        path("/collections/{collection}/exists", [get(Read, collections::exists)]),
        path("/collections/{collection}/hubness", [get(Read, hubness::measure)]),
        path("/jobs", [get(Read, jobs::list)]),
        path("/jobs/{job}", [delete(Manage, jobs::cancel), get(Read, jobs::describe)]),
    ]
}

/// Before the paths of points with an id.
fn vectors() -> Vec<Path> {
    vec![
        path("/collections/{collection}/points/vectors", [put(Write, vectors::update)]),
        path("/collections/{collection}/points/vectors/delete", [post(Write, vectors::delete)]),
    ]
}

fn points() -> Vec<Path> {
    vec![
        path("/collections/{collection}/points", [post(Read, points::retrieve), put(Write, points::upsert)]),
        // Before the path with an id. A point with one of these ids is read by POST to `points`.
        path("/collections/{collection}/points/count", [post(Read, points::count)]),
        path("/collections/{collection}/points/delete", [post(Write, points::delete)]),
        path("/collections/{collection}/points/query", [post(Read, queries::query)]),
        path("/collections/{collection}/points/search", [post(Read, queries::search)]),
        path("/collections/{collection}/points/query/batch", [post(Read, queries::query_batch)]),
        path("/collections/{collection}/points/{id}", [get(Read, points::get)]),
    ]
}

fn chosen() -> Vec<Path> {
    vec![
        path(
            "/collections/{collection}/default",
            [delete(Write, defaults::clear), get(Read, defaults::describe), put(Write, defaults::set)],
        ),
        path(
            "/collections/{collection}/quarantine",
            [delete(Write, quarantine::end), get(Read, quarantine::list), put(Write, quarantine::begin)],
        ),
        path("/collections/{collection}/quarantine/release", [post(Write, quarantine::release)]),
    ]
}

fn kept() -> Vec<Path> {
    vec![
        path("/collections/{collection}/backups", [get(Manage, backups::list), post(Manage, backups::begin)]),
        path("/collections/{collection}/backups/{backup}", [delete(Manage, backups::remove)]),
        path("/collections/{collection}/restore", [post(Manage, backups::restore)]),
    ]
}

fn learned() -> Vec<Path> {
    vec![
        path(
            "/collections/{collection}/live",
            [delete(Write, live::end), get(Read, live::describe), put(Write, live::begin)],
        ),
        path("/collections/{collection}/live/flush", [post(Write, live::flush)]),
        path(
            "/collections/{collection}/hubness/live",
            [delete(Write, live::reset_hubness), get(Read, live::hubness)],
        ),
        path(
            "/collections/{collection}/banks/{bank}/drift",
            [get(Read, live::drift_against), post(Read, live::drift_of)],
        ),
    ]
}

fn fitted() -> Vec<Path> {
    vec![
        path("/collections/{collection}/banks", [get(Read, banks::list)]),
        path(
            "/collections/{collection}/banks/{bank}",
            [delete(Write, banks::delete), get(Read, banks::describe), put(Write, banks::add)],
        ),
        path("/collections/{collection}/banks/{bank}/absorb", [post(Write, banks::absorb)]),
        path("/collections/{collection}/banks/{bank}/decay", [post(Write, banks::decay)]),
        path("/collections/{collection}/banks/{bank}/delete", [post(Write, banks::delete_entries)]),
        path("/collections/{collection}/corrections", [get(Read, corrections::list)]),
        path(
            "/collections/{collection}/corrections/{correction}",
            [
                delete(Write, corrections::delete),
                get(Read, corrections::describe),
                put(Write, corrections::fit),
            ],
        ),
    ]
}

fn path<const N: usize>(pattern: &'static str, entries: [Entry; N]) -> Path {
    Path { pattern, entries: entries.into() }
}

fn get<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(access: Access, handler: F) -> Entry {
    Entry { method: Method::GET, access, route: web::get().to(handler) }
}

fn post<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(access: Access, handler: F) -> Entry {
    Entry { method: Method::POST, access, route: web::post().to(handler) }
}

fn put<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(access: Access, handler: F) -> Entry {
    Entry { method: Method::PUT, access, route: web::put().to(handler) }
}

fn patch<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(
    access: Access,
    handler: F,
) -> Entry {
    Entry { method: Method::PATCH, access, route: web::patch().to(handler) }
}

fn delete<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(
    access: Access,
    handler: F,
) -> Entry {
    Entry { method: Method::DELETE, access, route: web::delete().to(handler) }
}

impl Path {
    /// Takes its methods, and refuses all others.
    fn resource(self) -> Resource {
        let mut methods: Vec<&str> = self.entries.iter().map(|entry| entry.method.as_str()).collect();
        methods.sort_unstable();
        let methods: Arc<str> = methods.join(", ").into();
        let refuse = move |call: Call| wrong_method(call, Arc::clone(&methods));
        let routes = self.entries.into_iter().map(|entry| entry.route);
        routes.fold(web::resource(self.pattern), Resource::route).default_service(web::to(refuse))
    }
}

async fn wrong_method(call: Call, methods: Arc<str>) -> HttpResponse {
    let (method, path) = call.asked_for();
    let detail = format!("{path} does not take {method}, wanted {methods}");
    call.refuse(Problem::new(WRONG_METHOD, detail).wanted(&methods).found(method).allow(&methods)).await
}

async fn unknown_path(call: Call) -> HttpResponse {
    let (_, path) = call.asked_for();
    call.refuse(Problem::new(UNKNOWN_PATH, format!("there is nothing at {path}"))).await
}
