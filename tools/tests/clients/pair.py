"""Two clients that must answer alike: one of a server, one of the client's own mode in memory."""

import math
import uuid
from contextlib import contextmanager

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from qdrant_client.http.models import QueryResponse

# Scores are sums of products of 32-bit numbers, made in another order on each side.
TOLERANCE = 1e-5

DIM = 12
COUNT = 240

COLORS = ["red", "green", "blue", "black"]
WORDS = ["hub", "graph", "vector", "bank", "scale", "point"]


class Pair:
    """A server and the mode in memory, with the same collections in both."""

    def __init__(self, url):
        self.url = url
        self.remote = QdrantClient(url=url, timeout=60)
        self.local = QdrantClient(":memory:")

    def both(self, do):
        """Does the same with both; gives what the server answered, once it is known to be alike."""
        remote, local = outcome(do, self.remote), outcome(do, self.local)
        check_same(remote, local)
        return remote

    def refused(self, do):
        """Both refuse; gives the server's refusal."""
        try:
            do(self.local)
        except Exception:
            pass
        else:
            raise AssertionError("the mode in memory does not refuse")
        return refusal(lambda: do(self.remote))

    def create(self, name, distance=models.Distance.COSINE, dim=DIM, **settings):
        for client in (self.remote, self.local):
            if client.collection_exists(name):
                client.delete_collection(name)
            vectors = settings.get("vectors_config") or models.VectorParams(size=dim, distance=distance)
            client.create_collection(name, **{**settings, "vectors_config": vectors})

    def fill(self, name, points):
        self.both(lambda client: client.upsert(name, points=points, wait=True).status)


def outcome(do, client):
    result = do(client)
    # The clients give models of the same classes, and lists and tuples of them.
    return result


def refusal(do, status=range(400, 600)):
    try:
        answer = do()
    except UnexpectedResponse as error:
        assert error.status_code in status, f"{error.status_code}: {error}"
        assert error.structured()["code"], error
        return error
    raise AssertionError(f"it is not refused: {answer!r}")


