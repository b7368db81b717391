"""BEIR over a server: what beir.retrieval.evaluation.EvaluateRetrieval asks of a retriever, with any encoder.

    from beir.retrieval.evaluation import EvaluateRetrieval
    from beir_search import DehubSearch

    retriever = DehubSearch(model, method="NNN(alpha=0.75,k=16)", bank=list(train_queries.values()))
    evaluation = EvaluateRetrieval(retriever, score_function="cos_sim")
    results = evaluation.retrieve(corpus, queries)

The model is one of BEIR's: it has encode_queries(texts, batch_size=…) and encode_corpus(documents, batch_size=…). The
bank is a list of texts like the queries, but none of them: the training queries of the data set. Start a server first:
dehub serve. For raw rankings leave out method and bank.
"""

import os

import numpy

from dehub_collection import Collection

DISTANCES = {"cos_sim": "Cosine", "dot": "Dot"}


class DehubSearch:
    def __init__(self, model, batch_size=128, method=None, bank=None, url=None, name="beir", exact=True):
        if (method is None) != (bank is None):
            raise ValueError("a correction wants both a method and a bank of queries to fit it from")
        self.model, self.batch_size, self.method, self.bank = model, batch_size, method, bank
        self.url = url or os.environ.get("DEHUB_URL", "http://127.0.0.1:6363")
        self.name, self.exact = name, exact

    def search(self, corpus, queries, top_k, score_function, **kwargs):
        """The best documents of each query: {query: {document: score}}, larger is better. A document that has the id
        of the query is left out, as BEIR's own search does. Further arguments are those of other retrievers."""
        if score_function not in DISTANCES:
            raise ValueError(f"score_function: wanted {' or '.join(DISTANCES)}, found {score_function}")
        if not corpus or not queries:
            return {query: {} for query in queries}
        collection = None
        documents, query_ids = list(corpus), list(queries)
        try:
            for start in range(0, len(documents), 10_000):
                part = documents[start : start + 10_000]
                vectors = self.encoded(self.model.encode_corpus, [corpus[id] for id in part])
                if collection is None:
                    distance = DISTANCES[score_function]
                    key = os.environ.get("DEHUB_API_KEY")
                    collection = Collection(self.url, self.name, vectors.shape[1], distance, key)
                collection.add(vectors, part)
            if not self.exact:
                collection.build()
            correction = "none"
            if self.method is not None:
                collection.fit(self.method, self.encoded(self.model.encode_queries, self.bank))
                correction = "fitted"
            vectors = self.encoded(self.model.encode_queries, [queries[id] for id in query_ids])
            params = {"exact": True} if self.exact else {}
            answers = collection.search(vectors, top_k + 1, correction, params=params)
            return {
                query: dict([(id, score) for id, score in hits if id != query][:top_k])
                for query, hits in zip(query_ids, answers)
            }
        finally:
            if collection is not None:
                collection.delete()

    def encoded(self, encode, texts):
        vectors = encode(texts, batch_size=self.batch_size)
        return numpy.asarray(vectors.cpu() if hasattr(vectors, "cpu") else vectors)
