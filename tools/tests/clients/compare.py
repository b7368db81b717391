"""Drives a server with Qdrant's own client, and compares its answers with that client's mode in memory.

    compare.py URL DATA_DIRECTORY SECTION...
    compare.py --list

Sections are independent of each other. Each prints one line; a failure prints what differs, and the exit code is 1.
"""

import sys
import time
import traceback
import warnings

import httpx
import numpy as np
from qdrant_client import QdrantClient, models

from pair import (
    COUNT,
    DIM,
    Pair,
    check_same,
    filter_tree,
    payload,
    points,
    refusal,
    same_hits,
    told,
    vectors,
)

METRICS = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]
SECTIONS = {}


def section(run):
    SECTIONS[run.__name__] = run
    return run


def seeded(name):
    return np.random.default_rng(list(name.encode()))


def filled(pair, name, rng, distance=models.Distance.COSINE, **settings):
    made = points(rng)
    pair.create(name, distance, **settings)
    pair.fill(name, made)
    return made


# --- The server and its collections ----------------------------------------------------------


@section
def connecting(pair, rng):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        client = QdrantClient(url=pair.url)
        # The version is compared by a thread.
        time.sleep(1)
        info = client.info()
    assert [str(warning.message) for warning in found] == []
    assert info.version == "1.20.0", info
    for path in ["/healthz", "/livez"]:
        answer = httpx.get(pair.url + path)
        assert (answer.status_code, answer.text) == (200, "healthz check passed"), path
    assert httpx.get(pair.url + "/readyz").json()["status"] == "ok"


@section
def collections(pair, rng):
    remote = pair.remote
    for distance in METRICS:
        name = f"made-{distance.value}"
        pair.create(name, distance)
        pair.both(lambda client: client.collection_exists(name))
        info = remote.get_collection(name)
        assert info.status == models.CollectionStatus.GREEN and info.points_count == 0, info
        assert info.config.params.vectors.size == DIM, info
        assert info.config.params.vectors.distance == distance, info
        assert info.payload_schema == {} and info.indexed_vectors_count == 0, info
    names = {found.name for found in remote.get_collections().collections}
    assert names >= {f"made-{distance.value}" for distance in METRICS}, names
    pair.both(lambda client: client.collection_exists("nobody"))
    pair.both(lambda client: client.delete_collection("made-Dot"))
    pair.both(lambda client: client.delete_collection("made-Dot"))
    pair.both(lambda client: client.collection_exists("made-Dot"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = models.VectorParams(size=3, distance=models.Distance.DOT)
        for _ in range(2):
            pair.both(lambda client: client.recreate_collection("again", vectors_config=one))
    pair.refused(lambda client: client.create_collection("again", vectors_config=one))
    error = refusal(
        lambda: remote.create_collection(
            "x", vectors_config=models.VectorParams(size=3, distance=models.Distance.MANHATTAN)
        )
    )
    assert error.structured()["code"] == "not_supported" and b"/vectors/distance" in error.content
    assert remote.delete_collection("again")


@section
def settings(pair, rng):
    remote = pair.remote
    if remote.collection_exists("set"):
        remote.delete_collection("set")
    remote.create_collection(
        "set",
        vectors_config=models.VectorParams(size=DIM, distance=models.Distance.DOT, on_disk=False),
        shard_number=1,
        sharding_method=models.ShardingMethod.AUTO,
        replication_factor=1,
        write_consistency_factor=1,
        on_disk_payload=True,
        hnsw_config=models.HnswConfigDiff(m=24, ef_construct=77, full_scan_threshold=500),
        optimizers_config=models.OptimizersConfigDiff(default_segment_number=0),
        quantization_config=models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8)),
        timeout=30,
    )
    config = remote.get_collection("set").config
    assert (config.hnsw_config.m, config.hnsw_config.ef_construct) == (24, 77), config
    assert config.hnsw_config.full_scan_threshold == 500, config
    assert config.quantization_config.scalar.type == models.ScalarType.INT8, config
    assert remote.update_collection("set", quantization_config=models.Disabled.DISABLED)
    assert remote.get_collection("set").config.quantization_config is None
    assert remote.update_collection("set", hnsw_config=models.HnswConfigDiff(m=24))
    for field, change in [
        ("hnsw_config/m", {"hnsw_config": models.HnswConfigDiff(m=32)}),
        ("indexing_threshold", {"optimizers_config": models.OptimizersConfigDiff(indexing_threshold=0)}),
        ("replication_factor", {"collection_params": models.CollectionParamsDiff(replication_factor=2)}),
    ]:
        error = refusal(lambda: remote.update_collection("set", **change), [422])
        assert field.encode() in error.content, error.content
    vectors_config = models.VectorParams(size=3, distance=models.Distance.DOT)
    for field, setting in [
        ("shard_number", {"shard_number": 2}),
        ("replication_factor", {"replication_factor": 2}),
        ("on_disk_payload", {"on_disk_payload": False}),
        ("sparse_vectors", {"sparse_vectors_config": {"s": models.SparseVectorParams()}}),
        ("wal_config", {"wal_config": models.WalConfigDiff(wal_capacity_mb=8)}),
        ("quantization_config", {"quantization_config": models.BinaryQuantization(binary=models.BinaryQuantizationConfig())}),
        ("metadata", {"metadata": {"a": 1}}),
    ]:
        error = refusal(lambda: remote.create_collection("x", vectors_config=vectors_config, **setting), [422])
        assert field.encode() in error.content, error.content
    assert not remote.collection_exists("x")


