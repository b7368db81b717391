//! The paths of Qdrant's interface at which there is nothing here, and what to use in their place.

use crate::errors::NOT_SUPPORTED_PATH;
use crate::problem::Problem;

/// Paths, with `*` for a segment that varies, and what is said about them. Looked at only where no route takes a
/// request, so a route that is added needs nothing removed here.
const MISSING: [(&str, &str); 28] = [
    ("/cluster", ONE_NODE),
    ("/cluster/recover", ONE_NODE),
    ("/cluster/telemetry", ONE_NODE),
    ("/cluster/peer/*", ONE_NODE),
    ("/collections/*/cluster", ONE_NODE),
    ("/collections/*/shards", ONE_NODE),
    ("/collections/*/shards/delete", ONE_NODE),
    ("/collections/*/shards/*/snapshots", ONE_NODE),
    ("/collections/*/shards/*/snapshots/recover", ONE_NODE),
    ("/collections/*/shards/*/snapshots/upload", ONE_NODE),
    ("/collections/*/shards/*/snapshots/*", ONE_NODE),
    ("/collections/*/shards/*/snapshot", ONE_NODE),
    ("/snapshots", "snapshots are of one collection: POST /collections/{collection}/snapshots"),
    ("/snapshots/*", "snapshots are of one collection: POST /collections/{collection}/snapshots"),
    (
        "/telemetry",
        "GET /metrics has measurements, and GET /collections/{collection} what a collection is like",
    ),
    ("/issues", "GET /readyz names what is wrong with a collection"),
    ("/quotas", "GET / names the limits"),
    ("/collections/*/optimizations", "GET /collections/{collection} tells whether points are being frozen"),
    ("/collections/*/vectors/*", "the vectors of a collection are named when it is made"),
    ("/collections/*/points/batch", "send the operations one by one: each is a commit of its own"),
    (
        "/collections/*/points/vectors",
        "PUT /collections/{collection}/points replaces a point with its vector",
    ),
    ("/collections/*/points/vectors/delete", "POST /collections/{collection}/points/delete deletes points"),
    ("/collections/*/points/discover", DISCOVER),
    ("/collections/*/points/discover/batch", DISCOVER),
    ("/collections/*/points/search/matrix/offsets", MATRIX),
    ("/collections/*/points/search/matrix/pairs", MATRIX),
    ("/collections/*/points/search/groups", GROUPS),
    ("/collections/*/points/recommend/groups", GROUPS),
];

const ONE_NODE: &str = "there is one node, with whole collections";
const DISCOVER: &str = "POST /collections/{collection}/points/query takes a vector or an id";
const MATRIX: &str = "POST /collections/{collection}/points/query/batch takes many ids in one request";
const GROUPS: &str = "POST /collections/{collection}/points/query/groups answers in groups";

/// The refusal of a path that is Qdrant's, and is not here; none of any other path.
pub(crate) fn refusal(method: &str, path: &str) -> Option<Problem> {
    let (_, instead) = MISSING.iter().find(|(pattern, _)| matches(pattern, path))?;
    Some(Problem::new(NOT_SUPPORTED_PATH, format!("{method} {path} is not supported: {instead}")))
}

fn matches(pattern: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let is_one = |(wanted, found): (&str, &str)| wanted == found || (wanted == "*" && !found.is_empty());
    pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_qdrants_is_told_from_a_slip() {
        for known in ["/cluster", "/cluster/", "/collections/a/shards", "/collections/a/shards/0/snapshots/b"]
        {
            assert!(refusal("GET", known).is_some(), "{known}");
        }
        for unknown in
            ["/", "", "/clusters", "/collections//shards", "/collections/a/shards/0", "/snapshots/a/b"]
        {
            assert!(refusal("GET", unknown).is_none(), "{unknown}");
        }
    }
}
