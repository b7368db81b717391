"""Does what the OpenAPI document of a server says by example, and compares the answers with their schemas.

    document.py URL DATA_DIRECTORY

Every example is sent, in an order in which each can be done. Then each object of each example gets a field that is not
known: the refusal lists the fields that the decoder knows, and they are those that the schema has.
"""

import json
import sys
import time

import httpx
import jsonschema_rs

# The operations in an order in which the examples of all can be done. What comes twice is done twice.
ORDER = """
    about healthy alive ready slowQueries openapi docs docsPage docsFile
    createCollection listCollections getCollection collectionExists updateCollection
    changeAliases listAliases collectionAliases
    upsertPoints createFieldIndex getPoints getPoint scrollPoints countPoints facet
    setPayload overwritePayload deletePayload
    addToBank listBanks getBank fitCorrection listCorrections getCorrection
    setDefault getDefault clearDefault
    setPrior listPriors getPrior getPriorValues
    beginLive getLive
    queryPoints queryBatch queryGroups searchPoints searchBatch searchGroups recommendPoints recommendBatch
    recommendGroups discoverPoints discoverBatch searchMatrixPairs searchMatrixOffsets
    flushLive bankDrift queryDrift endLive
    getHubness getLiveHubness resetLiveHubness getNeighbours evaluate tune unsetPrior deletePrior
    absorbBank decayBank deleteEntries
    beginQuarantine getQuarantine releasePoints endQuarantine
    updateVectors deleteVectors
    batchUpdate clearPayload deletePoints deleteFieldIndex
    buildGraph verifyCollection compactCollection
    createSnapshot listSnapshots downloadSnapshot recoverSnapshot uploadSnapshot deleteSnapshot
    createBackup listBackups listJobs getJob cancelJob restoreBackup deleteBackup
    deleteCorrection deleteBank metrics deleteCollection
""".split()

METHODS = ["get", "put", "post", "delete", "patch"]
UNKNOWN = "no such field"


class Document:
    def __init__(self, client):
        self.client = client
        self.whole = client.get("/openapi.json").json()
        self.operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in self.whole["paths"].items()
            for method, operation in item.items()
            if method in METHODS
        }

    def resolved(self, part):
        while "$ref" in part:
            found = self.whole
            for key in part["$ref"].removeprefix("#/").split("/"):
                found = found[key]
            part = found
        return part

    def validator(self, schema):
        return jsonschema_rs.Draft202012Validator({**schema, "components": self.whole["components"]})

    def examples(self, operation):
        """The JSON bodies of an operation, or one that is none."""
        media = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if media is None:
            return [None]
        examples = [example["value"] for example in media["examples"].values()]
        assert examples, f"{operation['operationId']} has no example"
        for example in examples:
            error = next(self.validator(media["schema"]).iter_errors(example), None)
            assert error is None, f"an example of {operation['operationId']} is not what its schema says: {error}"
        return examples

    def address(self, operation_id, names):
        method, path, operation = self.operations[operation_id]
        query = {}
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            value = names.get(name, parameter.get("example"))
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", str(value))
            elif parameter.get("required"):
                query[name] = value
        return method, path, query

    def check(self, operation_id, response):
        """The answer is one that the document knows; gives its result, if it is JSON."""
        _, _, operation = self.operations[operation_id]
        told = f"{operation_id}: {response.status_code} {response.text[:2000]}"
        assert str(response.status_code) in operation["responses"], f"an unknown status of {told}"
        content = self.resolved(operation["responses"][str(response.status_code)]).get("content", {})
        if not content:
            assert not response.content, told
            return None
        media = response.headers["content-type"].split(";")[0]
        assert media in content, f"an unknown type {media} of {told}"
        if "schema" not in content[media]:
            return None
        body = response.json()
        errors = [str(error) for error in self.validator(content[media]["schema"]).iter_errors(body)]
        assert not errors, f"{told}\n{errors[0]}"
        return body


