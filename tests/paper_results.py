"""Made-up results of the paper's experiments, without running any."""

from __future__ import annotations

import numpy as np

from robust_kmeans.paper.comparison import compare, targets
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.page import TableSection
from robust_kmeans.paper.published import published
from robust_kmeans.paper.summaries import summarise
from robust_kmeans.paper.trials import Circumstances, Trial


def made_trials(name, repetitions=3, share=1.0, data="made up"):
    """Costs around the paper's, on a share of its rows."""
    experiment, random = experiments()[name], np.random.default_rng(0)
    trials = []
    for line in (line for line in published() if line.table == name):
        at = Circumstances(
            table=name,
            data=data,
            n=int(line.n * share),
            d=3,
            k=line.k,
            z=int(line.z * share),
            true_outliers=int(line.true_outliers * share),
            beta=experiment.beta,
            noise_scale=4.5 if experiment.n_noisy else None,
            seed=7,
            version="1.2.3",
            code="made up",
        )
        for repetition in range(repetitions):
            cost = float(line.cost_avg) * experiment.cost_unit * random.lognormal()
            precision, recall = random.uniform(size=2)
            for protocol, factor in (("seeds", 1.5), ("lloyd", 1.0)):
                figures = (cost * factor, precision, recall, 0.0123, 0.0246)
                trials.append(Trial(at, line.method, repetition, protocol, *figures))
            if line.method == "algorithm-1":
                figures = (cost / 3, precision, recall, 0.5)
                trials.append(Trial(at, "RobustKMeans", repetition, "fit", *figures))
    return trials


def made_section(name, repetitions=3, share=1.0, data="made up", **pictures):
    experiment = experiments()[name]
    summaries = summarise(made_trials(name, repetitions, share, data))
    return TableSection(
        experiment, summaries, compare(experiment, summaries), targets(experiment, summaries),
        **pictures,
    )  # fmt: skip
