"""Files of vectors as the libraries of Python make them, and broken ones.

    make.py FOLDER

Writes the files, and `files.json`: of each how it is read and which matrix it holds, or what its refusal says. The
matrices are in the folder too, as plain 32-bit floats, the lowest byte first.
"""

import gzip
import json
import pathlib
import sys

import datasets
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import safetensors.numpy

ROWS, DIM = 61, 7
numbers = np.random.default_rng(20261)
# Eighths are the same numbers in 16, 32 and 64 bits; whole numbers below 128 are in bytes as well.
MATRICES = {
    "eighths": numbers.integers(-800, 800, (ROWS, DIM)).astype(np.float32) / 8,
    "whole": numbers.integers(0, 128, (ROWS, DIM)).astype(np.float32),
}
EIGHTHS, WHOLE = MATRICES["eighths"], MATRICES["whole"]
IDS = [f"id {row}" for row in range(ROWS)]

folder = pathlib.Path(sys.argv[1])
good, bad = [], []


def path(name):
    return folder / name


def reads(name, matrix="eighths", ids=False, **options):
    """Says that a file is read to a matrix."""
    good.append({"file": name, "matrix": matrix, "ids": ids, "options": options})
    return path(name)


def refuses(name, *fragments, **options):
    """Says that a file is refused in these words."""
    bad.append({"file": name, "fragments": fragments, "options": options})
    return path(name)


def numpy_files():
    for kind in ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]:
        for order in "CF":
            name = f"{kind[1:]}_{'big' if kind[0] == '>' else 'little'}_{order}.npy"
            np.save(reads(name), np.array(EIGHTHS, dtype=kind, order=order))
    for kind in ["i1", "u1"]:
        np.save(reads(f"{kind}.npy", "whole"), WHOLE.astype(kind))
    for version in [(1, 0), (2, 0), (3, 0)]:
        with open(reads(f"version_{version[0]}.npy"), "wb") as file:
            np.lib.format.write_array(file, EIGHTHS, version=version)
    np.save(refuses("objects.npy", "Python objects, never unpickled"), np.array([[1, "a"]], dtype=object))
    np.save(refuses("flat.npy", "shape (61)"), EIGHTHS[:, 0].copy())
    np.save(refuses("overflow.npy", "row 3", "[2]", "fits 32 bits"), overflowing())
    np.savez(reads("one.npz"), vectors=EIGHTHS)
    np.savez(reads("several.npz", dataset="b"), a=WHOLE, b=EIGHTHS.astype(np.float64))
    np.savez_compressed(reads("packed.npz", dataset="b"), a=WHOLE, b=np.asfortranarray(EIGHTHS))
    np.savez(refuses("unclear.npz", "the name of one array", "a, b"), a=WHOLE, b=EIGHTHS)
    np.savez(refuses("missing.npz", "array c", "a, b", dataset="c"), a=WHOLE, b=EIGHTHS)


def overflowing():
    matrix = EIGHTHS.astype(np.float64)
    matrix[3, 2] = 1e39
    return matrix


def vecs_files():
    def vecs(name, kind, matrix, rows):
        head = np.int32(DIM).tobytes()
        file = reads(name, matrix)
        file.write_bytes(b"".join(head + row.astype(kind).tobytes() for row in rows))
        return file.read_bytes()

    whole = vecs("a.fvecs", "<f4", "eighths", EIGHTHS)
    vecs("a.ivecs", "<i4", "whole", WHOLE)
    vecs("a.bvecs", "u1", "whole", WHOLE)
    row = 4 + 4 * DIM
    refuses("cut.fvecs", "row 60", "ends within the row").write_bytes(whole[:-3])
    ragged = whole[: 5 * row] + np.int32(2).tobytes() + bytes(8) + whole[5 * row :]
    refuses("ragged.fvecs", "row 5", "has 2 numbers", "have 7").write_bytes(ragged)
    large = WHOLE.astype(np.int32)
    large[9, 1] = 2**24 + 1
    packed = b"".join(np.int32(DIM).tobytes() + row.tobytes() for row in large)
    refuses("large.ivecs", "row 9", "[1]", "exactly", "16777217").write_bytes(packed)