@section
def errors(pair, rng):
    pair.create("c", models.Distance.DOT, dim=3)
    remote = pair.remote
    for status, text, do in [
        (404, "nobody", lambda: remote.get_collection("nobody")),
        (404, "nobody", lambda: remote.count("nobody")),
        (422, "3", lambda: remote.upsert("c", [models.PointStruct(id=1, vector=[1, 2], payload={})])),
        (422, "", lambda: remote.create_collection("a b", vectors_config=models.VectorParams(size=3, distance="Dot"))),
        (501, "one node", lambda: remote.cluster_status()),
        (501, "/snapshots", lambda: remote.create_full_snapshot()),
    ]:
        error = refusal(do, [status])
        # What a person sees is the message, which has the first 200 bytes.
        assert text in str(error) and "detail" in str(error), str(error)
        assert error.structured()["status"] == status


# --- Points ----------------------------------------------------------------------------------


@section
def writing(pair, rng):
    for distance in METRICS:
        name = f"written-{distance.value}"
        made = filled(pair, name, rng, distance)
        known = [point.id for point in made]
        everything = lambda client: client.retrieve(name, ids=known, with_vectors=True)
        pair.both(everything)
        # Replaced, as a batch, and without payloads.
        batch = models.Batch(ids=known[:20], vectors=vectors(rng, 20).tolist())
        pair.both(lambda client: client.upsert(name, points=batch))
        batch = models.Batch(
            ids=[1000, 1001, known[5]], vectors=vectors(rng, 3).tolist(), payloads=[{"n": 1}, {}, {"n": 2}]
        )
        pair.both(lambda client: client.upsert(name, points=batch))
        pair.both(everything)
        pair.both(lambda client: client.count(name).count)
        pair.both(lambda client: client.retrieve(name, ids=[1001, 5000, known[0], 1000], with_payload=False))
        pair.both(lambda client: client.delete(name, points_selector=known[10:40]))
        pair.both(lambda client: client.delete(name, points_selector=models.PointIdsList(points=[1000, 7777])))
        pair.both(lambda client: client.count(name).count)
        pair.both(everything)


@section
def uploading(pair, rng):
    pair.create("up", models.Distance.DOT)
    made = points(rng)
    pair.both(lambda client: client.upload_points("up", points=made, batch_size=17, wait=True))
    more = vectors(rng, 90)
    payloads = [payload(rng) for _ in range(90)]
    pair.both(
        lambda client: client.upload_collection(
            "up", vectors=more, payload=payloads, ids=range(5000, 5090), batch_size=40
        )
    )
    wait_for_count(pair, "up", COUNT + 90)
    known = [point.id for point in made] + list(range(5000, 5090))
    pair.both(lambda client: client.retrieve("up", ids=known, with_vectors=True))


def wait_for_count(pair, name, count):
    until = time.monotonic() + 30
    while pair.remote.count(name).count != count:
        assert time.monotonic() < until, pair.remote.count(name)
        time.sleep(0.05)


