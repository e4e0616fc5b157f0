"""How good and how fast: every method on every workload, and the figures to reach.

workloads.py  what to run on        methods.py   what to compare, and how a run is judged
reference.py  the best costs known  verdicts.py  the figures to reach
results.py    means over seeds      report.py    tables for a terminal and for docs/

    python benchmarks/evaluation.py --quick                        to see that it runs
    python benchmarks/evaluation.py --workloads 'synthetic*' --seeds 0-9
    python benchmarks/evaluation.py --runs runs.csv --markdown docs/evaluation.md
    python benchmarks/evaluation.py --make-reference

With --runs every result is kept when it is there, and a later call continues; delete the file
when the code has changed.  Choose parameters on seeds 0 to 9: the report is about seeds 10 to
19, and the hold-out workloads are run on no others.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from methods import DEFAULT, METHODS, SKLEARN, Method, from_planted, judge, run, sklearn_kmeans
from reference import N_RUNS, Best, Key, has_reference, load_references, long_runs
from report import Report, as_markdown, as_text
from results import Result, ResultFile, summarise, write_summaries
from speed.machine import CpuTimes
from threadpoolctl import threadpool_limits
from verdicts import Timing, all_verdicts
from workloads import QUICK, WORKLOADS, Instance, Workload

from robust_kmeans import outlier_precision_recall
from robust_kmeans.cli.terminal import progress
from robust_kmeans.execution.threads import default_threads
from robust_kmeans.paper.machine import describe_machine

REPORT_SEEDS = range(10, 20)
# The optimum is known, or the peer is scikit-learn.
NEED_NO_REFERENCE = ("optimum 0", "clean")
TIMED = ("shuttle-k5", "shuttle-k10", "shuttle-k15", "skin-noise-k20", "kdd10-k3", "kdd10-k5")


def main() -> None:
    options = parse_options()
    chosen = [QUICK] if options.quick else matching(WORKLOADS, options.workloads)
    left_out = {
        workload.name: f"{workload.name} left out: {reason}"
        for workload in chosen
        if (reason := reason_to_leave_out(workload, options.seeds))
    }
    for line in left_out.values():
        print(line, file=sys.stderr, flush=True)
    workloads = [workload for workload in chosen if workload.name not in left_out]
    # scikit-learn takes as many threads as OpenMP and BLAS give it.
    with threadpool_limits(options.threads):
        if options.make_reference:
            make_reference(workloads, options)
            return
        before = CpuTimes.now()
        warm_up(options)
        results = evaluate(workloads, options)
        timings = time_beside_sklearn([w for w in workloads if w.name in TIMED], options)
    references = {} if options.quick else load_references()
    report = Report(
        workloads,
        summarise(results, workloads, references),
        all_verdicts(results, workloads, references, timings),
        timings,
        options.seeds,
        [w.name for w in workloads if lacks_reference(w, options.seeds, references)],
        list(left_out.values()),
        f"{describe_machine()}, cores used: {options.threads}. "
        f"{CpuTimes.now().competition_since(before)}",
    )
    print(as_text(report))
    if options.csv:
        write_summaries(report.summaries, options.csv)
    if options.markdown:
        options.markdown.write_text(as_markdown(report), encoding="utf-8")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=seed_range, default=REPORT_SEEDS, help="such as 10-19")
    parser.add_argument("--workloads", default="*", help="names, with * and commas")
    parser.add_argument("--methods", default="*", help="names, with * and commas")
    parser.add_argument("--threads", type=int, default=default_threads(), help="for all methods")
    parser.add_argument("--timings", type=int, default=5, help="fits per time; 0 for no times")
    parser.add_argument("--csv", type=Path, help="write a line per workload and method")
    parser.add_argument("--markdown", type=Path, help="write the page")
    parser.add_argument("--runs", type=Path, help="keep every single result, and continue")
    parser.add_argument("--make-reference", action="store_true", help=f"{N_RUNS} long runs each")
    parser.add_argument("--quick", action="store_true", help="tiny and once: only to see it run")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.timings = range(10, 11), 0
    return options


def seed_range(text: str) -> range:
    """First and last seed, or one.

    >>> seed_range("10-19"), seed_range("3")
    (range(10, 20), range(3, 4))
    """
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds such as 10-19")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def matching(named: Sequence, patterns: str) -> list:
    """Those whose name matches one of the patterns."""
    chosen = [thing for thing in named if matches(thing.name, patterns)]
    if not chosen:
        names = ", ".join(thing.name for thing in named)
        sys.exit(f"Nothing is called {patterns!r}. There is: {names}.")
    return chosen


def matches(name: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))


def reason_to_leave_out(workload: Workload, seeds: range) -> str | None:
    if workload.missing:
        return f"no file {workload.file}; set ROBUST_KMEANS_DATA to the folder that holds it."
    if workload.group == "hold-out" and seeds[0] < REPORT_SEEDS[0]:
        return f"hold-out data are for seeds from {REPORT_SEEDS[0]} on."
    return None


def lacks_reference(workload: Workload, seeds: range, references: Mapping[Key, Best]) -> bool:
    """Whether ratios on the workload are to the best of this evaluation's own runs only."""
    return workload.group not in NEED_NO_REFERENCE and not all(
        has_reference(workload, seed, references) for seed in seeds
    )


