"""Results of single runs, and what the seeds of a workload say together about a method."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from statistics import fmean, median

from reference import Best, Key, key_of
from workloads import Workload

# The instances whose optimum is 0 have distances of 1 and more: less than this is rounding.
ZERO = 1e-9


@dataclass(frozen=True)
class Result:
    """One run; empty where the true outliers, or the readings, are not known."""

    workload: str
    method: str
    seed: int
    cost: float
    precision: float | None
    recall: float | None
    seconds: float
    readings: int | None


@dataclass(frozen=True)
class Summary:
    """One line of the tables: a method on a workload, over all seeds."""

    workload: str
    method: str
    n: int
    d: int
    k: int
    z: int
    seeds: int
    cost: float
    """Mean trimmed cost."""
    ratio: float
    """Mean of the trimmed cost relative to the best known of its instance."""
    worst_ratio: float
    precision: float | None
    recall: float | None
    seconds: float
    """Median."""
    readings: float | None


def summarise(
    results: Sequence[Result], workloads: Iterable[Workload], references: Mapping[Key, Best]
) -> list[Summary]:
    summaries = []
    for workload in workloads:
        ratios = cost_ratios(results, workload, references)
        here = [result for result in results if result.workload == workload.name]
        for method in dict.fromkeys(result.method for result in here):
            runs = [result for result in here if result.method == method]
            relative = [ratios[method, result.seed] for result in runs]
            summaries.append(
                Summary(
                    workload=workload.name,
                    method=method,
                    n=workload.n_rows,
                    d=workload.n_features,
                    k=workload.n_clusters,
                    z=workload.n_outliers,
                    seeds=len(runs),
                    cost=fmean(result.cost for result in runs),
                    ratio=fmean(relative),
                    worst_ratio=max(relative),
                    precision=_mean_known(result.precision for result in runs),
                    recall=_mean_known(result.recall for result in runs),
                    seconds=median(result.seconds for result in runs),
                    readings=_mean_known(result.readings for result in runs),
                )
            )
    return summaries


def cost_ratios(
    results: Sequence[Result], workload: Workload, references: Mapping[Key, Best]
) -> dict[tuple[str, int], float]:
    """By method and seed, the cost relative to the least that anybody found on the instance."""
    here = [result for result in results if result.workload == workload.name]
    least = {key: best.cost for key, best in references.items()}
    for result in here:
        key = key_of(workload, result.seed)
        least[key] = min(result.cost, least.get(key, float("inf")))
    return {
        (result.method, result.seed): _ratio(result.cost, least[key_of(workload, result.seed)])
        for result in here
    }


def _ratio(cost: float, least: float) -> float:
    if least <= ZERO:
        return 1.0 if cost <= ZERO else float("inf")
    return cost / least


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


class ResultFile:
    """Results in a CSV file, each written when it is there; a later run continues it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.results: list[Result] = []
        if path is not None and path.is_file():
            with open(path, newline="") as file:
                self.results = [_parsed(line) for line in csv.DictReader(file)]
        self._known = {(result.workload, result.method, result.seed) for result in self.results}

    def has(self, workload: str, method: str, seed: int) -> bool:
        """Whether that run has been done."""
        return (workload, method, seed) in self._known

    def add(self, result: Result) -> None:
        """Note a run, in the file too if there is one."""
        self.results.append(result)
        self._known.add((result.workload, result.method, result.seed))
        if self.path is None:
            return
        new = not self.path.is_file()
        with open(self.path, "a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if new:
                writer.writerow(asdict(result))
            writer.writerow(astuple(result))


def _parsed(line: dict[str, str]) -> Result:
    return Result(
        workload=line["workload"],
        method=line["method"],
        seed=int(line["seed"]),
        cost=float(line["cost"]),
        precision=float(line["precision"]) if line["precision"] else None,
        recall=float(line["recall"]) if line["recall"] else None,
        seconds=float(line["seconds"]),
        readings=int(line["readings"]) if line["readings"] else None,
    )


def write_summaries(summaries: Sequence[Summary], path: Path) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Summary))
        writer.writerows(astuple(summary) for summary in summaries)