@section
def scrolling(pair, rng):
    made = filled(pair, "scrolled", rng)
    known = [point.id for point in made]
    for limit in [1, 7, 100, 1000]:
        for chosen in [None, filter_tree(rng, known), filter_tree(rng, known)]:
            offset, seen = None, 0
            while True:
                page, offset = pair.both(
                    lambda client: client.scroll(
                        "scrolled", limit=limit, offset=offset, scroll_filter=chosen, with_vectors=limit == 7
                    )
                )
                seen += len(page)
                if offset is None or seen > 30 * limit:
                    break
    for key in ["n", "price", "when"]:
        for direction in [models.Direction.ASC, models.Direction.DESC]:
            order = models.OrderBy(key=key, direction=direction)
            ordered(pair, order, lambda client: client.scroll("scrolled", limit=500, order_by=order)[0])


def ordered(pair, order, do):
    """Points of equal values may come in any order."""
    for client in (pair.remote, pair.local):
        client.create_payload_index(
            "scrolled",
            order.key,
            {"n": models.PayloadSchemaType.INTEGER, "price": models.PayloadSchemaType.FLOAT}.get(
                order.key, models.PayloadSchemaType.DATETIME
            ),
        )
    remote, local = do(pair.remote), do(pair.local)
    values = lambda records: [record.order_value for record in records]
    assert values(remote) == values(local), f"{order}: {values(remote)} and {values(local)}"
    assert {record.id for record in remote} == {record.id for record in local}


@section
def filtering(pair, rng):
    made = filled(pair, "filtered", rng)
    known = [point.id for point in made]
    sizes = set()
    for case in range(150):
        chosen = filter_tree(rng, known)
        with told(f"filter {case}: {chosen.model_dump_json(exclude_none=True)}"):
            sizes.add(pair.both(lambda client: client.count("filtered", count_filter=chosen).count))
            if case % 5 == 0:
                query = vectors(rng, 1)[0].tolist()
                pair.both(
                    lambda client: client.query_points("filtered", query=query, query_filter=chosen, limit=20)
                )
    assert len(sizes) > 20, "the filters choose too alike"


@section
def deleting_by_filter(pair, rng):
    made = filled(pair, "thinned", rng)
    known = [point.id for point in made]
    for case in range(12):
        chosen = filter_tree(rng, known, depth=0)
        with told(f"filter {case}: {chosen.model_dump_json(exclude_none=True)}"):
            selector = models.FilterSelector(filter=chosen) if case % 2 else chosen
            pair.both(lambda client: client.delete("thinned", points_selector=selector))
            pair.both(lambda client: client.retrieve("thinned", ids=known, with_payload=False))
        pair.fill("thinned", made[::3])


@section
def payloads(pair, rng):
    made = filled(pair, "paid", rng)
    known = [point.id for point in made]
    some = lambda count: [known[int(i)] for i in rng.choice(len(known), size=count, replace=False)]
    for case in range(60):
        chosen = models.FilterSelector(filter=filter_tree(rng, known, depth=0)) if case % 3 == 0 else some(9)
        kind, change = case % 6, payload(rng)
        with told(f"change {case} of kind {kind}: {change}"):
            if kind == 0:
                pair.both(lambda client: client.set_payload("paid", payload=change, points=chosen))
            elif kind == 1:
                pair.both(lambda client: client.overwrite_payload("paid", payload=change, points=chosen))
            elif kind == 2:
                pair.both(lambda client: client.delete_payload("paid", keys=["color", "deep.a", "none"], points=chosen))
            elif kind == 3:
                pair.both(lambda client: client.set_payload("paid", payload={"c": case}, points=chosen, key="deep.a"))
            elif kind == 4:
                pair.both(lambda client: client.delete_payload("paid", keys=["tags", "n"], points=chosen))
            elif case % 12 == 5:
                pair.both(lambda client: client.clear_payload("paid", points_selector=chosen))
            pair.both(lambda client: client.retrieve("paid", ids=known))