def warm_up(options: argparse.Namespace) -> None:
    """Compile, or load, what narrow and wide rows need: no time is about that."""
    wide = next(workload for workload in WORKLOADS if workload.name == "instance-a")
    for workload in (QUICK, wide):
        instance = workload.make(0)
        for method in matching(methods_for(workload, instance, "*"), options.methods):
            measured(workload, instance, method, 0, options.threads)


def evaluate(workloads: Sequence[Workload], options: argparse.Namespace) -> list[Result]:
    """Every method on every instance.  Methods take turns, so that a busy spell hits them all."""
    file = ResultFile(options.runs)
    with progress_bar(sum(workload.work for workload in workloads) * len(options.seeds)) as advance:
        for workload, seed, instance in instances(workloads, options.seeds):
            methods = methods_for(workload, instance, options.methods)
            for method in methods:
                if not file.has(workload.name, method.name, seed):
                    file.add(measured(workload, instance, method, seed, options.threads))
                done = f"{workload.name}, seed {seed}, {method.name}"
                advance(workload.work / len(methods), done)
    names = {workload.name for workload in workloads}
    return [
        result
        for result in file.results
        if result.workload in names
        and result.seed in options.seeds
        and matches(result.method, options.methods)
    ]


def instances(
    workloads: Sequence[Workload], seeds: range
) -> Iterator[tuple[Workload, int, Instance]]:
    """Every workload with every seed; what all seeds share is made once."""
    for workload in workloads:
        instance = None
        for seed in seeds:
            if workload.fresh or instance is None:
                instance = workload.make(seed)
            yield workload, seed, instance


def methods_for(workload: Workload, instance: Instance, patterns: str) -> list[Method]:
    planted = [] if instance.centers is None else [from_planted(instance.centers)]
    suitable = [m for m in METHODS if workload.n_outliers or m.for_clean_data]
    return [method for method in [*suitable, *planted] if matches(method.name, patterns)]


def measured(
    workload: Workload, instance: Instance, method: Method, seed: int, n_threads: int
) -> Result:
    k, z = workload.n_clusters, workload.n_outliers
    found = run(method, instance.X, k, z, seed, n_threads)
    cost, flagged = judge(instance.X, found.centers, z)
    precision = recall = None
    if instance.outliers is not None:
        true_rows = np.flatnonzero(instance.outliers)
        precision, recall, _ = outlier_precision_recall(true_rows, flagged)
    return Result(
        workload.name, method.name, seed, cost, precision, recall, found.seconds, found.readings
    )


def time_beside_sklearn(workloads: Sequence[Workload], options: argparse.Namespace) -> list[Timing]:
    """Our default and scikit-learn's KMeans with n_init 1 and 10, one after the other in turn."""
    if not options.timings or not workloads or not matches(DEFAULT, options.methods):
        return []
    peers = [method for method in METHODS if method.name in (DEFAULT, SKLEARN)]
    peers.append(Method("sklearn, n_init=10", "", partial(sklearn_kmeans, n_init=10)))
    timings = []
    with progress_bar(sum(w.work for w in workloads) * options.timings) as advance:
        for workload in workloads:
            instance = workload.make(REPORT_SEEDS[0])
            seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
            for seed in range(options.timings):
                for peer in peers:
                    done = run(
                        peer, instance.X, workload.n_clusters, workload.n_outliers, seed,
                        options.threads,
                    )  # fmt: skip
                    seconds[peer.name].append(done.seconds)
                    advance(workload.work / len(peers), f"time of {workload.name}, {peer.name}")
            timings.append(Timing(workload.name, *(median(seconds[p.name]) for p in peers)))
    return timings


def make_reference(workloads: Sequence[Workload], options: argparse.Namespace) -> None:
    """The long runs that are not yet in the file."""
    known = load_references()
    todo = [
        (workload, seed)
        for workload in workloads
        if workload.group not in NEED_NO_REFERENCE
        for seed in (options.seeds if workload.fresh else options.seeds[:1])
        if not has_reference(workload, seed, known)
    ]
    with progress_bar(sum(w.work for w, _ in todo) * N_RUNS) as advance:
        for workload, seed in todo:
            for best in long_runs(workload, seed, workload.make(seed), options.threads):
                done = f"{workload.name}, seed {seed}, run {best.runs}: {best.cost:.6g}"
                advance(workload.work, done)


@contextmanager
def progress_bar(total: float) -> Iterator[Callable[[float, str], None]]:
    """The command's progress; call it with the work of a step and what it was."""
    with progress(total, quiet=False) as tell:
        done = 0.0

        def advance(work: float, what: str) -> None:
            nonlocal done
            done += work
            tell(done, what)

        yield advance


if __name__ == "__main__":
    main()
