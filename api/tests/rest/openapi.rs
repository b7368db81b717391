//! The OpenAPI document as it is served, and the pages that show it.

use tempfile::TempDir;
use ureq::Agent;

use crate::client::{Served, config};

/// What a page is made of: everything that it names.
fn named(page: &str) -> Vec<&str> {
    let of = |attribute| page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
    of("src=\"").chain(of("href=\"")).collect()
}

#[test]
fn the_document_is_served_and_the_pages_load_nothing_from_elsewhere() {
    let folder = TempDir::new().expect("a folder");
    let served = Served::start(folder.path());
    let document = served.send("GET", "/openapi.json", None, None);
    assert_eq!((document.status, document.content_type.as_str()), (200, "application/json"));
    assert_eq!(document.body["openapi"], "3.1.0");

    let (status, kind, page) = served.text("/docs/");
    assert_eq!((status, kind.as_str()), (200, "text/html"));
    let files = named(&page);
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let file = file.trim_start_matches("./");
        assert!(!file.contains(':') && !file.contains('/'), "{file} is elsewhere");
        let path = format!("/docs/{file}");
        let url = format!("http://{}{path}", served.address);
        let response = Agent::new_with_defaults().get(url).call().expect("a file of the pages");
        let policy = response.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    }
    let missing = served.send("GET", "/docs/nothing", None, None);
    assert_eq!((missing.status, missing.body["code"].as_str()), (404, Some("unknown_path")));
    let (_, _, start) = served.text("/docs/swagger-initializer.js");
    assert!(start.contains("../openapi.json"), "{start}");
}

#[test]
fn the_path_without_a_slash_leads_to_the_pages() {
    let folder = TempDir::new().expect("a folder");
    let served = Served::start_with(folder.path(), &config());
    let agent = Agent::new_with_config(Agent::config_builder().max_redirects(0).build());
    let response = agent.get(format!("http://{}/docs", served.address)).call().expect("an answer");
    assert_eq!(response.status().as_u16(), 308);
    assert_eq!(response.headers()["location"], "docs/");
}