@section
def indexes(pair, rng):
    filled(pair, "indexed", rng)
    kinds = {
        "color": models.PayloadSchemaType.KEYWORD,
        "n": models.PayloadSchemaType.INTEGER,
        "price": models.PayloadSchemaType.FLOAT,
        "flag": models.PayloadSchemaType.BOOL,
        "when": models.PayloadSchemaType.DATETIME,
        "place": models.PayloadSchemaType.GEO,
    }
    for field, kind in kinds.items():
        done = pair.remote.create_payload_index("indexed", field_name=field, field_schema=kind)
        assert done.status == models.UpdateStatus.COMPLETED
    schema = pair.remote.get_collection("indexed").payload_schema
    assert {field: info.data_type for field, info in schema.items()} == kinds, schema
    assert pair.remote.delete_payload_index("indexed", field_name="n").status == models.UpdateStatus.COMPLETED
    assert "n" not in pair.remote.get_collection("indexed").payload_schema


@section
def facets(pair, rng):
    made = filled(pair, "faceted", rng)
    known = [point.id for point in made]
    for field, kind in [("color", "keyword"), ("n", "integer"), ("tags", "keyword"), ("flag", "bool")]:
        pair.remote.create_payload_index("faceted", field_name=field, field_schema=kind)
        for chosen in [None, filter_tree(rng, known, depth=0)]:
            for limit in [3, 100]:
                pair.both(
                    lambda client: client.facet("faceted", key=field, facet_filter=chosen, limit=limit, exact=True)
                )


# --- Queries ---------------------------------------------------------------------------------


@section
def querying(pair, rng):
    for distance in METRICS:
        name = f"asked-{distance.value}"
        made = filled(pair, name, rng, distance)
        known = [point.id for point in made]
        for case in range(12):
            query = vectors(rng, 1)[0].tolist()
            ask = lambda **kinds: pair.both(lambda client: client.query_points(name, **kinds))
            with told(f"{distance} {case}"):
                ask(query=query)
                ask(query=query, limit=25, offset=case)
                ask(query=query, limit=10 * COUNT, with_payload=False)
                ask(query=models.NearestQuery(nearest=query), limit=5)
                ask(query=np.asarray(query), limit=5, with_vectors=True)
                ask(query=known[case], limit=7)
                ask(query=known[-1 - case], limit=7, with_payload=["color", "deep.a"])
                ask(query=query, with_payload=models.PayloadSelectorExclude(exclude=["color", "deep"]))
                ask(query=query, with_payload=models.PayloadSelectorInclude(include=["n", "tags"]))
                ask(query=query, search_params=models.SearchParams(hnsw_ef=64, exact=False))
                ask(query=query, search_params=models.SearchParams(exact=True), limit=20)
                best = pair.remote.query_points(name, query=query, limit=20).points
                # Between two scores, so that no rounding decides.
                threshold = (best[7].score + best[8].score) / 2
                found = ask(query=query, limit=20, score_threshold=threshold)
                assert len(found.points) == 8
        pair.refused(lambda client: client.query_points(name, query=[1.0, 2.0]))
        # No query: the points in the order of their ids.
        ids = lambda client: [point.id for point in client.query_points(name, limit=30).points]
        pair.both(ids)


@section
def empty(pair, rng):
    pair.create("empty")
    query = vectors(rng, 1)[0].tolist()
    pair.both(lambda client: client.query_points("empty", query=query, limit=5))
    pair.both(lambda client: client.scroll("empty"))
    pair.both(lambda client: client.count("empty").count)
    pair.both(lambda client: client.retrieve("empty", ids=[1]))


@section
def batches(pair, rng):
    made = filled(pair, "batched", rng)
    known = [point.id for point in made]
    requests = []
    for case in range(20):
        requests.append(
            models.QueryRequest(
                query=vectors(rng, 1)[0].tolist() if case % 2 else known[case],
                filter=filter_tree(rng, known, depth=0) if case % 3 == 0 else None,
                limit=int(rng.integers(1, 30)),
                offset=case % 4,
                with_payload=case % 5 == 0,
                with_vector=case % 7 == 0,
            )
        )
    pair.both(lambda client: client.query_batch_points("batched", requests=requests))