def close(remote, local):
    return math.isclose(remote, local, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def same_vector(remote, local):
    if isinstance(remote, dict) or isinstance(local, dict):
        assert isinstance(remote, dict) and isinstance(local, dict), f"{remote!r} and {local!r}"
        assert remote.keys() == local.keys(), f"vectors {sorted(remote)} and {sorted(local)}"
        for name in remote:
            same_vector(remote[name], local[name])
        return
    if remote is None or local is None:
        assert remote is None and local is None, f"vector {remote!r} and {local!r}"
        return
    if isinstance(local[0], list):
        assert len(remote) == len(local), f"{len(remote)} vectors and {len(local)}"
        for ours, theirs in zip(remote, local):
            same_vector(ours, theirs)
        return
    assert np.allclose(remote, local, rtol=TOLERANCE, atol=TOLERANCE), f"vector {remote!r} and {local!r}"


def same_payload(remote, local):
    # The mode in memory tells a point without a payload from one with an empty payload, and the server does not.
    assert (remote or {}) == (local or {}), f"payload {remote!r} and {local!r}"


def same_point(remote, local):
    assert remote.id == local.id, f"id {remote.id!r} and {local.id!r}"
    same_payload(remote.payload, local.payload)
    same_vector(remote.vector, local.vector)
    if isinstance(remote, models.ScoredPoint):
        assert close(remote.score, local.score), f"point {remote.id}: score {remote.score} and {local.score}"
    assert getattr(remote, "order_value", None) == getattr(local, "order_value", None)


def same_hits(remote, local):
    """Hits whose scores differ by no more than the tolerance may come in either order."""
    ids = lambda hits: [hit.id for hit in hits]
    assert len(remote) == len(local), f"{len(remote)} hits and {len(local)}: {ids(remote)} and {ids(local)}"
    for place, (ours, theirs) in enumerate(zip(remote, local)):
        assert close(ours.score, theirs.score), (
            f"hit {place}: {ours.id} {ours.score} and {theirs.id} {theirs.score}\n{ids(remote)}\n{ids(local)}"
        )
    theirs = {hit.id: hit for hit in local}
    for place, hit in enumerate(remote):
        if hit.id in theirs:
            same_point(hit, theirs[hit.id])
        else:
            # Only the last may be another, if it is as good.
            assert close(hit.score, local[-1].score), f"hit {place} is {hit.id}: {ids(remote)} and {ids(local)}"


def check_same(remote, local):
    if isinstance(local, QueryResponse):
        same_hits(remote.points, local.points)
    elif isinstance(local, models.GroupsResult):
        ids = lambda result: [group.id for group in result.groups]
        assert ids(remote) == ids(local), f"groups {ids(remote)} and {ids(local)}"
        for ours, theirs in zip(remote.groups, local.groups):
            same_hits(ours.hits, theirs.hits)
            assert (ours.lookup is None) == (theirs.lookup is None)
            if ours.lookup is not None:
                same_point(ours.lookup, theirs.lookup)
    elif isinstance(local, models.FacetResponse):
        pairs = lambda result: [(hit.value, hit.count) for hit in result.hits]
        assert pairs(remote) == pairs(local), f"facets {pairs(remote)} and {pairs(local)}"
    elif isinstance(local, (models.Record, models.ScoredPoint)):
        same_point(remote, local)
    elif isinstance(local, (list, tuple)) and local and isinstance(local[0], models.ScoredPoint):
        same_hits(remote, local)
    elif isinstance(local, (list, tuple)):
        assert len(remote) == len(local), f"{len(remote)} and {len(local)} entries: {remote!r} and {local!r}"
        for ours, theirs in zip(remote, local):
            check_same(ours, theirs)
    elif isinstance(local, models.UpdateResult):
        assert remote.status == local.status
    elif isinstance(local, float) and not isinstance(local, bool):
        assert close(remote, local), f"{remote} and {local}"
    else:
        assert remote == local, f"{remote!r} and {local!r}"


# --- Data of a seed --------------------------------------------------------------------------


def vectors(rng, count=COUNT, dim=DIM):
    return rng.normal(size=(count, dim)).astype(np.float32)


def ids(rng, count=COUNT):
    """Numbers and UUIDs."""
    texts = [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(count // 3)]
    return [*range(count - len(texts)), *texts]


def payload(rng):
    """Fields of every kind, each of which may be missing, `null` or a list."""
    made = {}
    maybe = lambda share: rng.random() < share
    if maybe(0.9):
        made["color"] = str(rng.choice(COLORS))
    if maybe(0.9):
        made["n"] = int(rng.integers(-5, 15))
    if maybe(0.8):
        made["price"] = round(float(rng.uniform(-10, 100)), 3)
    if maybe(0.7):
        made["flag"] = bool(rng.random() < 0.5)
    if maybe(0.7):
        made["tags"] = [str(word) for word in rng.choice(WORDS, size=int(rng.integers(0, 4)))]
    if maybe(0.6):
        made["text"] = " ".join(str(word) for word in rng.choice(WORDS, size=4))
    if maybe(0.6):
        day, hour = int(rng.integers(1, 28)), int(rng.integers(0, 24))
        made["when"] = f"2026-03-{day:02}T{hour:02}:30:00Z"
    if maybe(0.6):
        made["place"] = {"lon": round(float(rng.uniform(-179, 179)), 4), "lat": round(float(rng.uniform(-80, 80)), 4)}
    if maybe(0.6):
        made["deep"] = {"a": {"b": int(rng.integers(0, 5))}, "list": [{"x": int(x)} for x in rng.integers(0, 4, size=2)]}
    if maybe(0.3):
        made["nothing"] = None
    return made


def points(rng, count=COUNT, dim=DIM):
    rows = zip(ids(rng, count), vectors(rng, count, dim))
    return [models.PointStruct(id=id, vector=vector.tolist(), payload=payload(rng)) for id, vector in rows]


def condition(rng, known):
    """A random condition on a payload."""
    field = lambda key, **kinds: models.FieldCondition(key=key, **kinds)
    makers = [
        lambda: field("color", match=models.MatchValue(value=str(rng.choice(COLORS)))),
        lambda: field("n", match=models.MatchValue(value=int(rng.integers(-5, 15)))),
        lambda: field("flag", match=models.MatchValue(value=bool(rng.random() < 0.5))),
        lambda: field("color", match=models.MatchAny(any=[str(c) for c in rng.choice(COLORS, size=2)])),
        lambda: field("n", match=models.MatchAny(any=[int(n) for n in rng.integers(-5, 15, size=4)])),
        lambda: field("color", match=models.MatchExcept(**{"except": [str(rng.choice(COLORS))]})),
        lambda: field("tags", match=models.MatchValue(value=str(rng.choice(WORDS)))),
        lambda: field("tags[]", match=models.MatchValue(value=str(rng.choice(WORDS)))),
        lambda: field("text", match=models.MatchText(text=str(rng.choice(WORDS)))),
        lambda: field("n", range=models.Range(gte=int(rng.integers(-5, 5)), lt=int(rng.integers(5, 15)))),
        lambda: field("price", range=models.Range(gt=float(rng.uniform(-10, 60)))),
        lambda: field("price", range=models.Range(lte=float(rng.uniform(0, 100)))),
        lambda: field("when", range=models.DatetimeRange(gte=f"2026-03-{int(rng.integers(1, 28)):02}T00:00:00Z")),
        lambda: field(
            "place",
            geo_radius=models.GeoRadius(
                center=models.GeoPoint(lon=float(rng.uniform(-179, 179)), lat=float(rng.uniform(-80, 80))),
                radius=float(rng.uniform(1e6, 8e6)),
            ),
        ),
        lambda: field(
            "place",
            geo_bounding_box=models.GeoBoundingBox(
                top_left=models.GeoPoint(lon=float(rng.uniform(-179, 0)), lat=float(rng.uniform(0, 80))),
                bottom_right=models.GeoPoint(lon=float(rng.uniform(0, 179)), lat=float(rng.uniform(-80, 0))),
            ),
        ),
        lambda: field("tags", values_count=models.ValuesCount(gte=int(rng.integers(0, 4)))),
        lambda: field("deep.a.b", match=models.MatchValue(value=int(rng.integers(0, 5)))),
        lambda: field("deep.list[].x", match=models.MatchValue(value=int(rng.integers(0, 4)))),
        lambda: models.IsEmptyCondition(is_empty=models.PayloadField(key=str(rng.choice(["tags", "n", "nothing"])))),
        lambda: models.IsNullCondition(is_null=models.PayloadField(key=str(rng.choice(["nothing", "n"])))),
        lambda: models.HasIdCondition(has_id=[known[int(i)] for i in rng.integers(0, len(known), size=40)]),
        lambda: models.NestedCondition(
            nested=models.Nested(
                key="deep.list",
                filter=models.Filter(must=[field("x", range=models.Range(gte=int(rng.integers(0, 4))))]),
            )
        ),
    ]
    return makers[int(rng.integers(0, len(makers)))]()


def filter_tree(rng, known, depth=2):
    """A random filter, in which filters are conditions."""
    def some(least, most):
        return [
            filter_tree(rng, known, depth - 1) if depth > 0 and rng.random() < 0.2 else condition(rng, known)
            for _ in range(int(rng.integers(least, most + 1)))
        ]

    clauses = {}
    if rng.random() < 0.5:
        clauses["must"] = some(1, 2)
    if rng.random() < 0.4:
        clauses["must_not"] = some(1, 2)
    if rng.random() < 0.5:
        clauses["should"] = some(1, 3)
    if rng.random() < 0.15:
        clauses["min_should"] = models.MinShould(conditions=some(3, 4), min_count=2)
    if not clauses:
        clauses["should"] = some(1, 3)
    return models.Filter(**clauses)


@contextmanager
def told(what):
    """Says in which case an assertion failed."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{what}: {error}") from error
