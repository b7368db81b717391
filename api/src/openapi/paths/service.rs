//! The server itself and its jobs.

use super::{delete, get};
use crate::health::Ready;
use crate::jobs::{JobReply, Listed};
use crate::openapi::operation::Operation;
use crate::openapi::schema::one;
use crate::service::About;
use crate::slow;

const TAG: &str = "Service";

pub(super) fn operations() -> Vec<Operation> {
    let alive = "The process answers.";
    let pages = |operation: Operation| {
        let media = ["text/html", "text/css", "text/javascript", "image/png"];
        media
            .into_iter()
            .fold(operation, |operation, media| operation.gives_media(media, "A file of the pages."))
    };
    let ready = get("/readyz", ("ready", TAG, "Whether every collection is open and takes writes"));
    vec![
        get("/", ("about", TAG, "The server's versions and limits"))
            .gives_bare::<About>("200", "The server."),
        get("/healthz", ("healthy", TAG, "Whether the process answers")).gives_media("text/plain", alive),
        get("/livez", ("alive", TAG, "Whether the process answers")).gives_media("text/plain", alive),
        ready
            .gives_bare::<Ready>("200", "All serve.")
            .gives_bare::<Ready>("503", "Some do not, or the server is about to stop."),
        get("/metrics", ("metrics", TAG, "Measurements for Prometheus"))
            .gives_media("application/openmetrics-text", "OpenMetrics."),
        get("/slow-queries", ("slowQueries", TAG, "The newest queries that took long"))
            .timed()
            .gives(one::<slow::Listed>()),
        get("/openapi.json", ("openapi", TAG, "This document"))
            .gives_media("application/json", "An OpenAPI 3.1 document."),
        get("/docs", ("docs", TAG, "Leads to pages that show this document"))
            .gives_nothing("308", "To `/docs/`."),
        pages(get("/docs/", ("docsPage", TAG, "A page that shows this document"))),
        pages(get("/docs/{file}", ("docsFile", TAG, "What the page is made of"))),
        get("/jobs", ("listJobs", TAG, "All jobs")).timed().gives(one::<Listed>()),
        get("/jobs/{job}", ("getJob", TAG, "A job")).timed().gives(one::<JobReply>()),
        delete("/jobs/{job}", ("cancelJob", TAG, "Asks a job to stop"))
            .timed()
            .gives_later(one::<JobReply>())
            .may_refuse(&[409]),
    ]
}