@section
def groups(pair, rng):
    made = filled(pair, "grouped", rng)
    known = [point.id for point in made]
    for field in ["color", "n", "tags"]:
        for case in range(4):
            query = vectors(rng, 1)[0].tolist()
            chosen = filter_tree(rng, known, depth=0) if case % 2 else None
            with told(f"{field} {case}"):
                pair.both(
                    lambda client: client.query_points_groups(
                        "grouped", group_by=field, query=query, limit=4, group_size=3, query_filter=chosen
                    )
                )


@section
def named(pair, rng):
    kinds = {"image": (8, models.Distance.COSINE), "title": (5, models.Distance.DOT), "sound": (3, models.Distance.EUCLID)}
    pair.create(
        "named",
        vectors_config={name: models.VectorParams(size=size, distance=metric) for name, (size, metric) in kinds.items()},
    )
    made = []
    for id in range(120):
        has = [name for name in kinds if rng.random() < 0.8] or ["image"]
        made.append(
            models.PointStruct(
                id=id, payload=payload(rng), vector={name: vectors(rng, 1, kinds[name][0])[0].tolist() for name in has}
            )
        )
    pair.fill("named", made)
    params = pair.remote.get_collection("named").config.params.vectors
    assert {name: (one.size, one.distance) for name, one in params.items()} == kinds, params
    known = list(range(120))
    pair.both(lambda client: client.retrieve("named", ids=known, with_vectors=True))
    pair.both(lambda client: client.retrieve("named", ids=known, with_vectors=["title"]))
    pair.both(lambda client: client.count("named", count_filter=models.Filter(must=[models.HasVectorCondition(has_vector="sound")])).count)
    for name, (size, _) in kinds.items():
        for case in range(6):
            query = vectors(rng, 1, size)[0].tolist()
            chosen = filter_tree(rng, known, depth=0) if case % 2 else None
            with told(f"{name} {case}"):
                pair.both(
                    lambda client: client.query_points(
                        "named", query=query, using=name, query_filter=chosen, limit=15, with_vectors=case % 3 == 0
                    )
                )
        with_one = next(point.id for point in made if name in point.vector)
        pair.both(lambda client: client.query_points("named", query=with_one, using=name, limit=9))
        without = [point.id for point in made if name not in point.vector]
        pair.refused(lambda client: client.query_points("named", query=without[0], using=name))
    pair.refused(lambda client: client.query_points("named", query=[1.0, 2.0], using="nobody"))
    some = models.Filter(must=[models.HasIdCondition(has_id=known[:40])])
    operations = [
        models.UpdateVectorsOperation(
            update_vectors=models.UpdateVectors(
                points=[models.PointVectors(id=id, vector={"sound": vectors(rng, 1, 3)[0].tolist()}) for id in known[:60]]
            )
        ),
        models.DeleteVectorsOperation(delete_vectors=models.DeleteVectors(points=known[90:], vector=["title", "sound"])),
        models.DeleteVectorsOperation(delete_vectors=models.DeleteVectors(filter=some, vector=["image"])),
    ]
    pair.both(lambda client: client.batch_update_points("named", update_operations=operations))
    pair.both(lambda client: client.retrieve("named", ids=known, with_vectors=True))
    requests = [models.QueryRequest(query=vectors(rng, 1, kinds[name][0])[0].tolist(), using=name, limit=5) for name in kinds]
    pair.both(lambda client: client.query_batch_points("named", requests=requests))


