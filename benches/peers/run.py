"""The peers: libraries that search the same vectors on one thread.

Reads the folder that the bench made: gallery.npy and queries.npy (unit vectors), bias.npy (what the corrected
ranking subtracts from each inner product), and the ids of the exact best, exact_raw.npy and exact_corrected.npy.
Builds every contestant that is installed and says what that took, a line of JSON each, then `{"ready": true}`.
For each line `NAME` on standard input it measures that contestant once at every setting, a line of JSON each,
then `{"done": true}`.

A search is one call with all queries. Its speed is queries per second of the processor, so what else the
machine does matters little. A peer's corrected ranking is what its users do: fetch more by the raw score, score
those again with the bias, keep the best.
"""

import argparse
import ctypes
import gc
import json
import os
import sys
import time

# One thread each; these must be set before the libraries load.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
# A machine's setting must not hold a peer back to older instructions.
os.environ.pop("OPENBLAS_CORETYPE", None)

import numpy as np  # noqa: E402

LINKS = 16
EF_CONSTRUCTION = 200
EFFORTS = [10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512]
FETCHES = [20, 50, 100, 200, 500]


def say(**fields):
    print(json.dumps(fields), flush=True)


class Graph:
    """A contestant with one dial, the effort. `search` gives ids and inner products."""

    settings = EFFORTS

    def fetching(self, fetched):
        return [fetched]


