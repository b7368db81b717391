"""What schemathesis is told beside the document: names of what is there, and how types of bodies are written.

Read by the variable SCHEMATHESIS_HOOKS. `DEHUB_URL` is the server, and `DEHUB_COUNTS` a file for the number of cases by
status.
"""

import io
import json
import os
import random
from collections import Counter

import httpx
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import schemathesis
from hypothesis import strategies as st

DIM = 4
COLLECTION = "books"
SEED = 20261

# One of these is put in the place of what was made up, most of the time.
NAMES = {
    "collection": [COLLECTION],
    "bank": ["queries", "points", "spare"],
    "correction": ["is", "csls", "spare"],
    "id": ["1", "2", "17", "three"],
    "prior": ["popularity", "spare"],
    "field": ["genre", "year"],
    "job": [1, 2],
    "against": ["recent", "points"],
}
# What is dropped or replaced as a whole must not be what the others work on.
ENDING = {"deleteCollection", "uploadSnapshot", "recoverSnapshot", "restoreBackup"}
REFILL_EVERY = 40

chance = random.Random(SEED)
counts = Counter()
client = httpx.Client(base_url=os.environ["DEHUB_URL"], timeout=60)


def spread(count, seed):
    numbers = random.Random(seed)
    return [[round(numbers.uniform(-1, 1), 3) for _ in range(DIM)] for _ in range(count)]


def fill():
    """Makes the collection, or gives it back what cases took from it."""
    root = f"/collections/{COLLECTION}"
    genres = ["novel", "poem", "play", "essay"]
    payloads = [
        {"genre": genres[row % 4], "year": 1500 + 7 * row, "tags": ["a", "b"][: row % 3], "place": {"lat": row, "lon": -row}}
        for row in range(60)
    ]
    ids = [*range(1, 60), "three"]
    for method, path, body in [
        ("PUT", root, {"vectors": {"size": DIM, "distance": "Cosine"}}),
        ("PUT", f"{root}/points", {"batch": {"ids": ids, "vectors": spread(60, 1), "payloads": payloads}}),
        ("PUT", f"{root}/index", {"field_name": "genre", "field_schema": "keyword"}),
        ("PUT", f"{root}/index", {"field_name": "year", "field_schema": "integer"}),
        ("PUT", f"{root}/banks/queries", {"kind": "query", "vectors": spread(64, 2), "ids": list(range(64))}),
        ("PUT", f"{root}/banks/recent", {"kind": "query", "vectors": spread(40, 3), "ids": list(range(40))}),
        ("PUT", f"{root}/banks/points", {"kind": "gallery", "vectors": spread(20, 4), "ids": list(range(20))}),
        ("PUT", f"{root}/corrections/is", {"method": "IS", "query_bank": "queries"}),
        ("PUT", f"{root}/corrections/csls", {"method": "CSLS", "query_bank": "queries"}),
        ("PUT", f"{root}/priors/popularity", {"ids": ids[:20], "values": [row / 20 for row in range(20)]}),
    ]:
        response = client.request(method, path, json=body)
        # What is there already is fine.
        assert response.status_code in (200, 409), f"{method} {path}: {response.text}"


fill()


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    return with_names(context, path_parameters)


@schemathesis.hook
def map_query(context, query):
    return with_names(context, query)


def with_names(context, parameters):
    if not isinstance(parameters, dict):
        return parameters
    operation = context.operation.definition.raw.get("operationId")
    for name in parameters:
        is_kept = name == "collection" and operation in ENDING
        if name in NAMES and not is_kept and chance.random() < 0.9:
            parameters[name] = chance.choice(NAMES[name])
    # A request without time is refused as by a server that is overloaded, which is no defect.
    if "timeout" in parameters:
        parameters["timeout"] = 5
    return parameters


@schemathesis.hook
def map_body(context, body):
    return fitted(body) if chance.random() < 0.8 else body


def fitted(value, key=None):
    """The same with vectors of as many dimensions as the collection has, ids of points and names that are there."""
    if isinstance(value, dict):
        return {own: fitted(inner, own) for own, inner in value.items()}
    if isinstance(value, list):
        if value and all(type(number) in (int, float) for number in value) and key not in ("ids", "points", "weights", "has_id"):
            return [float(number) for number in (value * DIM)[:DIM]]
        return [fitted(inner, key) for inner in value]
    if key in ("id", "ids", "points", "has_id", "query", "positive", "negative", "target") and isinstance(value, (int, str)):
        return chance.choice([1, 2, 17, "three"]) if chance.random() < 0.7 else value
    known = {
        "correction": NAMES["correction"],
        "query_bank": ["queries"],
        "gallery_bank": ["points"],
        "bank": ["recent"],
        "collection": [COLLECTION],
        "collection_name": [COLLECTION],
        "key": ["genre", "year", "tags", "place"],
        "group_by": ["genre", "year"],
        "method": ["IS", "CSLS", "DIS", "NICDM", "NNN(k=2)"],
        "using": [""],
        "size": [DIM],
    }.get(key)
    if known and isinstance(value, (str, int)) and chance.random() < 0.8:
        return chance.choice(known)
    return value


@schemathesis.hook
def after_call(context, case, response):
    counts[response.status_code] += 1
    with open(os.environ["DEHUB_COUNTS"], "w") as file:
        json.dump(counts, file)
    if sum(counts.values()) % REFILL_EVERY == 0:
        fill()


# --- Bodies that are not JSON ----------------------------------------------------------------

ids = st.integers(0, 99) | st.text("abc", min_size=1, max_size=3)
rows = st.lists(
    st.fixed_dictionaries({"id": ids, "vector": st.lists(st.floats(-9, 9, width=32), min_size=DIM, max_size=DIM)}),
    min_size=1,
    max_size=5,
)


def lines(made):
    return b"".join(json.dumps(row).encode() + b"\n" for row in made)


def table(made):
    vectors = pyarrow.array([row["vector"] for row in made], pyarrow.list_(pyarrow.float32(), DIM))
    return pyarrow.table({"id": [str(row["id"]) for row in made], "vector": vectors})


def arrow(made):
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table(made).schema) as writer:
        writer.write_table(table(made))
    return sink.getvalue()


def parquet(made):
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table(made), sink)
    return sink.getvalue()


def cut(whole):
    """Some of them are damaged."""
    return whole if chance.random() < 0.7 else whole[: chance.randrange(len(whole) + 1)]


for media, write in [
    ("application/x-ndjson", lines),
    ("application/vnd.apache.arrow.stream", arrow),
    ("application/vnd.apache.parquet", parquet),
]:
    schemathesis.openapi.media_type(media, rows.map(write).map(cut))


@schemathesis.serializer(
    "application/x-ndjson", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
)
def as_they_are(context, value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()