@section
def multivectors(pair, rng):
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    kinds = {"tokens": (6, models.Distance.COSINE), "parts": (4, models.Distance.DOT)}
    params = {name: models.VectorParams(size=size, distance=metric, multivector_config=several) for name, (size, metric) in kinds.items()}
    pair.create("several", vectors_config={**params, "whole": models.VectorParams(size=3, distance=models.Distance.COSINE)})
    multi = lambda name, most: vectors(rng, int(rng.integers(1, most)), kinds[name][0]).tolist()
    made = []
    for id in range(90):
        has = {name: multi(name, 8) for name in kinds if rng.random() < 0.8}
        made.append(models.PointStruct(id=id, payload=payload(rng), vector={"whole": vectors(rng, 1, 3)[0].tolist(), **has}))
    pair.fill("several", made)
    told_params = pair.remote.get_collection("several").config.params.vectors
    assert {name: one.multivector_config for name, one in told_params.items()} == {**{name: several for name in kinds}, "whole": None}
    known = list(range(90))
    pair.both(lambda client: client.retrieve("several", ids=known, with_vectors=True))
    for name in kinds:
        for case in range(8):
            query = multi(name, 6)
            chosen = filter_tree(rng, known, depth=0) if case % 2 else None
            with told(f"{name} {case}"):
                pair.both(lambda client: client.query_points("several", query=query, using=name, query_filter=chosen, limit=12, with_vectors=case == 0))
        with_one = next(point.id for point in made if name in point.vector)
        pair.both(lambda client: client.query_points("several", query=with_one, using=name, limit=9))
        prefetch, query = models.Prefetch(query=vectors(rng, 1, 3)[0].tolist(), using="whole", limit=20), multi(name, 5)
        pair.both(lambda client: client.query_points("several", prefetch=prefetch, query=query, using=name, limit=6))
    update = [models.PointVectors(id=id, vector={"tokens": multi("tokens", 5)}) for id in known[:40]]
    pair.both(lambda client: client.update_vectors("several", points=update).status)
    pair.both(lambda client: client.retrieve("several", ids=known, with_vectors=["tokens"]))


@section
def migrating(pair, rng):
    made = filled(pair, "moved", rng)
    for source, target in [(pair.local, pair.remote), (pair.remote, pair.local)]:
        source.migrate(target, ["moved"], recreate_on_collision=True)
        assert target.count("moved").count == len(made)
        query = vectors(rng, 1)[0].tolist()
        pair.both(lambda client: client.query_points("moved", query=query, limit=10, with_payload=True))


@section
def fusion(pair, rng):
    made = filled(pair, "fused", rng)
    known = [point.id for point in made]
    for case in range(10):
        prefetch = [
            models.Prefetch(
                query=vectors(rng, 1)[0].tolist() if branch else known[case],
                limit=int(rng.integers(5, 40)),
                filter=filter_tree(rng, known, depth=0) if branch == 1 else None,
            )
            for branch in range(3)
        ]
        with told(f"case {case}"):
            for query in [
                models.FusionQuery(fusion=models.Fusion.RRF),
                models.RrfQuery(rrf=models.Rrf(k=20)),
                models.FusionQuery(fusion=models.Fusion.DBSF),
            ]:
                # A point that any of them names is no answer, but in the mode in memory it is one of the others'.
                fused(pair, prefetch[1:], query)
                fused(pair, prefetch[:1], query)
            # The candidates of one search, ranked by another query.
            again = vectors(rng, 1)[0].tolist()
            pair.both(lambda client: client.query_points("fused", query=again, prefetch=prefetch[0], limit=10))
            nested = models.Prefetch(prefetch=prefetch, query=again, limit=12)
            pair.both(lambda client: client.query_points("fused", query=known[case], prefetch=nested, limit=10))


def fused(pair, prefetch, query):
    """By ranks many scores are equal, and equal ones may come in any order."""
    # All that are found, so that none is left out for another that is as good.
    do = lambda client: client.query_points("fused", query=query, prefetch=prefetch, limit=500, with_payload=False)
    remote, local = do(pair.remote).points, do(pair.local).points
    assert {hit.id for hit in remote} == {hit.id for hit in local}
    same_hits(remote, local)


@section
def recommending(pair, rng):
    for distance in METRICS:
        name = f"liked-{distance.value}"
        made = filled(pair, name, rng, distance)
        known = [point.id for point in made]
        for case in range(8):
            pick = lambda count: [known[int(i)] for i in rng.choice(len(known), size=count, replace=False)]
            positive = [*pick(2), vectors(rng, 1)[0].tolist()]
            negative = pick(2) if case % 2 else None
            chosen = filter_tree(rng, known, depth=0) if case % 3 == 0 else None
            for strategy in [None, *models.RecommendStrategy]:
                query = models.RecommendQuery(
                    recommend=models.RecommendInput(positive=positive, negative=negative, strategy=strategy)
                )
                with told(f"{distance} {case} {strategy}"):
                    pair.both(lambda client: client.query_points(name, query=query, query_filter=chosen, limit=12))


