"""A collection over HTTP with nothing but Python's standard library and numpy: what the adapters beside this share."""

import http.client
import json
import time
import urllib.parse

import numpy

ROWS_OF_A_CALL = 512


class Collection:
    """A collection of its own on a server, made anew: one of that name that is there is deleted."""

    def __init__(self, url, name, dim, distance, key=None):
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=600)
        self.headers = {"content-type": "application/json"} | ({"api-key": key} if key else {})
        self.name, self.path = name, "/collections/" + urllib.parse.quote(name, safe="")
        self.delete()
        self.call("PUT", self.path, {"vectors": {"size": dim, "distance": distance}})

    def call(self, method, path, body=None):
        """Sends a request on the connection that is kept, and gives its result."""
        self.connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        response = self.connection.getresponse()
        answer = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {answer.decode()}")
        return json.loads(answer)["result"]

    def add(self, vectors, ids):
        """Adds points."""
        self.in_calls("PUT", "/points", vectors, ids)

    def fit(self, method, queries):
        """Fits a correction from a bank of these vectors, which must be none of those that are tested."""
        self.in_calls("PUT", "/banks/queries", queries, None)
        body = {"method": method, "query_bank": "queries"}
        self.call("PUT", self.path + "/corrections/fitted", body)

    def build(self):
        """Builds the graph of all points, if they are enough for one, and measures how to search it."""
        job = self.call("POST", self.path + "/build", {"whole": True})["job"]
        while (state := self.call("GET", f"/jobs/{job}"))["state"] == "running":
            time.sleep(0.05)
        if state["state"] != "done":
            raise RuntimeError(f"the graph was not built: {state}")

    def search(self, vectors, limit, correction="none", **settings):
        """The hits of each vector as pairs of id and score, best first; for settings see POST …/points/query."""
        common = {"limit": limit, "hubness": {"correction": correction}} | settings
        found = []
        for start in range(0, len(vectors), ROWS_OF_A_CALL):
            part = numpy.asarray(vectors[start : start + ROWS_OF_A_CALL], dtype=numpy.float32).tolist()
            body = {"searches": [{"query": vector} | common for vector in part]}
            answers = self.call("POST", self.path + "/points/query/batch", body)
            found += [[(hit["id"], hit["score"]) for hit in answer["points"]] for answer in answers]
        return found

    def delete(self):
        """Deletes the collection, if it is there."""
        self.call("DELETE", self.path)

    def in_calls(self, method, path, vectors, ids):
        for start in range(0, len(vectors), ROWS_OF_A_CALL):
            rows = slice(start, start + ROWS_OF_A_CALL)
            part = numpy.asarray(vectors[rows], dtype=numpy.float32).tolist()
            if ids is None:
                body = {"kind": "query", "vectors": part}
            else:
                body = {"points": [{"id": id, "vector": vector} for id, vector in zip(ids[rows], part)]}
            self.call(method, self.path + path, body)
