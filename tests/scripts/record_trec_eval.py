#!/usr/bin/env python3
"""Records what trec_eval (PyPI pytrec-eval-terrier) says about random runs with many ties, graded and negative
judgements, unjudged queries' documents and empty results; eval/metrics_test.cc compares with it.

usage: record_trec_eval.py > tests/data/trec_eval/cases.json
"""
import json
import random

import pytrec_eval

random.seed(20240607)
cases = []
for number in range(60):
    documents = [f"d{random.randrange(10**6)}" for _ in range(random.choice([1, 3, 12, 150, 400]))]
    documents = sorted(set(documents))
    judged = random.sample(documents, random.randint(1, min(len(documents), 30)))
    qrels = {d: random.choice([0, 0, 1, 1, 2, 3, -1]) for d in judged}
    qrels["never-returned"] = 1
    levels = random.choice([2, 5, 1000])
    returned = random.sample(documents, random.randint(0, len(documents)))
    run = {d: random.randrange(levels) / levels + random.choice([0, 1e-9]) for d in returned}
    measures = {"ndcg_cut.10", "recall.100", "map"}
    result = pytrec_eval.RelevanceEvaluator({"q": qrels}, measures).evaluate({"q": run})["q"] if run else {}
    # trec_eval's reciprocal rank has no cutoff: give it the first ten by its own order (score as float32, then id).
    import numpy as np
    top = sorted(run, key=lambda d: (np.float32(run[d]), d), reverse=True)[:10]
    mrr = (pytrec_eval.RelevanceEvaluator({"q": qrels}, {"recip_rank"}).evaluate({"q": {d: run[d] for d in top}})["q"]["recip_rank"]
           if top else 0.0)
    cases.append({"qrels": qrels, "run": run, "ndcg_cut_10": result.get("ndcg_cut_10", 0.0),
                  "recall_100": result.get("recall_100", 0.0), "map": result.get("map", 0.0), "mrr_10": mrr})
print(json.dumps(cases))