@section
def discovering(pair, rng):
    made = filled(pair, "discovered", rng)
    known = [point.id for point in made]
    for case in range(8):
        # Of two points each: nothing is nearer to one side of a pair whose sides are the same, but the mode in memory
        # sums their products in two orders and may find so.
        picked = [known[place] for place in rng.choice(len(known), 6, replace=False)]
        pairs = [models.ContextPair(positive=one, negative=other) for one, other in zip(picked[::2], picked[1::2])]
        target = vectors(rng, 1)[0].tolist()
        with told(f"case {case}"):
            query = models.DiscoverQuery(discover=models.DiscoverInput(target=target, context=pairs))
            pair.both(lambda client: client.query_points("discovered", query=query, limit=12))
            query = models.ContextQuery(context=pairs)
            pair.both(lambda client: client.query_points("discovered", query=query, limit=12))


@section
def ordering(pair, rng):
    filled(pair, "ordered", rng)
    for key, kind in [("n", "integer"), ("price", "float")]:
        pair.remote.create_payload_index("ordered", field_name=key, field_schema=kind)
        for direction in [models.Direction.ASC, models.Direction.DESC]:
            query = models.OrderByQuery(order_by=models.OrderBy(key=key, direction=direction))
            do = lambda client: client.query_points("ordered", query=query, limit=500).points
            remote, local = do(pair.remote), do(pair.local)
            assert {hit.id for hit in remote} == {hit.id for hit in local}
            values = lambda hits: [hit.payload[key] for hit in hits]
            assert values(remote) == values(local)
    sample = models.SampleQuery(sample=models.Sample.RANDOM)
    found = pair.remote.query_points("ordered", query=sample, limit=50).points
    assert len({hit.id for hit in found}) == 50


@section
def search_paths(pair, rng):
    """The paths of clients before 1.16, which the present one has no methods for."""
    made = filled(pair, "searched", rng)
    known = [point.id for point in made]
    post = lambda path, body: httpx.post(f"{pair.url}/collections/searched/points/{path}", json=body, timeout=60)

    def hits(answer):
        assert answer.status_code == 200, answer.text
        return [models.ScoredPoint(**hit) for hit in answer.json()["result"]]

    for case in range(6):
        query = vectors(rng, 1)[0].tolist()
        wanted = pair.local.query_points("searched", query=query, limit=8, offset=case).points
        same_hits(hits(post("search", {"vector": query, "limit": 8, "offset": case, "with_payload": True})), wanted)
        positive, negative = known[case], known[case + 9]
        recommend = models.RecommendQuery(recommend=models.RecommendInput(positive=[positive], negative=[negative]))
        wanted = pair.local.query_points("searched", query=recommend, limit=8).points
        body = {"positive": [positive], "negative": [negative], "limit": 8, "with_payload": True}
        same_hits(hits(post("recommend", body)), wanted)
    queries = vectors(rng, 3).tolist()
    answer = post("search/batch", {"searches": [{"vector": query, "limit": 4, "with_payload": True} for query in queries]})
    assert answer.status_code == 200, answer.text
    for query, found in zip(queries, answer.json()["result"]):
        wanted = pair.local.query_points("searched", query=query, limit=4).points
        same_hits([models.ScoredPoint(**hit) for hit in found], wanted)


# --- Names and snapshots ---------------------------------------------------------------------


