"""Compares `dehub measure` with other tools.

compare.py SECTION DEHUB FOLDER PAIRS
"""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

SECTION, DEHUB, FOLDER, PAIRS = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
EXACT = 1e-9
# trec_eval divides in 32 bits in these measures.
SINGLE = 1e-6
# gdeval prints five digits.
FIVE_DIGITS = 6e-6


def make(seed, *, ties, negative, missing=True):
    """A run and judgements: some queries are in one of them only, ids look like numbers, scores have few bits."""
    draw = random.Random(seed)
    documents = [str(number) if number % 3 else f"0{number}" for number in range(draw.randint(12, 60))]
    queries = [str(number) for number in range(1, draw.randint(4, 12))]
    grades = [-1, 0, 0, 1, 1, 2, 3, 4] if negative else [0, 0, 1, 1, 2, 3, 4]
    run, qrels = {}, {}
    for query in queries:
        judged = draw.sample(documents, draw.randint(1, 10))
        qrels[query] = {document: draw.choice(grades) for document in judged}
        # A judged query without a relevant document is treated by each tool in its own way.
        qrels[query][judged[0]] = draw.randint(1, 4)
        listed = draw.sample(documents, draw.randint(1, len(documents)))
        scores = [draw.randint(0, 9) / 8 for _ in listed]
        if not ties:
            scores = draw.sample([number / 64 for number in range(-2 * len(listed), 2 * len(listed))], len(listed))
        run[query] = dict(zip(listed, scores))
    if missing and len(queries) > 2:
        del run[queries[0]]
        del qrels[queries[1]]
    return run, qrels


def write(run, qrels, name):
    lines = (f"{q} Q0 {d} 0 {score} made" for q, scores in run.items() for d, score in scores.items())
    (FOLDER / f"{name}.run").write_text("\n".join(lines) + "\n")
    lines = (f"{q} 0 {d} {grade}" for q, grades in qrels.items() for d, grade in grades.items())
    (FOLDER / f"{name}.qrels").write_text("\n".join(lines) + "\n")


