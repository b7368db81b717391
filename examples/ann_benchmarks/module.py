"""Dehub for ann-benchmarks, over REST: see the README beside this."""

import http.client
import json
import os
import threading
import time
import urllib.parse

import numpy

try:
    from ..base.module import BaseANN
except ImportError:
    # Outside of ann-benchmarks.
    BaseANN = object

DISTANCES = {"angular": "Cosine", "euclidean": "Euclid", "dot": "Dot"}
ROWS_OF_A_CALL = 1000
COLLECTION = "/collections/ann_benchmarks"


class Dehub(BaseANN):
    def __init__(self, metric, options=None):
        if metric not in DISTANCES:
            raise ValueError(f"metric: wanted one of {', '.join(DISTANCES)}, found {metric}")
        self.metric, self.options = metric, options or {}
        self.url = urllib.parse.urlsplit(os.environ.get("DEHUB_URL", "http://127.0.0.1:6363"))
        self.headers = {"content-type": "application/json"}
        if key := os.environ.get("DEHUB_API_KEY"):
            self.headers["api-key"] = key
        self.local = threading.local()
        self.name = "Dehub"
        self.params = {}

    def call(self, method, path, body=None):
        """Sends a request on this thread's connection, which is kept, and gives the body of the answer."""
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self.url.hostname, self.url.port or 80, timeout=3600)
            self.local.connection = connection
        connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {answer.decode()}")
        return answer

    def result(self, method, path, body=None):
        return json.loads(self.call(method, path, body))["result"]

    def fit(self, X):
        self.call("DELETE", COLLECTION)
        vectors = {"size": int(X.shape[1]), "distance": DISTANCES[self.metric]}
        self.call("PUT", COLLECTION, {"vectors": vectors, "hnsw_config": self.options})
        for start in range(0, len(X), ROWS_OF_A_CALL):
            rows = numpy.asarray(X[start : start + ROWS_OF_A_CALL], dtype=numpy.float32).tolist()
            points = [{"id": id, "vector": row} for id, row in enumerate(rows, start)]
            self.call("PUT", COLLECTION + "/points", {"points": points})
        job = self.result("POST", COLLECTION + "/build", {"whole": True})["job"]
        while (state := self.result("GET", f"/jobs/{job}"))["state"] == "running":
            time.sleep(0.05)
        if state["state"] != "done":
            raise RuntimeError(f"the graph was not built: {state}")

    def set_query_arguments(self, setting):
        """An effort (ef) from 1 on, or below that the recall to plan for."""
        self.params = {"recall": setting} if setting < 1 else {"hnsw_ef": setting}
        self.name = f"Dehub({self.options}, {self.params})"

    def body(self, vector, n):
        return {
            "query": vector,
            "limit": n,
            "with_payload": False,
            "params": self.params,
            "hubness": {"correction": "none"},
        }

    def query(self, q, n):
        body = self.body(numpy.asarray(q, dtype=numpy.float32).tolist(), n)
        return [hit["id"] for hit in self.result("POST", COLLECTION + "/points/query", body)["points"]]

    def batch_query(self, X, n):
        self.found = []
        for start in range(0, len(X), ROWS_OF_A_CALL):
            rows = numpy.asarray(X[start : start + ROWS_OF_A_CALL], dtype=numpy.float32).tolist()
            body = {"searches": [self.body(row, n) for row in rows]}
            answers = self.result("POST", COLLECTION + "/points/query/batch", body)
            self.found += [[hit["id"] for hit in answer["points"]] for answer in answers]

    def get_batch_results(self):
        return self.found

    def get_memory_usage(self):
        """Kilobytes that the server has in use: it is a process of its own."""
        for line in self.call("GET", "/metrics").decode().splitlines():
            if line.startswith("memory_resident_bytes "):
                return float(line.split()[1]) / 1024
        return None

    def get_additional(self):
        about = json.loads(self.call("GET", "/"))
        graph = self.result("GET", COLLECTION)
        return {"dehub_version": about["dehub_version"], "points": graph["points_count"]}

    def done(self):
        self.call("DELETE", COLLECTION)

    def __str__(self):
        return self.name
