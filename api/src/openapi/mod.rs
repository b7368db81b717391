//! The interface as an OpenAPI 3.1 document, made from types; and pages that show it, which need no other server.

mod bodies;
mod operation;
mod paths;
mod schema;

use std::sync::{Arc, LazyLock};

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Value, json};
use utoipa::ToSchema as _;
use utoipa::openapi::content::Content;
use utoipa::openapi::path::{HttpMethod, PathItem, Paths};
use utoipa::openapi::schema::{AdditionalProperties, Schema};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ComponentsBuilder, Info, License, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder, Tag,
};
use utoipa_swagger_ui::Config;

pub(crate) use self::schema::{GroupValue, Id};
use crate::call;
use crate::errors::{INTERNAL, UNKNOWN_PATH};
use crate::problem::{MEDIA_TYPE, Members, Problem};
use crate::routes::{self, Access};
use crate::{payload_indexes, settings};

/// Refusals by status, in words.
const REFUSALS: [(u16, &str); 15] = [
    (400, "The request cannot be read."),
    (401, "There is no key, or an unknown one."),
    (403, "The key may not do this."),
    (404, "What the path names is not there."),
    (406, "The answer cannot have a type that is accepted."),
    (408, "The body or the search took too long."),
    (409, "What is there stands against it."),
    (413, "The body is too large."),
    (415, "The body has a type or a coding that is not taken here."),
    (422, "The request is understood and cannot be done: `errors` tells where and why."),
    (429, "Too many requests: `Retry-After` tells when to try again."),
    (500, "A defect of the server."),
    (501, "This part of Qdrant's interface is missing."),
    (503, "The server cannot do it now."),
    (507, "The disk is nearly full."),
];

const TAGS: [(&str, &str); 9] = [
    ("Collections", "Made, changed, described, dropped."),
    ("Aliases", "Other names of collections."),
    ("Points", "Written, read, counted, deleted."),
    ("Payloads", "Set, taken away, indexed, counted."),
    ("Queries", "The nearest points, ranked raw or by a correction."),
    ("Banks", "Reference vectors that corrections are fitted from."),
    ("Corrections", "Of hubness: fitted, chosen, made the default, tested with."),
    ("Snapshots and backups", "Copies of collections."),
    ("Service", "The server itself and its jobs."),
];

const ABOUT: &str = "A vector database that ranks by hubness-corrected scores. Paths, bodies and semantics are those \
    of Qdrant's REST interface where that has them. A body has no field that is read and then ignored: what is not \
    known is refused by name. Every refusal is a problem document of RFC 9457 with a stable `code`, but for that of a \
    head which HTTP does not allow: a status alone. HEAD is answered as GET, without the body. A request other than \
    these whose `Origin` is another one than the server's own is refused, unless the operator lists it.";

/// The document.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let mut text = serde_json::to_string_pretty(&amended(document())).unwrap_or_default();
    text.push('\n');
    text
});

/// The OpenAPI 3.1 document of the interface.
pub fn openapi() -> &'static str {
    &DOCUMENT
}

/// `GET /openapi.json`
pub(crate) async fn serve(request: HttpRequest) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response.content_type("application/json");
    call::packed(&request, response, openapi().as_bytes().to_vec())
}

/// `GET /docs`
pub(crate) async fn to_pages() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, "docs/")).finish()
}

/// `GET /docs/{file}`: a page that shows the document, and what it is made of. It loads nothing from elsewhere.
pub(crate) async fn page(request: HttpRequest) -> HttpResponse {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
        img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let config = Arc::new(Config::from("../openapi.json").validator_url("none"));
    let file = request.match_info().query("file");
    match utoipa_swagger_ui::serve(file, config) {
        Ok(Some(file)) => {
            let mut response = HttpResponse::Ok();
            response
                .content_type(file.content_type)
                .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
                .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
                .insert_header((header::REFERRER_POLICY, "no-referrer"));
            call::packed(&request, response, file.bytes.into_owned())
        }
        Ok(None) => Problem::new(UNKNOWN_PATH, format!("there is no page {file:?}")).response(),
        Err(error) => Problem::new(INTERNAL, format!("the page cannot be shown: {error}")).response(),
    }
}

fn document() -> OpenApi {
    let listed = routes::list();
    let access_of = |method: &HttpMethod, pattern: &str| {
        let found = listed.iter().find(|it| it.pattern == pattern && it.method == name_of(method));
        found.map_or(Access::Manage, |it| it.access)
    };
    let mut paths = Paths::new();
    let (mut taken, mut given) = (schema::Named::new(), schema::Named::new());
    for operation in paths::all() {
        taken.extend_from_slice(&operation.taken);
        given.extend_from_slice(&operation.given);
        let (method, pattern) = (operation.method.clone(), operation.pattern);
        let access = access_of(&method, pattern);
        let item = PathItem::new(method, operation.build(access));
        match paths.paths.get_mut(pattern) {
            Some(known) => known.merge_operations(item),
            None => _ = paths.paths.insert(pattern.to_owned(), item),
        }
    }
    schema::collect::<Members<'_>>(&mut given);
    let components = taken
        .into_iter()
        .map(closed)
        .chain(given)
        .fold(ComponentsBuilder::new(), |components, (name, schema)| components.schema(name, schema));
    let problem = Content::new(Some(Ref::from_schema_name(Members::name())));
    let components = REFUSALS.iter().fold(components, |components, (status, doc)| {
        let response = ResponseBuilder::new().description(*doc).content(MEDIA_TYPE, problem.clone());
        components.response(format!("Problem{status}"), response.build())
    });
    let key = "A key, as Qdrant's clients send it.";
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("api-key", key)));
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = components.security_scheme("api-key", key).security_scheme("bearer", bearer);
    let none: [&str; 0] = [];
    let tags = TAGS.map(|(name, doc)| {
        let mut tag = Tag::new(name);
        tag.description = Some(doc.to_owned());
        tag
    });
    let mut info = Info::new("dehub", env!("CARGO_PKG_VERSION"));
    info.description = Some(ABOUT.to_owned());
    info.license =
        Some(License::builder().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build());
    OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .components(Some(components.build()))
        .tags(Some(tags))
        // A server without keys lets everybody in.
        .security(Some([
            SecurityRequirement::new("api-key", none),
            SecurityRequirement::new("bearer", none),
            SecurityRequirement::default(),
        ]))
        .build()
}

