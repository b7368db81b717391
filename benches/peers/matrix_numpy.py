"""The way research code evaluates a correction on a matrix of similarities: dynamic inverted softmax as published.

Reads the folder with test.npy (queries x points) and bank.npy (bank x points) from its first argument; query i asks
for point i. For each line on standard input it corrects and ranks once, and prints the seconds that took. A last
line on standard output, after the input ends, gives the measures.
"""

import json
import sys
import time

import numpy as np

BETA = 20.0


def evaluate(test, bank):
    activated = np.zeros(test.shape[1], dtype=bool)
    activated[bank.argmax(axis=1)] = True
    is_active = activated[test.argmax(axis=1)]
    normalized = np.exp(BETA * test) / np.exp(BETA * bank).sum(axis=0)
    scores = np.where(is_active[:, None], normalized, test)
    order = np.argsort(-scores, axis=1)
    return np.argmax(order == np.arange(len(test))[:, None], axis=1) + 1


def main():
    folder = sys.argv[1]
    test, bank = np.load(f"{folder}/test.npy"), np.load(f"{folder}/bank.npy")
    ranks = None
    print(json.dumps({"numpy": np.__version__}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        ranks = evaluate(test, bank)
        print(time.perf_counter() - start, flush=True)
    shares = [float((ranks <= k).mean()) for k in (1, 5, 10)]
    print(json.dumps(shares + [float(np.median(ranks)), float(ranks.mean())]), flush=True)


main()