class Story:
    """The examples, told in order."""

    def __init__(self, document):
        self.document = document
        self.client = document.client
        self.names = {}
        self.sent = 0

    def tell(self):
        known = set(self.document.operations)
        assert set(ORDER) == known, f"not in the order: {known - set(ORDER)}; not known: {set(ORDER) - known}"
        for operation_id in ORDER:
            prepare = getattr(self, "before_" + operation_id, None)
            if prepare:
                prepare()
            _, _, operation = self.document.operations[operation_id]
            for body in self.document.examples(operation):
                self.send(operation_id, body)

    def send(self, operation_id, body):
        method, path, query = self.document.address(operation_id, self.names)
        if operation_id == "createCollection" and body and len(body) > 1:
            path += "-2"
        if operation_id == "recoverSnapshot":
            body = {**body, "location": self.location}
        files = {"snapshot": self.archive} if operation_id == "uploadSnapshot" else None
        response = self.client.request(method, path, params=query, json=body, files=files)
        self.sent += 1
        answer = self.document.check(operation_id, response)
        wanted = {"docs": [308], "cancelJob": [409]}.get(operation_id, [200, 202])
        assert response.status_code in wanted, f"{operation_id} {json.dumps(body)}: {response.text}"
        after = getattr(self, "after_" + operation_id, None)
        if after:
            after(answer, response)

    def do(self, method, path, **body):
        response = self.client.request(method, path, json=body or None)
        assert response.is_success, f"{method} {path}: {response.text}"
        return response.json()["result"]

    def job(self, number):
        for _ in range(600):
            job = self.do("GET", f"/jobs/{number}")
            if job["state"] != "running":
                assert job["state"] == "done", job
                return job
            time.sleep(0.05)
        raise AssertionError(f"job {number} does not end")

    def before_updateVectors(self):
        image = {"image": {"size": 4, "distance": "Cosine"}}
        self.do("PUT", "/collections/pictures", vectors=image)
        points = [{"id": 1, "vector": {"image": [1, 0, 0, 0]}}, {"id": 2, "vector": {}}]
        self.do("PUT", "/collections/pictures/points", points=points)
        self.names["collection"] = "pictures"

    def before_batchUpdate(self):
        del self.names["collection"]

    def after_createSnapshot(self, answer, _):
        self.names["snapshot"] = answer["result"]["name"]

    def after_downloadSnapshot(self, _, response):
        self.archive = response.content
        self.location = f"file://{sys.argv[2]}/snapshots/books/{self.names['snapshot']}"

    def after_createBackup(self, answer, _):
        self.names["job"] = answer["result"]["job"]
        self.job(self.names["job"])

    def after_listBackups(self, answer, _):
        self.names["backup"] = answer["result"]["backups"][0]["id"]

    def after_restoreBackup(self, answer, _):
        self.job(answer["result"]["job"])

    def before_tune(self):
        """A choice needs many queries."""
        vectors = [[place * step % 9 / 9 - 0.4 for step in (2, 3, 5, 7)] for place in range(1, 400)]
        self.do("PUT", "/collections/books/banks/recent", kind="query", vectors=vectors)

    def after_tune(self, answer, _):
        self.job(answer["result"]["job"])

    after_buildGraph = after_verifyCollection = after_compactCollection = after_tune

    def before_deleteBank(self):
        self.do("DELETE", "/collections/books/corrections/chosen")

    def before_bankDrift(self):
        """Few entries are compared with nothing."""
        vectors = [[place * step % 8 / 8 - 0.4 for step in (1, 2, 3, 5)] for place in range(1, 65)]
        for bank in ["queries", "recent"]:
            self.do("PUT", f"/collections/books/banks/{bank}", kind="query", vectors=vectors)

    def before_releasePoints(self):
        self.do("PUT", "/collections/books/quarantine", correction="is", rate=0.999)
        held = {"id": 99, "vector": [0.2, 0.3, 0.4, 0.2]}
        self.do("PUT", "/collections/books/points", points=[held])


class Fields:
    """Compares the fields of schemas with those that decoders know."""

    def __init__(self, document):
        self.document = document
        self.objects = 0

    def compare(self):
        for operation_id, (_, _, operation) in self.document.operations.items():
            media = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if media is None:
                continue
            for body in self.document.examples(operation):
                for path in self.closed(media["schema"], body, ()):
                    self.probe(operation_id, media["schema"], body, path)

    def branches(self, schema):
        """The alternatives of a schema."""
        schema = self.document.resolved(schema)
        parts = schema.get("oneOf") or schema.get("anyOf")
        if parts is None:
            return [schema]
        return [branch for part in parts for branch in self.branches(part)]

    def fitting(self, schema, value):
        return [branch for branch in self.branches(schema) if self.document.validator(branch).is_valid(value)]

    def closed(self, schema, value, path):
        """Where in a value there are objects that have no other fields than those the schema names."""
        for branch in self.fitting(schema, value):
            if isinstance(value, dict):
                if branch.get("additionalProperties") is False:
                    yield path
                for key, inner in value.items():
                    if key in branch.get("properties", {}):
                        yield from self.closed(branch["properties"][key], inner, (*path, key))
            elif isinstance(value, list) and "items" in branch:
                for place, inner in enumerate(value):
                    yield from self.closed(branch["items"], inner, (*path, place))

    def names_at(self, schema, value, path):
        """The fields of the schemas that fit an object, and those of all its alternatives."""
        if path:
            step, rest = path[0], path[1:]
            for branch in self.fitting(schema, value):
                inner = branch["items"] if isinstance(step, int) else branch["properties"][step]
                yield from self.names_at(inner, value[step], rest)
            return
        objects = [branch for branch in self.branches(schema) if "properties" in branch or branch.get("type") == "object"]
        yield {name for branch in objects for name in branch.get("properties", {})}
        for branch in self.fitting(schema, value):
            yield set(branch.get("properties", {}))

    def probe(self, operation_id, schema, body, path):
        changed = json.loads(json.dumps(body))
        found = changed
        for step in path:
            found = found[step]
        found[UNKNOWN] = 1
        method, address, query = self.document.address(operation_id, {})
        response = self.document.client.request(method, address, params=query, json=changed)
        problem = self.document.check(operation_id, response)
        assert problem.get("code") == "unknown_field", f"{operation_id} takes {changed}: {response.text}"
        wanted = problem["errors"][0]["wanted"]
        known = set(wanted.split(", "))
        alike = list(self.names_at(schema, body, path))
        told = f"{operation_id} at {path}: the decoder knows {sorted(known)}, the schema {[sorted(it) for it in alike]}"
        assert any(known == (names or {""}) for names in alike), told
        self.objects += 1


def main():
    with httpx.Client(base_url=sys.argv[1], timeout=60) as client:
        document = Document(client)
        story = Story(document)
        story.tell()
        # Some fields are only read once the collection and its banks are found.
        story.do("PUT", "/collections/books", vectors={"size": 4, "distance": "Cosine"})
        story.before_bankDrift()
        fields = Fields(document)
        fields.compare()
    print(f"{story.sent} examples, fields of {fields.objects} objects compared")


if __name__ == "__main__":
    main()
