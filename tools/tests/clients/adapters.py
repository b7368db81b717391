"""The adapters for benchmarks beside brute force in numpy. Usage: adapters.py URL EXAMPLES

The benchmarks themselves are not installed; each adapter is called as its benchmark calls it.
"""

import os
import sys

import numpy

URL, EXAMPLES = sys.argv[1], sys.argv[2]
os.environ["DEHUB_URL"] = URL
sys.path[:0] = [EXAMPLES, os.path.join(EXAMPLES, "ann_benchmarks")]

import beir_search
import mteb_search
import module

DIM, POINTS, QUERIES, K = 24, 3000, 50, 10
random = numpy.random.default_rng(11)


def cone(count):
    """Vectors around a common direction, which is what makes hubs."""
    return (random.normal(size=(count, DIM)) + 0.5 * (numpy.arange(DIM) < 8)).astype(numpy.float32)


points, queries, bank = cone(POINTS), cone(QUERIES), cone(400)


def unit(vectors):
    vectors = vectors.astype(numpy.float64)
    return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)


def corrected(similarities, alpha, k):
    """NNN (Chowdhury et al.): less alpha times the mean of the k largest similarities to the bank."""
    nearest = numpy.sort(unit(bank) @ unit(points).T, axis=0)[-k:]
    return similarities - alpha * nearest.mean(axis=0)


SCORES = {
    "angular": unit(queries) @ unit(points).T,
    "dot": queries.astype(numpy.float64) @ points.astype(numpy.float64).T,
    "euclidean": -numpy.linalg.norm(queries[:, None].astype(numpy.float64) - points[None], axis=2),
}
CORRECTED = corrected(SCORES["angular"], 0.75, 16)


def same(found, scores, least=1.0):
    """Whether lists of places are the best by scores, or enough of them; no place twice."""
    hits = 0
    for places, row in zip(found, scores, strict=True):
        assert len(places) == K and len(set(places)) == K, places
        last = numpy.sort(row)[-K]
        hits += sum(row[place] >= last - 1e-6 for place in places)
    assert hits >= least * K * len(scores), hits


def refused(error, call):
    try:
        call()
    except error:
        return
    raise AssertionError("it was taken")


def ann_benchmarks():
    refused(ValueError, lambda: module.Dehub("hamming"))
    for metric, scores in SCORES.items():
        contestant = module.Dehub(metric, {"m": 16, "ef_construct": 100, "full_scan_threshold": 10})
        contestant.fit(points)
        for setting, least in [(400, 0.99), (10, 0.5), (0.95, 0.9)]:
            contestant.set_query_arguments(setting)
            assert str(setting) in str(contestant)
            same([contestant.query(query, K) for query in queries], scores, least)
            contestant.batch_query(queries, K)
            same(contestant.get_batch_results(), scores, least)
        additional = contestant.get_additional()
        assert additional["points"] == POINTS and additional["dehub_version"], additional
        assert contestant.get_memory_usage() > 1000
        contestant.done()
        refused(RuntimeError, lambda: contestant.query(queries[0], K))


class Encoder:
    """Texts that are names of vectors."""

    def encode_queries(self, texts, batch_size):
        kinds = {"q": queries, "b": bank}
        return numpy.stack([kinds[text[0]][int(text[1:])] for text in texts])

    def encode_corpus(self, documents, batch_size):
        return numpy.stack([points[int(document["text"])] for document in documents])


def beir():
    corpus = {f"d{place}": {"title": "", "text": str(place)} for place in range(POINTS)}
    asked = {f"q{place}": f"q{place}" for place in range(QUERIES)}
    texts = [f"b{place}" for place in range(len(bank))]
    raw = beir_search.DehubSearch(Encoder())
    by_nnn = beir_search.DehubSearch(Encoder(), method="NNN(alpha=0.75,k=16)", bank=texts)
    walked = beir_search.DehubSearch(Encoder(), exact=False)
    for retriever, function, scores in [
        (raw, "cos_sim", SCORES["angular"]),
        (raw, "dot", SCORES["dot"]),
        (by_nnn, "cos_sim", CORRECTED),
        (walked, "cos_sim", SCORES["angular"]),
    ]:
        results = retriever.search(corpus, asked, K, function, return_sorted=True)
        assert list(results) == list(asked)
        same([[int(id[1:]) for id in results[query]] for query in asked], scores)
    # A document is no answer to the query of the same id.
    best = f"d{SCORES['angular'][0].argmax()}"
    results = raw.search(corpus, {best: "q0"}, K, "cos_sim")
    assert len(results[best]) == K and best not in results[best]
    assert raw.search({}, asked, K, "cos_sim") == {query: {} for query in asked}
    refused(ValueError, lambda: raw.search(corpus, asked, K, "manhattan"))
    refused(ValueError, lambda: beir_search.DehubSearch(Encoder(), method="CSLS"))


def mteb():
    ids = [f"document {place}" for place in range(POINTS)]
    half = POINTS // 2
    for options, scores in [({}, SCORES["angular"]), ({"method": "NNN(alpha=0.75,k=16)", "bank": bank}, CORRECTED)]:
        backend = mteb_search.DehubBackend(**options)
        refused(ValueError, lambda: backend.search(queries, K))
        backend.add_documents(points[:half], ids[:half])
        backend.add_documents(points[half:], ids[half:])
        values, places = backend.search(queries, K, similarity_fn=None)
        same(places, scores)
        assert all(row == sorted(row, reverse=True) for row in values)
        # Lists to rank again, of which one is missing and one is shorter than what is asked for.
        lists = {f"q{number}": [ids[place] for place in range(number, POINTS, 60)] for number in range(QUERIES)}
        lists["q3"] = ids[5:9]
        del lists["q4"]
        names = {number: f"q{number}" for number in range(QUERIES)}
        values, places = backend.search(queries, K, top_ranked=lists, query_idx_to_id=names)
        assert places[4] == [] and values[4] == []
        assert sorted(places[3]) == [0, 1, 2, 3]
        others = [number for number in range(QUERIES) if number not in (3, 4)]
        found = [[range(number, POINTS, 60)[place] for place in places[number]] for number in others]
        masked = numpy.full_like(scores, -numpy.inf)
        for number in others:
            masked[number, number::60] = scores[number, number::60]
        same(found, masked[others])
        backend.clear()
        refused(ValueError, lambda: backend.search(queries, K))
    refused(ValueError, lambda: mteb_search.DehubBackend(method="CSLS"))


ann_benchmarks()
beir()
mteb()
print("ann_benchmarks, beir and mteb")
