//! The paths, and the methods each takes.

use actix_web::{HttpResponse, Resource, Route, web};

use crate::call::Call;
use crate::errors::{UNKNOWN_PATH, WRONG_METHOD};
use crate::problem::Problem;
use crate::{
    backups, banks, collections, corrections, defaults, health, hubness, jobs, live, metrics, points,
    quarantine, queries, service,
};

/// Registers every path.
pub(crate) fn configure(app: &mut web::ServiceConfig) {
    app.service(path("/", "GET", [web::get().to(service::about)]))
        .service(path("/healthz", "GET", [web::get().to(health::alive)]))
        .service(path("/livez", "GET", [web::get().to(health::alive)]))
        .service(path("/readyz", "GET", [web::get().to(health::ready)]))
        .service(path("/metrics", "GET", [web::get().to(metrics::metrics)]))
        .service(path("/collections", "GET", [web::get().to(collections::list)]))
        .service(path(
            "/collections/{collection}",
            "DELETE, GET, PATCH, PUT",
            [
                web::delete().to(collections::delete),
                web::get().to(collections::describe),
                web::patch().to(collections::update),
                web::put().to(collections::create),
            ],
        ))
        .service(path("/collections/{collection}/exists", "GET", [web::get().to(collections::exists)]))
        .service(path("/collections/{collection}/hubness", "GET", [web::get().to(hubness::measure)]))
        .service(path("/jobs", "GET", [web::get().to(jobs::list)]))
        .service(path(
            "/jobs/{job}",
            "DELETE, GET",
            [web::delete().to(jobs::cancel), web::get().to(jobs::describe)],
        ))
        .configure(points)
        .configure(chosen)
        .configure(fitted)
        .configure(learned)
        .configure(kept)
        .default_service(web::to(unknown_path));
}

fn points(app: &mut web::ServiceConfig) {
    app.service(path(
        "/collections/{collection}/points",
        "POST, PUT",
        [web::post().to(points::retrieve), web::put().to(points::upsert)],
    ))
    // Before the path with an id. A point with one of these ids is read by POST to `points`.
    .service(path("/collections/{collection}/points/count", "POST", [web::post().to(points::count)]))
    .service(path("/collections/{collection}/points/delete", "POST", [web::post().to(points::delete)]))
    .service(path("/collections/{collection}/points/query", "POST", [web::post().to(queries::query)]))
    .service(path("/collections/{collection}/points/search", "POST", [web::post().to(queries::search)]))
    .service(path(
        "/collections/{collection}/points/query/batch",
        "POST",
        [web::post().to(queries::query_batch)],
    ))
    .service(path("/collections/{collection}/points/{id}", "GET", [web::get().to(points::get)]));
}

fn chosen(app: &mut web::ServiceConfig) {
    app.service(path(
        "/collections/{collection}/default",
        "DELETE, GET, PUT",
        [web::delete().to(defaults::clear), web::get().to(defaults::describe), web::put().to(defaults::set)],
    ))
    .service(path(
        "/collections/{collection}/quarantine",
        "DELETE, GET, PUT",
        [
            web::delete().to(quarantine::end),
            web::get().to(quarantine::list),
            web::put().to(quarantine::begin),
        ],
    ))
    .service(path(
        "/collections/{collection}/quarantine/release",
        "POST",
        [web::post().to(quarantine::release)],
    ));
}

fn kept(app: &mut web::ServiceConfig) {
    app.service(path(
        "/collections/{collection}/backups",
        "GET, POST",
        [web::get().to(backups::list), web::post().to(backups::begin)],
    ))
    .service(path(
        "/collections/{collection}/backups/{backup}",
        "DELETE",
        [web::delete().to(backups::remove)],
    ))
    .service(path("/collections/{collection}/restore", "POST", [web::post().to(backups::restore)]));
}

fn learned(app: &mut web::ServiceConfig) {
    app.service(path(
        "/collections/{collection}/live",
        "DELETE, GET, PUT",
        [web::delete().to(live::end), web::get().to(live::describe), web::put().to(live::begin)],
    ))
    .service(path("/collections/{collection}/live/flush", "POST", [web::post().to(live::flush)]))
    .service(path(
        "/collections/{collection}/hubness/live",
        "DELETE, GET",
        [web::delete().to(live::reset_hubness), web::get().to(live::hubness)],
    ))
    .service(path(
        "/collections/{collection}/banks/{bank}/drift",
        "GET, POST",
        [web::get().to(live::drift_against), web::post().to(live::drift_of)],
    ));
}

fn fitted(app: &mut web::ServiceConfig) {
    app.service(path("/collections/{collection}/banks", "GET", [web::get().to(banks::list)]))
        .service(path(
            "/collections/{collection}/banks/{bank}",
            "DELETE, GET, PUT",
            [web::delete().to(banks::delete), web::get().to(banks::describe), web::put().to(banks::add)],
        ))
        .service(path(
            "/collections/{collection}/banks/{bank}/absorb",
            "POST",
            [web::post().to(banks::absorb)],
        ))
        .service(path("/collections/{collection}/banks/{bank}/decay", "POST", [web::post().to(banks::decay)]))
        .service(path(
            "/collections/{collection}/banks/{bank}/delete",
            "POST",
            [web::post().to(banks::delete_entries)],
        ))
        .service(path("/collections/{collection}/corrections", "GET", [web::get().to(corrections::list)]))
        .service(path(
            "/collections/{collection}/corrections/{correction}",
            "DELETE, GET, PUT",
            [
                web::delete().to(corrections::delete),
                web::get().to(corrections::describe),
                web::put().to(corrections::fit),
            ],
        ));
}

/// A path that takes `methods`, and refuses all others.
fn path<const N: usize>(path: &str, methods: &'static str, routes: [Route; N]) -> Resource {
    let refuse = move |call: Call| wrong_method(call, methods);
    routes.into_iter().fold(web::resource(path), Resource::route).default_service(web::to(refuse))
}

async fn wrong_method(call: Call, methods: &'static str) -> HttpResponse {
    let (method, path) = call.asked_for();
    let detail = format!("{path} does not take {method}, wanted {methods}");
    call.refuse(Problem::new(WRONG_METHOD, detail).wanted(methods).found(method).allow(methods)).await
}

async fn unknown_path(call: Call) -> HttpResponse {
    let (_, path) = call.asked_for();
    call.refuse(Problem::new(UNKNOWN_PATH, format!("there is nothing at {path}"))).await
}