class FaissHnsw(Graph):
    def __init__(self, gallery, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        self.index = faiss.IndexHNSWFlat(gallery.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = EF_CONSTRUCTION
        self.index.add(gallery)
        faiss.omp_set_num_threads(1)

    def search(self, queries, k, effort):
        self.index.hnsw.efSearch = effort
        products, ids = self.index.search(queries, k)
        return ids, products


class FaissFlat:
    settings = [None]

    def __init__(self, gallery, threads):
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = faiss.IndexFlatIP(gallery.shape[1])
        self.index.add(gallery)

    def fetching(self, fetched):
        return [None]

    def search(self, queries, k, _):
        products, ids = self.index.search(queries, k)
        return ids, products


class Hnswlib(Graph):
    def __init__(self, gallery, threads):
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=gallery.shape[1])
        self.index.init_index(len(gallery), M=LINKS, ef_construction=EF_CONSTRUCTION)
        self.index.add_items(gallery, num_threads=threads)

    def search(self, queries, k, effort):
        self.index.set_ef(max(effort, k))
        ids, distances = self.index.knn_query(queries, k=k, num_threads=1)
        return ids, 1 - distances


class Usearch(Graph):
    def __init__(self, gallery, threads, dtype="f32"):
        from usearch.index import Index

        shape = {"connectivity": LINKS, "expansion_add": EF_CONSTRUCTION}
        self.index = Index(ndim=gallery.shape[1], metric="ip", dtype=dtype, **shape)
        self.index.add(np.arange(len(gallery)), gallery, threads=threads)

    def search(self, queries, k, effort):
        self.index.expansion_search = effort
        matches = self.index.search(queries, k, threads=1)
        return matches.keys.reshape(len(queries), -1), 1 - matches.distances.reshape(len(queries), -1)


class UsearchBf16(Usearch):
    def __init__(self, gallery, threads):
        super().__init__(gallery, threads, "bf16")


class Svs(Graph):
    """Vamana with twice the links a node, as the ground layer of the others has. On vectors as they are: the
    library codes them only on processors of one maker, and ends the process on others."""

    def __init__(self, gallery, threads):
        import svs

        self.svs = svs
        shape = svs.VamanaBuildParameters(graph_max_degree=2 * LINKS, window_size=EF_CONSTRUCTION, alpha=0.95)
        self.index = svs.Vamana.build(shape, gallery, svs.DistanceType.MIP, num_threads=threads)
        self.index.num_threads = 1

    def search(self, queries, k, effort):
        parameters = self.index.search_parameters
        parameters.buffer_config = self.svs.SearchBufferConfig(max(effort, k))
        self.index.search_parameters = parameters
        return self.index.search(queries, k)


class Scann:
    """A tree of √n leaves, codes of two dimensions, and the best scored again."""

    def __init__(self, gallery, threads):
        import scann

        leaves = int(len(gallery) ** 0.5)
        builder = scann.scann_ops_pybind.builder(gallery, 10, "dot_product").set_n_training_threads(threads)
        builder = builder.tree(leaves, max(leaves // 10, 1), training_sample_size=min(len(gallery), 250_000))
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2)
        self.index = builder.reorder(100).build()
        self.index.set_num_threads(1)
        shares = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0]
        self.settings = [(max(int(leaves * share), 1), again) for share in shares for again in (30, 100, 300)]

    def fetching(self, fetched):
        leaves = dict.fromkeys(leaves for leaves, _ in self.settings)
        return [(few, 2 * fetched) for few in list(leaves)[-4:]]

    def search(self, queries, k, setting):
        leaves, again = setting
        return self.index.search_batched(
            queries, final_num_neighbors=k, pre_reorder_num_neighbors=max(again, k), leaves_to_search=leaves
        )


CONTESTANTS = {
    "faiss-hnsw": FaissHnsw,
    "hnswlib": Hnswlib,
    "usearch-f32": Usearch,
    "usearch-bf16": UsearchBf16,
    "svs": Svs,
    "scann": Scann,
    "faiss-flat": FaissFlat,
}


def resident_bytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def build(name, gallery, threads):
    """One contestant, or None where it is not installed or refuses, which is said."""
    try:
        before, start = resident_bytes(), time.process_time()
        contestant = CONTESTANTS[name](gallery, threads)
        seconds = time.process_time() - start
        grown = (resident_bytes() - before) / len(gallery)
        say(contestant=name, build_cpu_seconds=seconds, bytes_per_vector=grown)
        return contestant
    except Exception as error:  # whatever a library does must not end the contest
        say(contestant=name, absent=f"{type(error).__name__}: {error}")
        return None


def recall(found, exact):
    width = exact.shape[1]
    hits = sum(len(set(row[:width]) & set(best)) for row, best in zip(found.tolist(), exact.tolist()))
    return hits / exact.size


def best_again(ids, products, bias, k):
    """The best `k` of what was fetched, by the inner product less the bias."""
    ids = np.asarray(ids, dtype=np.int64)
    scores = np.where(ids >= 0, products - bias[ids], -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(ids, order, axis=1)


def timed(work):
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def measure(contestant, data, k):
    for setting in contestant.settings:
        (ids, _), seconds = timed(lambda: contestant.search(data["queries"], k, setting))
        report("raw", setting, ids, seconds, data)
    fetches = [fetched for fetched in FETCHES if fetched <= len(data["gallery"])]
    for fetched, setting in ((fetched, it) for fetched in fetches for it in contestant.fetching(fetched)):
        ids, seconds = timed(lambda: corrected(contestant, data, k, fetched, setting))
        report("corrected", f"fetch {fetched}, {setting}", ids, seconds, data)


def corrected(contestant, data, k, fetched, setting):
    ids, products = contestant.search(data["queries"], fetched, setting)
    return best_again(ids, products, data["bias"], k)


def report(ranking, setting, ids, seconds, data):
    found = recall(np.asarray(ids, dtype=np.int64), data[f"exact_{ranking}"])
    say(ranking=ranking, parameters=str(setting), recall=found, qps=len(data["queries"]) / seconds)


def check_exact(data):
    """The exact answers are the bench's own: those of some queries are worked out again, in 64 bits."""
    some = slice(0, 100)
    products = data["queries"][some].astype(np.float64) @ data["gallery"].T.astype(np.float64)
    for ranking, scores in (("raw", products), ("corrected", products - data["bias"])):
        exact = data[f"exact_{ranking}"][some]
        again = np.argsort(-scores, axis=1, kind="stable")[:, : exact.shape[1]]
        say(checked=ranking, queries=len(exact), agreement=recall(again, exact))


def read(folder):
    data = {name: np.load(f"{folder}/{name}.npy") for name in ("gallery", "queries", "bias")}
    data["bias"] = data["bias"][:, 0]
    for name in ("exact_raw", "exact_corrected"):
        data[name] = np.load(f"{folder}/{name}.npy").astype(np.int64)
    return data


def main():
    data = read(arguments.folder)
    k = data["exact_raw"].shape[1]
    check_exact(data)
    threads = os.cpu_count()
    wanted = arguments.only.split(",") if arguments.only else CONTESTANTS
    built = {name: build(name, data["gallery"], threads) for name in CONTESTANTS if name in wanted}
    say(ready=True)
    for line in sys.stdin:
        contestant = built.get(line.strip())
        if contestant is not None:
            measure(contestant, data, k)
        say(done=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the bench wrote its files")
    parser.add_argument("--only", help="contestants to build, with commas between them; all unless given")
    arguments = parser.parse_args()
    main()
