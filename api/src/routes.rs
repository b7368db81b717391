//! The paths, the methods each takes, and who may use them.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::HttpServiceFactory;
use actix_web::http::Method;
use actix_web::{FromRequest, Handler, HttpResponse, Resource, Route, web};

use crate::call::Call;
use crate::errors::{UNKNOWN_PATH, WRONG_METHOD};
use crate::guard;
use crate::problem::Problem;
use crate::routes::Access::{Manage, Public, Read, Write};
use crate::{
    aliases, backups, banks, collections, corrections, defaults, evaluation, facets, health, hubness, jobs,
    live, maintenance, metrics, missing, neighbours, openapi, payload_indexes, payloads, points, priors,
    quarantine, queries, scroll, service, slow, snapshots, tuning, updates, vectors,
};

/// All methods there are.
const METHODS: &str = "DELETE, GET, HEAD, PATCH, POST, PUT";

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Everybody.
    Public,
    /// Who may read the collection.
    Read,
    /// Who may change what is in it.
    Write,
    /// Who may make, remove and back up collections, and steer the server.
    Manage,
}

impl Access {
    /// What is done with a collection, for a message.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Public | Read => "read",
            Write => "write to",
            Manage => "manage",
        }
    }
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
    /// For HEAD, which is answered as GET without the body.
    head: Option<Route>,
}

/// A method of a path, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The method.
    pub method: String,
    /// The path, with its variable segments in braces.
    pub pattern: &'static str,
    /// Who may use it.
    pub access: Access,
}

/// Every method of every path; HEAD, which every path with GET takes, is not told.
pub fn list() -> Vec<Listed> {
    let of = |path: Path| {
        let pattern = path.pattern;
        let listed =
            move |Entry { method, access, .. }: Entry| Listed { method: method.to_string(), pattern, access };
        path.entries.into_iter().map(listed)
    };
    table().into_iter().flat_map(of).collect()
}

/// The patterns of the paths that everybody may use by every method they have.
pub(crate) fn public() -> Vec<String> {
    let is_public = |path: &Path| path.entries.iter().all(|entry| entry.access == Public);
    table().iter().filter(|path| is_public(path)).map(|path| path.pattern.to_owned()).collect()
}

/// Registers every path.
pub(crate) fn configure(app: &mut web::ServiceConfig) {
    for path in table() {
        app.service(path.resource());
    }
    app.default_service(web::to(unknown_path));
}

fn table() -> Vec<Path> {
    // Paths are compared one after the other, so those of queries are the first.
    let all = [
        asked(),
        named(),
        general(),
        observed(),
        payloads(),
        vectors(),
        points(),
        chosen(),
        kept(),
        learned(),
        fitted(),
        measured(),
    ];
    all.into_iter().flatten().collect()
}

/// Before the paths with a collection: none can be made by the name `aliases`.
fn named() -> Vec<Path> {
    vec![
        path("/aliases", [get(Read, aliases::list)]),
        path("/collections/aliases", [post(Manage, aliases::change)]),
        path("/collections/{collection}/aliases", [get(Read, aliases::of_collection)]),
        path(
            "/collections/{collection}/snapshots",
            [get(Manage, snapshots::list), post(Manage, snapshots::create)],
        ),
        path("/collections/{collection}/snapshots/recover", [put(Manage, snapshots::recover)]),
        path("/collections/{collection}/snapshots/upload", [post(Manage, snapshots::upload)]),
        path(
            "/collections/{collection}/snapshots/{snapshot}",
            [delete(Manage, snapshots::remove), get(Manage, snapshots::download)],
        ),
    ]
}