def dehub(*arguments):
    command = [DEHUB, "--json", "--quiet", "measure", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return json.loads(done.stdout)


def measured(run, qrels, name, measures, *more):
    """The row of the one run, with the values of all queries."""
    write(run, qrels, name)
    chosen = [word for measure in measures for word in ("-m", measure)]
    files = ["--run", FOLDER / f"{name}.run", "--qrels", FOLDER / f"{name}.qrels"]
    return dehub(*files, *chosen, "--by-query", *more)["rows"][0]


def same(found, wanted, bound, about):
    if found is None or wanted is None:
        assert found is None and wanted is None, f"{about}: found {found}, wanted {wanted}"
        return
    assert math.isclose(found, wanted, rel_tol=0, abs_tol=bound), f"{about}: found {found}, wanted {wanted}"


def ir_measures_section():
    import ir_measures

    exact = (
        "nDCG nDCG@1 nDCG@5 nDCG@100 nDCG(judged_only=True)@5 AP AP@5 AP(rel=2) AP(rel=2)@100 AP(judged_only=True)@3 "
        "RR RR(rel=2) RR(judged_only=True) R@1 R@5 R(rel=2)@5 R(judged_only=True)@3 P@1 P@5 P@100 P(rel=3)@5 "
        "P(judged_only=True)@5 Success@1 Success@5 Success(rel=2)@5 Success(judged_only=True)@1"
    ).split()
    single = ["infAP", "infAP(rel=2)", "Bpref", "Bpref(rel=2)"]
    own = ["Judged@1", "Judged@5", "Judged@100", "Judged"]
    marco = ["RR@3", "RR@10"]
    five = ["ERR@5", "ERR@20", "nDCG(dcg='exp-log2')@5"]

    def check(number, bounds, provider, run, qrels):
        row = measured(run, qrels, "pair", bounds)
        given = {measure: ir_measures.parse_measure(measure) for measure in bounds}
        wanted = {(str(it.measure), it.query_id): it.value for it in provider.iter_calc(given.values(), qrels, run)}
        aggregated = provider.calc_aggregate(given.values(), qrels, run)
        for measure, bound in bounds.items():
            for query in qrels:
                # A provider says nothing of a query that the run lacks.
                value = wanted.get((str(given[measure]), query), 0.0 if query not in run else None)
                same(row["by_query"][query][measure], value, bound, f"pair {number}, {measure}, query {query}")
            same(row["measures"][measure], aggregated[given[measure]], bound, f"pair {number}, {measure}")

    perl = ir_measures.gdeval.is_available()
    for number in range(PAIRS):
        # Every third pair has ties, which trec_eval orders by id; every second negative relevances.
        run, qrels = make(number, ties=number % 3 == 0, negative=number % 2 == 0)
        bounds = {**dict.fromkeys(exact, EXACT), **dict.fromkeys(single, SINGLE)}
        check(number, bounds, ir_measures.pytrec_eval, run, qrels)
        # These order equal scores by the smaller id, or as they come.
        run, qrels = make(number + 1000, ties=False, negative=False)
        check(number, dict.fromkeys(own, EXACT), ir_measures.providers.registry["judged"], run, qrels)
        check(number, dict.fromkeys(marco, EXACT), ir_measures.msmarco, run, qrels)
        if perl and number < 20:
            check(number, dict.fromkeys(five, FIVE_DIGITS), ir_measures.gdeval, run, qrels)
    print(f"{PAIRS} pairs, gdeval {'too' if perl else 'left out: there is no perl'}")


def ranx_section():
    import ranx

    names = {
        "nDCG": "ndcg",
        "nDCG@5": "ndcg@5",
        "nDCG(dcg='exp-log2')": "ndcg_burges",
        "nDCG(dcg='exp-log2')@5": "ndcg_burges@5",
        "AP": "map",
        "AP@5": "map@5",
        "RR": "mrr",
        "RR@5": "mrr@5",
        "R@5": "recall@5",
        "P@5": "precision@5",
        "Success@5": "hit_rate@5",
        "Bpref": "bpref",
        "RBP(p=0.8)": "rbp.80",
        "AP(rel=2)": "map-l2",
        "R(rel=2)@5": "recall@5-l2",
        "P(rel=2)@5": "precision@5-l2",
        "RR(rel=2)": "mrr-l2",
    }
    for number in range(PAIRS):
        run, qrels = make(number, ties=False, negative=False, missing=False)
        row = measured(run, qrels, "pair", names)
        judged, made = ranx.Qrels(qrels), ranx.Run(run)
        others = [name for name in names.values() if name != "rbp.80"]
        ranx.evaluate(judged, made, others, make_comparable=True)
        scores = dict(made.scores)
        # Its RBP multiplies by relevances.
        binary = {query: {it: min(grade, 1) for it, grade in grades.items()} for query, grades in qrels.items()}
        ranx.evaluate(ranx.Qrels(binary), made, ["rbp.80"], make_comparable=True)
        scores["rbp.80"] = made.scores["rbp.80"]
        for measure, name in names.items():
            for query in qrels:
                # Without a relevant document of this level, or another one, ranx divides by nothing.
                wanted = scores[name][query]
                grades = qrels[query].values()
                level = 2 if name.endswith("-l2") else 1
                if all(grade < level for grade in grades):
                    wanted = 0.0
                if name == "bpref" and all(grade >= 1 for grade in grades):
                    wanted = sum(document in run[query] for document in qrels[query]) / len(qrels[query])
                found = row["by_query"][query][measure]
                same(found, wanted, EXACT, f"pair {number}, {measure}, query {query}")
    print(f"{PAIRS} pairs")


def scipy_section():
    import numpy
    import scipy.stats

    for number in range(PAIRS):
        run, qrels = make(number, ties=number % 2 == 0, negative=number % 3 == 0, missing=False)
        other, _ = make(number, ties=number % 2 == 1, negative=number % 3 == 0, missing=False)
        row = measured(run, qrels, "pair", ["AUC", "nDCG@5", "MdR", "MnR"])
        ranks = []
        all_good, all_bad, all_relevant = [], [], 0
        for query, grades in qrels.items():
            good = [score for document, score in run[query].items() if grades.get(document, 0) > 0]
            bad = [score for document, score in run[query].items() if grades.get(document, 0) <= 0]
            relevant = sum(grade > 0 for grade in grades.values())
            all_good, all_bad, all_relevant = all_good + good, all_bad + bad, all_relevant + relevant
            wanted = None
            if bad:
                wanted = scipy.stats.mannwhitneyu(good, bad).statistic / relevant / len(bad) if good else 0.0
            same(row["by_query"][query]["AUC"], wanted, EXACT, f"pair {number}, AUC, query {query}")
            order = sorted(run[query], key=lambda document: (run[query][document], document), reverse=True)
            found = [place for place, document in enumerate(order, 1) if grades.get(document, 0) > 0]
            ranks.append(found[0] if found else max(map(len, run.values())) + 1)
        files = ["--run", FOLDER / "pair.run", "--qrels", FOLDER / "pair.qrels"]
        if all_good and all_bad:
            wanted = scipy.stats.mannwhitneyu(all_good, all_bad).statistic / all_relevant / len(all_bad)
            same(dehub(*files, "--roc")["roc"][0]["auc"], wanted, EXACT, f"pair {number}, pooled AUC")
        same(row["measures"]["MdR"], float(numpy.median(ranks)), EXACT, f"pair {number}, MdR")
        same(row["measures"]["MnR"], float(numpy.mean(ranks)), EXACT, f"pair {number}, MnR")
        tests(number, run, other, qrels)
        hubness(number, run)
    print(f"{PAIRS} pairs")


def tests(number, run, other, qrels):
    """All ways to swap values, which are few, and the sum of those as extreme: the same number."""
    import numpy
    import scipy.stats

    write(run, qrels, "first")
    write(other, qrels, "second")
    files = ["--run", FOLDER / "first.run", "--run", FOLDER / "second.run", "--qrels", FOLDER / "first.qrels"]
    measures = ["nDCG@5", "RR", "MdR"]
    chosen = [word for measure in measures for word in ("-m", measure)]
    first, second = dehub(*files, *chosen, "--test", "randomisation", "--by-query")["rows"]
    raw = []
    for measure in measures:
        statistic = numpy.median if measure == "MdR" else numpy.mean
        values = [[row["by_query"][query][measure] for query in qrels] for row in (first, second)]
        wanted = scipy.stats.permutation_test(
            values,
            lambda a, b, axis=-1, middle=statistic: middle(b, axis=axis) - middle(a, axis=axis),
            permutation_type="samples",
            n_resamples=numpy.inf,
            alternative="two-sided",
        )
        found = second["against_first"][measure]
        same(found["difference"], float(wanted.statistic), EXACT, f"pair {number}, difference of {measure}")
        # scipy doubles the smaller tail: it is what counts both where all swaps have their opposites.
        same(found["p"], float(wanted.pvalue), EXACT, f"pair {number}, p of {measure}")
        raw.append(found["p"])
    for measure, corrected in zip(measures, holm(raw)):
        same(second["against_first"][measure]["p_holm"], corrected, EXACT, f"pair {number}, Holm, {measure}")
    if number % 20 == 0:
        intervals(number, files, qrels)


def holm(probabilities):
    """Step by step from the smallest, as Holm has it."""
    corrected = []
    for own in probabilities:
        smaller = [it for it in sorted(probabilities) if it <= own]
        steps = [min(1.0, it * (len(probabilities) - place)) for place, it in enumerate(smaller)]
        corrected.append(max(steps))
    return corrected


def intervals(number, files, qrels):
    """Percentile intervals are those of scipy up to the draws."""
    import numpy
    import scipy.stats

    first, second = dehub(*files, "-m", "nDCG@5", "--test", "bootstrap", "--by-query")["rows"]
    values = [[row["by_query"][query]["nDCG@5"] for query in qrels] for row in (first, second)]
    gained = numpy.subtract(values[1], values[0])
    for about, list_, found in [
        ("value", numpy.array(values[0]), first["intervals"]["nDCG@5"]),
        ("difference", gained, second["against_first"]["nDCG@5"]["interval"]),
    ]:
        if list_.std() == 0:
            continue
        wanted = scipy.stats.bootstrap((list_,), numpy.mean, method="percentile", n_resamples=20000, rng=number)
        bound = 0.1 * list_.std() / math.sqrt(len(list_))
        for end, wanted_end in zip(found, wanted.confidence_interval):
            same(end, wanted_end, bound, f"pair {number}, interval of the {about}")


def hubness(number, run):
    """From the run alone, over a gallery that is larger than what is listed."""
    import numpy
    import scipy.stats

    listed = {document for scores in run.values() for document in scores}
    size = len(listed) + number
    write(run, {}, "alone")
    result = dehub("--run", FOLDER / "alone.run", "--hubness", "--gallery-size", size)
    for row in result["hubness"]:
        counts = dict.fromkeys(listed, 0)
        for scores in run.values():
            order = sorted(scores, key=lambda document: (scores[document], document), reverse=True)
            for document in order[: row["k"]]:
                counts[document] += 1
        n = numpy.array(list(counts.values()) + [0] * number, dtype=float)
        mean = n.mean()
        chance = scipy.stats.poisson(mean)
        hubs = n >= 2 * mean
        at_least = math.ceil(2 * mean)
        support = numpy.arange(0, 1000)
        wanted = {
            "points": size,
            "queries": len(run),
            "skewness": float(scipy.stats.skew(n)) if n.std() > 0 else 0.0,
            "robin_hood": float(abs(n - mean).sum() / 2 / n.sum()),
            "robin_hood_at_random": float((abs(support - mean) * chance.pmf(support)).sum() / 2 / mean),
            "gini": float(abs(n[:, None] - n[None, :]).sum() / (2 * size * n.sum())),
            "atkinson": float(1 - numpy.sqrt(n).mean() ** 2 / mean),
            "hub_occurrence": float(n[hubs].sum() / n.sum()),
            "hub_occurrence_at_random": float((support * chance.pmf(support))[at_least:].sum() / mean),
            "antihub_occurrence": float((n == 0).mean()),
            "antihub_occurrence_at_random": float(chance.pmf(0)),
            "max": float(n.max()),
            "groupie_ratio": float(n.max() / len(run)),
        }
        for name, value in wanted.items():
            same(row[name], value, EXACT, f"pair {number}, {name} at {row['k']}")


def files_section():
    import ranx
    import ranx.io

    run, qrels = make(7, ties=False, negative=False)
    wanted = measured(run, qrels, "plain", ["nDCG@5", "AP"])
    made, judged = ranx.Run(run), ranx.Qrels(qrels)
    made.save(str(FOLDER / "run.parquet"))
    judged.save(str(FOLDER / "qrels.parquet"))
    # Their save() asks the JIT for keys that are text; this is what it calls.
    ranx.io.save_json(run, str(FOLDER / "run.json"))
    ranx.io.save_json(qrels, str(FOLDER / "qrels.json"))
    for ending in ("json", "parquet"):
        files = ["--run", FOLDER / f"run.{ending}", "--qrels", FOLDER / f"qrels.{ending}"]
        found = dehub(*files, "-m", "nDCG@5", "-m", "AP", "--by-query")["rows"][0]
        assert found["measures"] == wanted["measures"], (ending, found, wanted)
        assert found["by_query"] == wanted["by_query"], (ending, found, wanted)
    print("2 forms")


SECTIONS = {"ir_measures": ir_measures_section, "ranx": ranx_section, "scipy": scipy_section, "files": files_section}
SECTIONS[SECTION]()
