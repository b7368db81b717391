"""Makes the bodies in this folder, with pyarrow: what its users send."""

import json

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

VECTORS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.25, -0.5, 1.0], [-1.0, 0.125, 2.0]]
NAMES = ["left", None, "a long name " * 20, "last"]


def columns(vector, ids, payload):
    return pa.table({
        "id": ids,
        "vector": pa.array(VECTORS, vector),
        "text": pa.array(["one", None, "three", None]),
        "payload": payload,
        "year": pa.array([1999, None, 2001, 2002], pa.int32()),
    })


structs = pa.array([{"name": name} for name in NAMES])
texts = pa.array([json.dumps({} if name is None else {"name": name}) for name in NAMES])
numbers = pa.array([1, 2, 3, 4])

plain = columns(pa.list_(pa.float32(), 3), numbers, structs)
with ipc.new_stream("points.arrow", plain.schema) as stream:
    for batch in plain.to_batches(max_chunksize=3):
        stream.write_batch(batch)

wide = columns(pa.large_list(pa.float64()), numbers.cast(pa.uint64()), texts.dictionary_encode())
options = ipc.IpcWriteOptions(compression="zstd")
with ipc.new_stream("points_zstd.arrow", wide.schema, options=options) as stream:
    stream.write_table(wide)

half = columns(pa.list_(pa.float16()), numbers, texts)
options = ipc.IpcWriteOptions(compression="lz4")
with ipc.new_stream("points_lz4.arrow", half.schema, options=options) as stream:
    stream.write_table(half)

pq.write_table(plain, "points.parquet", row_group_size=3)
pq.write_table(wide, "points_zstd.parquet", compression="zstd", data_page_version="2.0")

# Vectors under names, of which a point has some: `image` of two numbers, `text` of three.
named = pa.table({
    "id": pa.array([1, 2, 3]),
    "vector.image": pa.array([[3.0, 4.0], None, None], pa.list_(pa.float32())),
    "vector.text": pa.array([VECTORS[2], VECTORS[3], None], pa.list_(pa.float32(), 3)),
    "year": pa.array([1999, None, 2001], pa.int32()),
})
with ipc.new_stream("named.arrow", named.schema) as stream:
    stream.write_table(named)
pq.write_table(named, "named.parquet")

# A few kilobytes that stand for 800 MB: one text of 50 MB in 16 rows, and 100 million equal numbers.
long = pa.array(["x" * 50_000_000]).dictionary_encode()
shared = pa.DictionaryArray.from_arrays(pa.array([0] * 16, pa.int32()), long.dictionary)
bomb = pa.table({"id": pa.array(range(16)), "vector": pa.array([[1.0, 2.0, 3.0]] * 16), "text": shared})
with ipc.new_stream("bomb.arrow", bomb.schema, options=ipc.IpcWriteOptions(compression="zstd")) as stream:
    stream.write_table(bomb)
pq.write_table(bomb, "bomb_text.parquet", compression="zstd")
values = pa.repeat(pa.scalar(0.5, pa.float32()), 100_000_000)
lists = pa.ListArray.from_arrays(pa.array([0, 50_000_000, 100_000_000], pa.int32()), values)
pq.write_table(pa.table({"id": pa.array([1, 2]), "vector": lists}), "bomb_vector.parquet", compression="zstd")
