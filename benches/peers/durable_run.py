"""Durable upserts by a peer: batches, each synced before the next, for some seconds or so many batches.

A line of JSON: the points and batches written, and the seconds that took, without making the batches. Points have one
vector and a payload of one field. `fresh` ids come once; `overwriting` ones are those of 10,000 points, in turn.
"""

import argparse
import json
import os
import time

import numpy as np

OVERWRITTEN = 10_000
ROWS_MADE = 20_000


class QdrantEdge:
    """One upsert and one flush a batch. The flush syncs the write-ahead log and the segments."""

    def __init__(self, folder, dim, overwriting):
        import qdrant_edge

        self.edge = qdrant_edge
        vectors = qdrant_edge.EdgeVectorParams(size=dim, distance=qdrant_edge.Distance.Dot)
        self.shard = qdrant_edge.EdgeShard.create(folder, qdrant_edge.EdgeConfig(vectors=vectors))

    def make(self, ids, vectors):
        points = [self.edge.Point(int(id), row.tolist(), {"name": f"n{id}"}) for id, row in zip(ids, vectors)]
        return self.edge.UpdateOperation.upsert_points(points)

    def write(self, batch):
        self.shard.update(batch)
        self.shard.flush()


class LanceDb:
    """One commit a batch: `add` for fresh ids, `merge_insert` on the id for others. It syncs no file, and has no
    option to."""

    def __init__(self, folder, dim, overwriting):
        import lancedb
        import pyarrow

        self.arrow, self.overwriting = pyarrow, overwriting
        vector = pyarrow.list_(pyarrow.float32(), dim)
        fields = [("id", pyarrow.int64()), ("vector", vector), ("name", pyarrow.string())]
        self.schema = pyarrow.schema(fields)
        self.table = lancedb.connect(folder).create_table("points", schema=self.schema)

    def make(self, ids, vectors):
        vector = self.schema.field("vector").type
        rows = self.arrow.FixedSizeListArray.from_arrays(self.arrow.array(vectors.ravel()), type=vector)
        columns = [self.arrow.array(ids), rows, self.arrow.array([f"n{id}" for id in ids])]
        return self.arrow.Table.from_arrays(columns, schema=self.schema)

    def write(self, batch):
        if self.overwriting:
            merge = self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(batch)
        else:
            self.table.add(batch)


class LanceDbSynced(LanceDb):
    """The same, after which every file and folder that is new is synced: what its user can do."""

    def __init__(self, folder, dim, overwriting):
        super().__init__(folder, dim, overwriting)
        self.folder, self.synced = folder, set()

    def write(self, batch):
        super().write(batch)
        for folder, _, files in os.walk(self.folder):
            new = [path for path in (os.path.join(folder, file) for file in files) if path not in self.synced]
            self.synced.update(new)
            for path in new + [folder] if new else []:
                opened = os.open(path, os.O_RDONLY)
                os.fsync(opened)
                os.close(opened)


ENGINES = {"qdrant-edge": QdrantEdge, "lancedb": LanceDb, "lancedb-synced": LanceDbSynced}


def main():
    rows = np.random.default_rng(7).standard_normal((ROWS_MADE, arguments.dim), dtype=np.float32)
    overwriting = arguments.ids == "overwriting"
    engine = ENGINES[arguments.engine](arguments.folder, arguments.dim, overwriting)
    batch, written, batches, seconds = arguments.batch, 0, 0, 0.0
    while batches < arguments.batches and seconds < arguments.seconds:
        numbers = np.arange(written, written + batch, dtype=np.int64)
        ids = numbers % OVERWRITTEN if overwriting else numbers
        made = engine.make(ids, rows[numbers % ROWS_MADE])
        start = time.perf_counter()
        engine.write(made)
        seconds += time.perf_counter() - start
        written += batch
        batches += 1
    print(json.dumps({"points": written, "batches": batches, "seconds": seconds}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("folder", help="a folder that is empty")
    parser.add_argument("ids", choices=["fresh", "overwriting"])
    parser.add_argument("batch", type=int, help="points of a batch")
    parser.add_argument("dim", type=int)
    parser.add_argument("seconds", type=float, help="no batch is begun after so many seconds of writing")
    parser.add_argument("batches", type=int, help="nor after so many batches")
    arguments = parser.parse_args()
    main()
