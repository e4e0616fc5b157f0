"""Which printed lines cannot come from ten repetitions: RULE says how this is judged.

The bounds on an average follow from v1 ≤ … ≤ v10 with median (v5 + v6)/2. For costs it is
least if v1 … v4 are the minimum and v5 … v10 the median; there is no largest. For hits, which
are at least 0, it is least if v1 … v4 are 0 and v5 … v9 the median, and largest if v1 … v6 are
the median and v7 … v10 the maximum. As hits are whole, all of this is done in whole numbers:
the hits of the best repetition, of the middle two together, and of all ten together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil

from robust_kmeans.paper.published import REPETITIONS, Printed, published, stands_for

RULE = """\
A printed figure stands for any value from half a unit of its last digit below it to a whole unit
above it, as the paper both rounds and cuts off (5/21 = 0.238 is printed as 0.23). A line is
impossible if no ten repetitions have such values:

- Precision is hits divided by z, and recall the same hits divided by the number of true outliers.
  Hits are whole numbers: the largest precision is a multiple of 1/z, the median of ten of 1/(2z).
- The minimum is not above the median, nor the median above the maximum.
- The average of ten costs is at least (4 · minimum + 6 · median)/10. The average of ten
  precisions (or recalls) is from (5 · median + maximum)/10 to (6 · median + 4 · maximum)/10.
"""

_RUNS_BEHIND = {"max": 1, "avg": REPETITIONS, "med": 2}
_NAMES = {"max": "maximum", "avg": "average", "med": "median"}


def impossible(line: Printed) -> tuple[str, ...]:
    """Why a line cannot come from ten repetitions; empty if it can.

    Examples
    --------
    >>> from robust_kmeans.paper.impossible import impossible
    >>> from robust_kmeans.paper.published import published
    >>> impossible(published()[0])
    ()
    >>> for reason in impossible(published()[4]):
    ...     print(reason)
    average precision 0.88 is above 0.872, the most that maximum 0.92 and median 0.84 of ten allow
    average cost 0.26 is below 0.275, the least that minimum 0.22 and median 0.32 of ten allow
    """
    return (*_about_hits(line), *_about_costs(line))


def remarks(line: Printed) -> tuple[str, ...]:
    """What is odd about a line, though it need not be impossible: figures that come twice.

    Examples
    --------
    >>> from robust_kmeans.paper.impossible import remarks
    >>> from robust_kmeans.paper.published import published
    >>> remarks(published()[9])
    ('all figures but the time are also those of k = 20, z = 25',)
    """
    return tuple(
        f"all figures but the time are also those of k = {other.k}, z = {other.z}"
        for other in published()
        if other != line
        and other
        == replace(
            line,
            k=other.k,
            z=other.z,
            n=other.n,
            true_outliers=other.true_outliers,
            seconds=other.seconds,
        )
    )


def _about_hits(line: Printed) -> Iterator[str]:
    hits, apart = {}, []
    for which, runs in _RUNS_BEHIND.items():
        precision = _figure(line, "precision", which)
        recall = _figure(line, "recall", which)
        by_precision = _multiples(precision, runs * line.z)
        by_recall = _multiples(recall, runs * line.true_outliers)
        hits[which] = _overlap(by_precision, by_recall)
        if not by_precision:
            yield _no_multiple(f"{_NAMES[which]} precision {precision}", runs * line.z)
        if not by_recall:
            yield _no_multiple(f"{_NAMES[which]} recall {recall}", runs * line.true_outliers)
        if by_precision and by_recall and not hits[which]:
            apart.append(f"{_NAMES[which]} {precision} and {recall}")
    if apart:
        yield f"precision and recall are not of the same hits ({', '.join(apart)})"
    if all(hits.values()):
        yield from _about_average_hits(line, hits)


def _figure(line: Printed, measure: str, which: str) -> str:
    figure: str = getattr(line, f"{measure}_{which}")
    return figure


def _multiples(figure: str, total: int) -> range:
    """The counts whose share of the total may be printed as this figure."""
    low, high = stands_for(figure)
    return range(ceil(low * total), min(total + 1, ceil(high * total)))


def _overlap(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _no_multiple(figure: str, total: int) -> str:
    return f"{figure} is no multiple of 1/{total}, rounded or cut off"


def _about_average_hits(line: Printed, hits: Mapping[str, range]) -> Iterator[str]:
    if hits["med"][0] > 2 * hits["max"][-1]:
        yield f"median precision {line.precision_med} is above the maximum {line.precision_max}"
        return
    given = f"that maximum {line.precision_max} and median {line.precision_med} of ten allow"
    middle_two = hits["med"][0]
    sixth = (middle_two + 1) // 2
    least = middle_two + 3 * sixth + max(hits["max"][0], sixth)
    if hits["avg"][-1] < least:
        bound = _text(Fraction(least, REPETITIONS * line.z))
        yield f"average precision {line.precision_avg} is below {bound}, the least {given}"
    best = hits["max"][-1]
    middle_two = min(hits["med"][-1], 2 * best)
    most = 4 * (middle_two // 2) + middle_two + 4 * best
    if hits["avg"][0] > most:
        bound = _text(Fraction(most, REPETITIONS * line.z))
        yield f"average precision {line.precision_avg} is above {bound}, the most {given}"


def _about_costs(line: Printed) -> Iterator[str]:
    minimum, _ = stands_for(line.cost_min)
    median, median_end = stands_for(line.cost_med)
    _, average_end = stands_for(line.cost_avg)
    if minimum >= median_end:
        yield f"minimum cost {line.cost_min} is above the median {line.cost_med}"
    least = (4 * minimum + 6 * max(median, minimum)) / REPETITIONS
    if average_end <= least:
        yield (
            f"average cost {line.cost_avg} is below {_text(least)}, the least that "
            f"minimum {line.cost_min} and median {line.cost_med} of ten allow"
        )


def _text(value: Fraction) -> str:
    return f"{float(value):.4g}"