fn general() -> Vec<Path> {
    vec![
        path("/", [get(Public, service::about)]),
        path("/healthz", [get(Public, health::alive)]),
        path("/livez", [get(Public, health::alive)]),
        path("/readyz", [get(Public, health::ready)]),
        path("/metrics", [get(Read, metrics::metrics)]),
        path("/openapi.json", [get(Public, openapi::serve)]),
        path("/docs", [get(Public, openapi::to_pages)]),
        path("/docs/", [get(Public, openapi::page)]),
        path("/docs/{file}", [get(Public, openapi::page)]),
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

fn observed() -> Vec<Path> {
    vec![path("/slow-queries", [get(Read, slow::list)])]
}

fn payloads() -> Vec<Path> {
    vec![
        // Before the path with an id.
        path(
            "/collections/{collection}/points/payload",
            [post(Write, payloads::set), put(Write, payloads::overwrite)],
        ),
        path("/collections/{collection}/points/payload/clear", [post(Write, payloads::clear)]),
        path("/collections/{collection}/points/payload/delete", [post(Write, payloads::delete)]),
        path("/collections/{collection}/points/batch", [post(Write, updates::batch)]),
        path("/collections/{collection}/points/scroll", [post(Read, scroll::scroll)]),
        path("/collections/{collection}/facet", [post(Read, facets::facet)]),
        path("/collections/{collection}/index", [put(Write, payload_indexes::create)]),
        path("/collections/{collection}/index/{field}", [delete(Write, payload_indexes::delete)]),
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
        path("/collections/{collection}/points/{id}", [get(Read, points::get)]),
    ]
}

fn asked() -> Vec<Path> {
    let of = |path_of, entry| path(path_of, [entry]);
    vec![
        of("/collections/{collection}/points/query", post(Read, queries::query)),
        of("/collections/{collection}/points/query/batch", post(Read, queries::query_batch)),
        of("/collections/{collection}/points/query/groups", post(Read, queries::query_groups)),
        of("/collections/{collection}/points/search", post(Read, queries::search)),
        of("/collections/{collection}/points/search/batch", post(Read, queries::search_batch)),
        of("/collections/{collection}/points/search/groups", post(Read, queries::search_groups)),
        of("/collections/{collection}/points/search/matrix/pairs", post(Read, queries::pairs)),
        of("/collections/{collection}/points/search/matrix/offsets", post(Read, queries::offsets)),
        of("/collections/{collection}/points/recommend", post(Read, queries::recommend)),
        of("/collections/{collection}/points/recommend/batch", post(Read, queries::recommend_batch)),
        of("/collections/{collection}/points/recommend/groups", post(Read, queries::recommend_groups)),
        of("/collections/{collection}/points/discover", post(Read, queries::discover)),
        of("/collections/{collection}/points/discover/batch", post(Read, queries::discover_batch)),
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

fn measured() -> Vec<Path> {
    vec![
        path("/collections/{collection}/priors", [get(Read, priors::list)]),
        path(
            "/collections/{collection}/priors/{prior}",
            [
                delete(Write, priors::delete),
                get(Read, priors::describe),
                post(Read, priors::values),
                put(Write, priors::set),
            ],
        ),
        path("/collections/{collection}/priors/{prior}/delete", [post(Write, priors::unset)]),
        path("/collections/{collection}/points/{id}/neighbours", [get(Read, neighbours::neighbours)]),
        path("/collections/{collection}/evaluate", [post(Read, evaluation::evaluate)]),
        path("/collections/{collection}/tune", [post(Write, tuning::begin)]),
        path("/collections/{collection}/build", [post(Manage, maintenance::build)]),
        path("/collections/{collection}/verify", [post(Manage, maintenance::verify)]),
        path("/collections/{collection}/compact", [post(Manage, maintenance::compact)]),
    ]
}

fn path<const N: usize>(pattern: &'static str, entries: [Entry; N]) -> Path {
    Path { pattern, entries: entries.into() }
}

fn get<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(access: Access, handler: F) -> Entry {
    let head = Some(web::head().to(handler.clone()));
    Entry { method: Method::GET, access, route: web::get().to(handler), head }
}

fn post<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(access: Access, handler: F) -> Entry {
    Entry { method: Method::POST, access, route: web::post().to(handler), head: None }
}

fn put<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(access: Access, handler: F) -> Entry {
    Entry { method: Method::PUT, access, route: web::put().to(handler), head: None }
}

fn patch<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(
    access: Access,
    handler: F,
) -> Entry {
    Entry { method: Method::PATCH, access, route: web::patch().to(handler), head: None }
}

fn delete<F: Handler<A, Output = HttpResponse>, A: FromRequest + 'static>(
    access: Access,
    handler: F,
) -> Entry {
    Entry { method: Method::DELETE, access, route: web::delete().to(handler), head: None }
}

impl Path {
    /// Takes its methods, and refuses all others; from who may ask.
    fn resource(self) -> impl HttpServiceFactory + 'static {
        let head = |entry: &Entry| entry.head.as_ref().map(|_| (Method::HEAD, entry.access));
        let rights =
            self.entries.iter().flat_map(|entry| [Some((entry.method.clone(), entry.access)), head(entry)]);
        let rights: Rc<[(Method, Access)]> = rights.flatten().collect();
        let mut methods: Vec<&str> = rights.iter().map(|(method, _)| method.as_str()).collect();
        methods.sort_unstable();
        let methods: Arc<str> = methods.join(", ").into();
        let refuse = move |call: Call| wrong_method(call, Arc::clone(&methods));
        let routes = self.entries.into_iter().flat_map(|entry| [Some(entry.route), entry.head]).flatten();
        routes
            .fold(web::resource(self.pattern), Resource::route)
            .default_service(web::to(refuse))
            .wrap_fn(move |request, service| guard::admitted(&rights, request, service))
    }
}

async fn wrong_method(call: Call, methods: Arc<str>) -> HttpResponse {
    let (method, path) = call.asked_for();
    if let Some(problem) = missing::refusal(&method, &path) {
        return call.refuse(problem).await;
    }
    let detail = format!("{path} does not take {method}, wanted {methods}");
    call.refuse(Problem::new(WRONG_METHOD, detail).wanted(&methods).found(method).allow(&methods)).await
}

async fn unknown_path(call: Call) -> HttpResponse {
    let (method, path) = call.asked_for();
    if let Err(problem) = call.check(Manage) {
        return call.refuse(problem).await;
    }
    if method == "CONNECT" {
        let problem = Problem::new(WRONG_METHOD, "the server is no proxy, and takes no CONNECT");
        return call.refuse(problem.wanted(METHODS).found(method).allow(METHODS)).await;
    }
    if let Some(problem) = missing::refusal(&method, &path) {
        return call.refuse(problem).await;
    }
    call.refuse(Problem::new(UNKNOWN_PATH, format!("there is nothing at {path}"))).await
}
