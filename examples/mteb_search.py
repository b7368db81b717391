"""MTEB over a server: the search of mteb's SearchEncoderWrapper, with any of its encoders.

    import mteb
    from mteb_search import searcher

    model = searcher(mteb.get_model("sentence-transformers/all-MiniLM-L6-v2"))
    results = mteb.evaluate(model, mteb.get_tasks(["NFCorpus"]))

What searcher gives has index() and search(), mteb's SearchProtocol. For a correction give it a method, such as
"NNN(alpha=0.75,k=16)", and a bank: vectors, by the same encoder, of queries like those of the task but none of them.
Start a server first: dehub serve.
"""

import os

import numpy

from dehub_collection import Collection


def searcher(encoder, **options):
    """An encoder of mteb as a model that searches by Dehub; options are those of DehubBackend."""
    from mteb.models.search_wrappers import SearchEncoderWrapper

    return SearchEncoderWrapper(encoder, index_backend=DehubBackend(**options))


class DehubBackend:
    """Where mteb's wrapper keeps vectors of documents: its IndexEncoderSearchProtocol."""

    def __init__(self, method=None, bank=None, url=None, name="mteb", distance="Cosine", exact=True):
        if (method is None) != (bank is None):
            raise ValueError("a correction wants both a method and a bank of vectors to fit it from")
        self.method, self.bank, self.exact = method, bank, exact
        self.url = url or os.environ.get("DEHUB_URL", "http://127.0.0.1:6363")
        self.name, self.distance = name, distance
        self.collection, self.count, self.is_ready = None, 0, False

    def add_documents(self, embeddings, idxs):
        """Adds documents. A point's id is the place of its document, so that ids may be what mteb allows."""
        vectors = as_numpy(embeddings)
        if self.collection is None:
            key = os.environ.get("DEHUB_API_KEY")
            self.collection = Collection(self.url, self.name, vectors.shape[1], self.distance, key)
            self.place_of = {}
        self.collection.add(vectors, range(self.count, self.count + len(vectors)))
        self.place_of.update({id: place for place, id in enumerate(idxs, self.count)})
        self.count, self.is_ready = self.count + len(vectors), False

    def search(self, embeddings, top_k, similarity_fn=None, top_ranked=None, query_idx_to_id=None):
        """Scores and places of the best documents of each query; with top_ranked only of those it names, by their
        places in its lists. Scores are the server's, so similarity_fn is not asked."""
        if self.collection is None:
            raise ValueError("no documents were added")
        if not self.is_ready:
            if self.method is not None:
                self.collection.fit(self.method, as_numpy(self.bank))
            if not self.exact:
                self.collection.build()
            self.is_ready = True
        correction = "none" if self.method is None else "fitted"
        vectors = as_numpy(embeddings)
        params = {"exact": True} if self.exact else {}
        if top_ranked is None:
            answers = self.collection.search(vectors, min(top_k, self.count), correction, params=params)
            return unzipped(answers)
        answers = []
        for number, vector in enumerate(vectors):
            named = [self.place_of[id] for id in top_ranked.get(query_idx_to_id[number]) or []]
            hits = []
            if named:
                only = {"filter": {"must": [{"has_id": named}]}, "params": params}
                hits = self.collection.search([vector], min(top_k, len(named)), correction, **only)[0]
            local = {place: number for number, place in enumerate(named)}
            answers.append([(local[place], score) for place, score in hits])
        return unzipped(answers)

    def clear(self):
        """Forgets all documents."""
        if self.collection is not None:
            self.collection.delete()
        self.collection, self.count, self.is_ready = None, 0, False


def as_numpy(vectors):
    return numpy.asarray(vectors.detach().cpu() if hasattr(vectors, "detach") else vectors, dtype=numpy.float32)


def unzipped(answers):
    return [[score for _, score in hits] for hits in answers], [[id for id, _ in hits] for hits in answers]