def bin_files():
    head = np.array([ROWS, DIM], dtype="<u4").tobytes()
    for name, kind, matrix in [
        ("a.fbin", "<f4", "eighths"),
        ("a.ibin", "<i4", "whole"),
        ("a.u8bin", "u1", "whole"),
        ("a.i8bin", "i1", "whole"),
    ]:
        reads(name, matrix).write_bytes(head + MATRICES[matrix].astype(kind).tobytes())
    refuses("cut.fbin", "61 rows", "holds 60 rows").write_bytes(head + EIGHTHS.tobytes()[:-1])


def hdf5_files():
    def file(name, distance=b"angular", **how):
        with h5py.File(path(name), "w") as made:
            made.attrs["distance"] = distance
            made.attrs["dimension"], made.attrs["point_type"] = DIM, "float"
            made.create_dataset("train", data=EIGHTHS, **how)
            made.create_dataset("test", data=WHOLE.astype("<i4"))
            made.create_dataset("neighbors", data=np.zeros((ROWS, 10), "<i4"))

    file("angular.hdf5")
    reads("angular.hdf5")
    reads("angular.hdf5", "whole", dataset="test")
    refuses("angular.hdf5", "dataset other", "neighbors, test, train", dataset="other")
    for name, how in {
        "chunked": {"chunks": (5, 3)},
        "deflated": {"chunks": (8, DIM), "compression": "gzip", "shuffle": True, "fletcher32": True},
        "lzf": {"chunks": (8, DIM), "compression": "lzf"},
        "grows": {"maxshape": (None, DIM)},
        "half": {"dtype": "<f2"},
        "big": {"dtype": ">f8"},
    }.items():
        file(f"{name}.h5", "euclidean", **how)
        reads(f"{name}.h5")
    file("hamming.hdf5", "hamming")
    refuses("hamming.hdf5", "attribute distance", "hamming")
    file("jaccard.hdf5", "jaccard")
    refuses("jaccard.hdf5", "attribute distance", "jaccard")
    file("sparse.hdf5")
    with h5py.File(refuses("sparse.hdf5", "dense vectors", "sparse"), "a") as made:
        made.attrs["type"] = "sparse"
    whole = path("angular.hdf5").read_bytes()
    refuses("cut.hdf5", "cut.hdf5").write_bytes(whole[: len(whole) // 2])
    with h5py.File(refuses("strings.hdf5", "dataset train of"), "w") as made:
        made.create_dataset("train", data=np.array([[b"a", b"b"]]))
    with h5py.File(path("similarities.h5"), "w") as made:
        made.create_dataset("group/only", data=EIGHTHS)
    reads("similarities.h5", dataset="group/only")


def tables():
    """Every way in which a column of vectors is written."""
    rows = EIGHTHS.tolist()
    plain = {
        "list": pa.array(rows, pa.list_(pa.float32())),
        "doubles": pa.array(rows, pa.list_(pa.float64())),
        "halves": pa.array([row.astype(np.float16) for row in EIGHTHS], pa.list_(pa.float16())),
        "large": pa.array(rows, pa.large_list(pa.float32())),
        "fixed": pa.array(rows, pa.list_(pa.float32(), DIM)),
        "fixed_halves": pa.FixedSizeListArray.from_arrays(pa.array(EIGHTHS.astype(np.float16).ravel()), DIM),
        "fixed_doubles": pa.array(rows, pa.list_(pa.float64(), DIM)),
    }
    return {name: pa.table({"id": IDS, "vector": column}) for name, column in plain.items()}


def arrow_files():
    for name, table in tables().items():
        for compression in ["snappy", "zstd", "none"]:
            file = reads(f"{name}_{compression}.parquet", ids=True)
            pq.write_table(table, file, compression=compression, row_group_size=17)
        with pa.ipc.new_file(reads(f"{name}.arrow", ids=True), table.schema) as writer:
            writer.write_table(table, max_chunksize=17)
        with pa.ipc.new_stream(reads(f"{name}.arrows", ids=True), table.schema) as writer:
            writer.write_table(table, max_chunksize=17)
    for compression in ["lz4", "zstd"]:
        pyarrow.feather.write_feather(table, reads(f"{compression}.feather", ids=True), compression=compression)
    split = {"use_byte_stream_split": ["vector.list.element"], "use_dictionary": False}
    pq.write_table(tables()["list"], reads("split.parquet", ids=True), version="2.6", **split)
    pq.write_table(tables()["list"], reads("pages.parquet", ids=True), data_page_version="2.0", write_page_index=True)
    ragged = EIGHTHS.tolist()
    ragged[23] = ragged[23][:3]
    holes = EIGHTHS.tolist()
    holes[23][3] = None
    for name, column, fragments in [
        ("ragged", ragged, ("row 23", "has 3 numbers", "have 7")),
        ("holes", holes, ("row 23", "vector[3]", "null")),
        ("nulls", [*EIGHTHS.tolist()[:23], None], ("row 23", "field vector", "null")),
    ]:
        table = pa.table({"vector": pa.array(column, pa.list_(pa.float32()))})
        pq.write_table(table, refuses(f"{name}.parquet", *fragments), row_group_size=10)
        with pa.ipc.new_file(refuses(f"{name}.arrow", *fragments), table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
    table = pa.table({"first": tables()["list"]["vector"]})
    pq.write_table(table, refuses("unnamed.parquet", "vector, embedding, emb, values", "first"))
    pq.write_table(table, reads("unnamed2.parquet", vector_field="first"))
    whole = path("list.arrow").read_bytes()
    refuses("cut.arrow", "cut.arrow").write_bytes(whole[:-9])
    refuses("half.arrow", "half.arrow").write_bytes(whole[: len(whole) // 2])
    whole = path("list_zstd.parquet").read_bytes()
    refuses("cut.parquet", "cut.parquet").write_bytes(whole[:-9])


def frames():
    for name, column in {"arrays": list(EIGHTHS), "lists": EIGHTHS.tolist()}.items():
        frame = pd.DataFrame({"id": IDS, "embedding": column})
        frame.to_parquet(reads(f"pandas_{name}.parquet", ids=True))
        frame.to_feather(reads(f"pandas_{name}.feather", ids=True))
    pd.DataFrame({"id": IDS, "emb": list(EIGHTHS)}, index=IDS).to_parquet(
        reads("pandas_index.parquet", ids=True, leave_out=["__index_level_0__"])
    )
    pd.DataFrame({"_id": IDS, "values": EIGHTHS.tolist()}).to_json(
        reads("pandas.jsonl", ids=True), orient="records", lines=True
    )
    for name, kind in {
        "list": pl.List(pl.Float32),
        "doubles": pl.List(pl.Float64),
        "array": pl.Array(pl.Float32, DIM),
    }.items():
        frame = pl.DataFrame({"id": IDS, "vector": pl.Series(EIGHTHS.tolist(), dtype=kind)})
        frame.write_parquet(reads(f"polars_{name}.parquet", ids=True), row_group_size=17)
        frame.write_ipc(reads(f"polars_{name}.arrow", ids=True))
        frame.write_ipc(reads(f"polars_{name}_zstd.arrow", ids=True), compression="zstd")
        frame.write_ipc_stream(reads(f"polars_{name}.arrows", ids=True), compression="lz4")
        frame.write_ndjson(reads(f"polars_{name}.ndjson", ids=True))


def hugging_face_files():
    for name, kind in {
        "list": datasets.List(datasets.Value("float32")),
        "fixed": datasets.List(datasets.Value("float32"), length=DIM),
        "doubles": datasets.List(datasets.Value("float64")),
        "large": datasets.LargeList(datasets.Value("float32")),
    }.items():
        features = datasets.Features({"id": datasets.Value("string"), "embedding": kind})
        made = datasets.Dataset.from_dict({"id": IDS, "embedding": EIGHTHS.tolist()}, features=features)
        made.to_parquet(str(reads(f"hf_{name}.parquet", ids=True)))
        made.to_json(str(reads(f"hf_{name}.jsonl", ids=True)))
        made.save_to_disk(str(path(f"hf_{name}")))
        reads(f"hf_{name}/data-00000-of-00001.arrow", ids=True)


def lines_and_tensors():
    def lines(field, rows=EIGHTHS.tolist()):
        return "".join(json.dumps({"id": key, field: row}) + "\n" for key, row in zip(IDS, rows)).encode()

    for field in ["vector", "embedding", "emb", "values"]:
        reads(f"{field}.jsonl", ids=True).write_bytes(lines(field))
    broken = EIGHTHS.tolist()
    broken[4][1] = 1e39
    refuses("large.jsonl", "line 5", "vector[1]", "1e39").write_bytes(lines("vector", broken))
    refuses("nan.jsonl", "line 1", "a JSON object").write_bytes(b'{"id": 1, "vector": [NaN]}\n')
    copies = [json.dumps({"id": key, "vector": [place + 1.0] * DIM}) for place, key in enumerate("abaac")]
    path("copies.jsonl").write_text("\n".join(copies))
    safetensors.numpy.save_file({"only": EIGHTHS.copy()}, reads("one.safetensors"))
    several = {"a": WHOLE.astype(np.float16), "b": EIGHTHS.astype(np.float64), "c": WHOLE.astype(np.int64)}
    for name, matrix in {"a": "whole", "b": "eighths", "c": "whole"}.items():
        safetensors.numpy.save_file(several, reads("several.safetensors", matrix, dataset=name))
    refuses("several.safetensors", "the name of one tensor", "a")
    whole = path("one.safetensors").read_bytes()
    refuses("cut.safetensors", "bytes of tensors").write_bytes(whole[:-1])


def packed_files():
    for name in ["f4_little_C.npy", "vector.jsonl", "list.arrow", "list_zstd.parquet", "a.fvecs", "angular.hdf5"]:
        ids = name in ["vector.jsonl", "list.arrow", "list_zstd.parquet"]
        whole = path(name).read_bytes()
        reads(f"{name}.gz", ids=ids).write_bytes(gzip.compress(whole))
        # Members one after the other, as tools for large files write them.
        reads(f"two_{name}.gz", ids=ids).write_bytes(gzip.compress(whole[:99]) + gzip.compress(whole[99:]))
        reads(f"{name}.zst", ids=ids).write_bytes(pa.compress(whole, "zstd", asbytes=True))
        refuses(f"cut_{name}.gz", f"cut_{name}.gz").write_bytes(gzip.compress(whole)[:-20])
    # Without an ending the first bytes tell.
    for name, ids in [("one.npz", False), ("list.arrows", True), ("vector.jsonl.gz", True), ("one.safetensors", False)]:
        reads(f"silent_{name.replace('.', '_')}", ids=ids).write_bytes(path(name).read_bytes())
    refuses("silent_fvecs", "tells no format").write_bytes(path("a.fvecs").read_bytes())
    reads("silent_fvecs", format="fvecs")
    refuses("model.pt", "found .pt").write_bytes(path("one.npz").read_bytes())


numpy_files()
vecs_files()
bin_files()
hdf5_files()
arrow_files()
frames()
hugging_face_files()
lines_and_tensors()
packed_files()
for name, matrix in MATRICES.items():
    path(f"{name}.f32").write_bytes(matrix.astype("<f4").tobytes())
path("files.json").write_text(json.dumps({"rows": ROWS, "dim": DIM, "ids": IDS, "good": good, "bad": bad}))
