"""Queries a second of two servers, in turns: ours over HTTP and milvus-lite over gRPC, on the same points.

Clients are processes, each with one connection, that ask again as soon as they are answered; ours sends JSON by
`http.client`, the other is asked by `pymilvus`, its own client. A line of JSON for each server and number of clients,
with the recall of the answers against an exact search. The queries' encoding is part of what both clients do.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time

import numpy as np

CLIENTS = [1, 4]
LIMIT = 10


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Dehub:
    name = "dehub"

    def __init__(self, address, effort):
        self.connection = http.client.HTTPConnection(address)
        self.params = {"hnsw_ef": effort}

    def ask(self, query):
        body = {"query": query, "limit": LIMIT, "params": self.params, "hubness": {"correction": "none"}}
        headers = {"content-type": "application/json"}
        self.connection.request("POST", "/collections/rest/points/query", json.dumps(body), headers)
        reply = self.connection.getresponse()
        points = json.loads(reply.read())["result"]["points"]
        return [point["id"] for point in points]


class Milvus:
    name = "milvus-lite"

    def __init__(self, address, effort):
        from pymilvus import MilvusClient

        self.client = MilvusClient(uri=f"http://{address}")
        self.params = {"metric_type": "IP", "params": {"ef": effort}}

    def fill(self, points):
        from pymilvus import DataType

        schema = self.client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=points.shape[1])
        index = self.client.prepare_index_params()
        params = {"M": 16, "efConstruction": 200}
        index.add_index("vector", index_type="HNSW", metric_type="IP", params=params)
        self.client.create_collection("rest", schema=schema, index_params=index)
        for first in range(0, len(points), 1000):
            rows = enumerate(points[first : first + 1000], first)
            self.client.insert("rest", [{"id": id, "vector": row.tolist()} for id, row in rows])
        self.client.flush("rest")
        self.client.load_collection("rest")

    def ask(self, query):
        found = self.client.search("rest", data=[query], limit=LIMIT, search_params=self.params)
        return [hit["id"] for hit in found[0]]


def client(kind, address, effort, queries, first, until, results):
    asker = kind(address, effort)
    asker.ask(queries[0])
    while time.time() < until[0]:
        time.sleep(0.001)
    answers, number = 0, first
    while time.time() < until[1]:
        asker.ask(queries[number % len(queries)])
        answers, number = answers + 1, number + 1
    results.put(answers)


def queries_a_second(kind, address, effort, queries, clients, seconds):
    results = multiprocessing.Queue()
    begin = time.time() + 3.0
    until = (begin, begin + seconds)
    arguments = [(kind, address, effort, queries, 37 * place, until, results) for place in range(clients)]
    processes = [multiprocessing.Process(target=client, args=args) for args in arguments]
    for process in processes:
        process.start()
    answers = sum(results.get(timeout=seconds + 60) for _ in processes)
    for process in processes:
        process.join()
    return answers / seconds


def recall(asker, queries, truth):
    found = [len(set(asker.ask(query)) & set(best)) for query, best in zip(queries, truth)]
    return sum(found) / (LIMIT * len(found))


def main():
    parser = argparse.ArgumentParser()
    for name in ["address", "folder", "points", "queries"]:
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--effort", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    points = np.fromfile(arguments.points, dtype="<f4").reshape(-1, arguments.dim)
    vectors = np.fromfile(arguments.queries, dtype="<f4").reshape(-1, arguments.dim)
    truth = np.argsort(-(vectors @ points.T), axis=1, kind="stable")[:, :LIMIT].tolist()
    queries = vectors.tolist()

    port = free_port()
    program = os.path.join(os.path.dirname(sys.executable), "milvus-lite")
    data = os.path.join(arguments.folder, "milvus")
    log = open(os.path.join(arguments.folder, "milvus.log"), "w")
    command = [program, "server", "--data-dir", data, "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        address = f"127.0.0.1:{port}"
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        Milvus(address, arguments.effort).fill(points)
        for clients in CLIENTS:
            for kind, place in [(Dehub, arguments.address), (Milvus, address)]:
                qps = queries_a_second(kind, place, arguments.effort, queries, clients, arguments.seconds)
                found = recall(kind(place, arguments.effort), queries, truth)
                print(json.dumps({"server": kind.name, "clients": clients, "qps": qps, "recall": found}))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