fn name_of(method: &HttpMethod) -> &'static str {
    match method {
        HttpMethod::Get => "GET",
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Delete => "DELETE",
        HttpMethod::Patch => "PATCH",
        HttpMethod::Options => "OPTIONS",
        HttpMethod::Head => "HEAD",
        HttpMethod::Trace => "TRACE",
    }
}

/// The schema of a body has no other fields than those it names.
fn closed((name, mut schema): (String, RefOr<Schema>)) -> (String, RefOr<Schema>) {
    if let RefOr::T(Schema::Object(object)) = &mut schema
        && object.schema_type == utoipa::openapi::schema::Type::Object.into()
        && object.additional_properties.is_none()
    {
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    }
    (name, schema)
}

/// The document with what the derive cannot say.
fn amended(document: OpenApi) -> Value {
    let mut document = json!(document);
    let schemas = &mut document["components"]["schemas"];
    // Settings that cannot be chosen come from the table that the decoder has.
    for (name, field, schema) in settings::fixed_schemas().into_iter().chain(payload_indexes::fixed_schemas())
    {
        schemas[name]["properties"][field] = schema;
    }
    for name in SEARCHES {
        let null = json!({ "type": "null", "description": "There are no shards." });
        schemas[name]["properties"]["shard_key"] = null;
    }
    // The derive takes an empty name for none.
    if let Some(vectors) = schemas["VectorsDiff"]["properties"].as_object_mut()
        && let Some(unnamed) = vectors.shift_remove("unnamed")
    {
        vectors.insert(String::new(), unnamed);
    }
    let only_false = json!({ "type": ["boolean", "null"], "enum": [false, null],
        "description": "Points in no graph are scanned, never left out." });
    schemas["SearchParams"]["properties"]["indexed_only"] = only_false;
    for (name, least, most) in [
        ("QueryOfKind", 1, Some(1)),
        ("HybridFusionOf", 1, Some(1)),
        ("Match", 1, Some(1)),
        ("FieldCondition", 2, Some(2)),
        ("NestedFilter", 1, None),
        ("UpdateCollection", 1, None),
    ] {
        schemas[name]["minProperties"] = least.into();
        if let Some(most) = most {
            schemas[name]["maxProperties"] = most.into();
        }
    }
    document
}

/// Bodies in which Qdrant chooses parts of a cluster.
const SEARCHES: [&str; 8] = [
    "DiscoverRequest",
    "Prefetch",
    "QueryGroups",
    "QueryRequest",
    "RecommendGroups",
    "RecommendRequest",
    "SearchGroups",
    "SearchRequest",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::operation::Operation;
    use super::*;

    /// The document that is kept with the sources.
    const KEPT: &str = include_str!("../../openapi.json");

    #[test]
    fn the_document_that_is_kept_is_the_one_that_is_served() {
        assert!(openapi() == KEPT, "renew it: cargo run --release --bin dehub openapi > api/openapi.json");
    }

    #[test]
    fn every_route_is_documented_and_nothing_else() {
        let mut routes: Vec<_> = routes::list().into_iter().map(|it| (it.pattern, it.method)).collect();
        let of = |it: Operation| (it.pattern, name_of(&it.method).to_owned());
        let mut documented: Vec<_> = paths::all().into_iter().map(of).collect();
        routes.sort();
        documented.sort();
        assert_eq!(routes, documented);
    }

    #[test]
    fn a_name_is_that_of_one_schema() {
        let mut known: BTreeMap<String, Value> = BTreeMap::new();
        for operation in paths::all() {
            for (name, schema) in operation.taken.into_iter().chain(operation.given) {
                let schema = json!(schema);
                let first = known.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(*first, schema, "{name}");
            }
        }
    }

    #[test]
    fn an_operation_has_one_id_and_a_known_tag() {
        let document = amended(document());
        let mut ids = Vec::new();
        for item in document["paths"].as_object().expect("paths").values() {
            for operation in item.as_object().expect("operations").values() {
                let tag = operation["tags"][0].as_str().expect("a tag");
                assert!(TAGS.iter().any(|(known, _)| *known == tag), "{tag}");
                ids.push(operation["operationId"].as_str().expect("an id").to_owned());
            }
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
