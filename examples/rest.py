"""Upsert, bank, fit and corrected search over HTTP, with nothing but Python's standard library.

Start a server first: dehub serve. Usage: python3 examples/rest.py [URL]
"""

import json
import random
import sys
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6363"


def call(method, path, body=None):
    """Sends a request and gives its result; an error prints the server's explanation."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def cone(generator, dim):
    """A vector around a common direction, as those of most encoders are."""
    return [generator.gauss(0.4, 1.0) for _ in range(dim)]


generator = random.Random(7)
dim, name = 32, "/collections/example"
call("PUT", name, {"vectors": {"size": dim, "distance": "Cosine"}})
points = [{"id": i, "vector": cone(generator, dim), "payload": {"even": i % 2 == 0}} for i in range(500)]
call("PUT", name + "/points", {"points": points})
call("PUT", name + "/banks/asked", {"kind": "query", "vectors": [cone(generator, dim) for _ in range(1000)]})
call("PUT", name + "/corrections/nnn", {"method": "NNN(alpha=0.75,k=16)", "query_bank": "asked"})

query = cone(generator, dim)
for correction in ["none", "nnn"]:
    body = {"query": query, "limit": 5, "with_payload": True, "hubness": {"correction": correction}}
    answer = call("POST", name + "/points/query", body)
    print(correction, [(hit["id"], round(hit["score"], 3)) for hit in answer["points"]])

report = call("GET", name + "/hubness?bank=asked&k=10&top=3")
print(json.dumps(report, indent=1))
call("DELETE", name)