@section
def aliases(pair, rng):
    filled(pair, "blue", rng)
    filled(pair, "green", rng)
    names = lambda result: sorted((found.alias_name, found.collection_name) for found in result.aliases)
    listed = lambda client: names(client.get_aliases())
    set_alias = lambda alias, name: models.CreateAliasOperation(
        create_alias=models.CreateAlias(alias_name=alias, collection_name=name)
    )
    delete = lambda alias: models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
    rename = lambda old, new: models.RenameAliasOperation(
        rename_alias=models.RenameAlias(old_alias_name=old, new_alias_name=new)
    )
    change = lambda *actions: pair.both(lambda client: client.update_collection_aliases(list(actions)))
    retrieve = lambda name: pair.both(lambda client: client.retrieve(name, ids=list(range(50)), with_vectors=True))
    change(set_alias("now", "blue"), set_alias("spare", "blue"))
    pair.both(listed)
    blue = retrieve("now")
    change(delete("now"), set_alias("now", "green"), rename("spare", "then"))
    pair.both(listed)
    pair.both(lambda client: names(client.get_collection_aliases("blue")))
    assert retrieve("now") != blue and retrieve("then") == blue
    pair.both(lambda client: client.collection_exists("now"))
    point = models.PointStruct(id=9999, vector=vectors(rng, 1)[0].tolist(), payload={"via": "alias"})
    pair.both(lambda client: client.upsert("then", points=[point]))
    pair.both(lambda client: client.retrieve("blue", ids=[9999], with_vectors=True))
    for bad in [set_alias("a", "nobody"), set_alias("green", "blue"), rename("nobody", "a"), set_alias("a", "now")]:
        pair.refused(lambda client: client.update_collection_aliases([set_alias("half", "blue"), bad]))
        pair.both(listed)
    one = models.VectorParams(size=3, distance=models.Distance.DOT)
    pair.refused(lambda client: client.create_collection("now", vectors_config=one))
    pair.both(lambda client: client.delete_collection("now"))
    pair.both(lambda client: client.delete_collection("green"))
    pair.both(listed)
    pair.both(lambda client: client.collection_exists("now"))


@section
def asking_an_alias(pair, rng):
    filled(pair, "own", rng)
    set_alias = models.CreateAlias(alias_name="other", collection_name="own")
    pair.both(lambda client: client.update_collection_aliases([models.CreateAliasOperation(create_alias=set_alias)]))
    for _ in range(5):
        query = vectors(rng, 1)[0].tolist()
        found = pair.both(lambda client: client.query_points("other", query=query, limit=6))
        check_same(found, pair.local.query_points("own", query=query, limit=6))


@section
def snapshots(pair, rng):
    remote = pair.remote
    made = filled(pair, "kept", rng)
    known = [point.id for point in made]
    for earlier in remote.list_snapshots("kept"):
        assert remote.delete_snapshot("kept", snapshot_name=earlier.name)
    assert remote.list_snapshots("kept") == []
    snapshot = remote.create_snapshot("kept")
    assert remote.list_snapshots("kept") == [snapshot] and len(snapshot.checksum) == 64, snapshot
    fetched = httpx.get(f"{pair.url}/collections/kept/snapshots/{snapshot.name}", timeout=60)
    assert len(fetched.content) == snapshot.size
    remote.delete("kept", points_selector=known)
    assert remote.count("kept").count == 0
    location = f"file://{pair.data}/snapshots/kept/{snapshot.name}"
    assert remote.recover_snapshot("kept", location=location, checksum=snapshot.checksum)
    pair.both(lambda client: client.retrieve("kept", ids=known, with_vectors=True))
    # Of another name, made by it.
    assert remote.recover_snapshot("copied", location=location, priority=models.SnapshotPriority.SNAPSHOT)
    check_same(remote.retrieve("copied", ids=known, with_vectors=True), pair.local.retrieve("kept", ids=known, with_vectors=True))
    for bad in ["http://127.0.0.1:1/x.snapshot", "file:///etc/passwd", location + "x", f"file://{pair.data}/LOCK"]:
        error = refusal(lambda: remote.recover_snapshot("kept", location=bad), [422])
        assert b"/location" in error.content
    refusal(lambda: remote.recover_snapshot("kept", location=location, checksum="0" * 64), [409])
    assert remote.delete_snapshot("kept", snapshot_name=snapshot.name)
    assert remote.list_snapshots("kept") == []
    refusal(lambda: remote.delete_snapshot("kept", snapshot_name=snapshot.name), [404])


def shown(error):
    """Where in this script it failed, and the beginning of why."""
    here = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
    lines = [f"  line {frame.lineno}: {frame.line}" for frame in here]
    return "\n".join([*lines, str(error)[:2000]])


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(SECTIONS))
        return 0
    url, data, *chosen = arguments
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown or not chosen:
        print(f"no such section: {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
        return 2
    pair = Pair(url)
    pair.data = data
    failed = 0
    for name in chosen:
        started = time.monotonic()
        try:
            SECTIONS[name](pair, seeded(name))
            print(f"ok      {name} in {time.monotonic() - started:.1f} s", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED  {name}\n{shown(error)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
