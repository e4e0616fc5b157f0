"""The paper's figures, and the rule that says which of them cannot be right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.impossible import impossible, remarks
from robust_kmeans.paper.published import Printed, decimals, published, stands_for

WAYS_TO_PRINT = (ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP)


def find(table, method, **block):
    (line,) = (
        line
        for line in published()
        if (line.table, line.method) == (table, method)
        and all(getattr(line, name) == value for name, value in block.items())
    )
    return line


def printed(value, digits, way):
    value = Fraction(value)
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return str(exact.quantize(Decimal(1).scaleb(-digits), rounding=way))


FINE = Printed(
    table="constructed",
    method="none",
    k=2,
    z=25,
    n=1025,
    true_outliers=25,
    precision_max="0.52",
    precision_avg="0.31",
    precision_med="0.30",
    recall_max="0.52",
    recall_avg="0.31",
    recall_med="0.30",
    cost_min="0.57",
    cost_avg="1.20",
    cost_med="1.05",
    seconds="0.06",
)


def with_hits(z, true_outliers, precision, recall):
    return replace(
        FINE,
        z=z,
        true_outliers=true_outliers,
        **dict(zip(("precision_max", "precision_avg", "precision_med"), precision, strict=True)),
        **dict(zip(("recall_max", "recall_avg", "recall_med"), recall, strict=True)),
    )


def with_costs(minimum, average, middle):
    return replace(FINE, cost_min=minimum, cost_avg=average, cost_med=middle)


def test_every_block_of_every_experiment_has_the_paper_s_five_methods():
    expected = Counter(
        (name, setting.k, method)
        for name, experiment in experiments().items()
        for setting in experiment.settings
        for method in ("random", "k-means++", "tkm++", "rkm++", "algorithm-1")
    )
    assert Counter((line.table, line.k, line.method) for line in published()) == expected
    assert len(published()) == 70


def test_blocks_have_the_z_of_the_experiments():
    for line in published():
        experiment = experiments()[line.table]
        (setting,) = (
            setting
            for setting in experiment.settings
            if getattr(setting, experiment.varies) == getattr(line, experiment.varies)
        )
        assert line.z == (setting.z or line.true_outliers)
        assert line.true_outliers == (experiment.n_noisy or line.true_outliers)


@pytest.mark.parametrize(
    ("line", "n", "true_outliers"),
    [
        (find("synthetic", "tkm++", z=50), 1050, 50),
        (find("shuttle", "tkm++", k=10), 43_500, 17),
        (find("kdd", "tkm++", k=5), 4_898_431, 45_747),
        (find("skin-noise", "tkm++", k=40), 245_057, 6_126),
        (find("shuttle-noise", "tkm++", k=40), 43_500, 1_000),
    ],
)
def test_rows_and_outliers_are_those_of_the_paper_s_data(line, n, true_outliers):
    assert (line.n, line.true_outliers) == (n, true_outliers)


def test_figures_keep_their_digits():
    assert find("synthetic", "k-means++", z=25).recall_med == "0.5"
    assert find("synthetic", "k-means++", z=25).precision_med == "0.50"
    kdd = find("kdd", "rkm++", k=3)
    assert (kdd.cost_min, kdd.cost_avg, kdd.cost_med, kdd.seconds) == ("2.8", "2.8", "2.8", "295")
    assert [decimals(figure) for figure in ("295", "2.8", "0.50")] == [0, 1, 2]


@given(
    thousandths=st.integers(0, 12_000),
    hundredths=st.integers(0, 1200),
)
def test_a_figure_stands_for_what_is_rounded_or_cut_off_to_it(thousandths, hundredths):
    value, figure = Fraction(thousandths, 1000), f"{hundredths / 100:.2f}"
    low, high = stands_for(figure)
    assert (low <= value < high) == any(printed(value, 2, way) == figure for way in WAYS_TO_PRINT)


@st.composite
def real_lines(draw):
    """What ten repetitions may lead to, each figure rounded or cut off as it pleases."""
    z, true_outliers = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    hits = draw(st.lists(st.integers(0, min(z, true_outliers)), min_size=10, max_size=10))
    costs = draw(st.lists(st.integers(0, 3000), min_size=10, max_size=10))
    hits, costs = [Fraction(hit) for hit in hits], [Fraction(cost, 1000) for cost in costs]

    def figures(values, best):
        return [
            printed(value, draw(st.integers(1, 2)), draw(st.sampled_from(WAYS_TO_PRINT)))
            for value in (best(values), sum(values) / 10, median(values))
        ]

    minimum, average, middle = figures(costs, min)
    return replace(
        with_hits(
            z,
            true_outliers,
            figures([hit / z for hit in hits], max),
            figures([hit / true_outliers for hit in hits], max),
        ),
        cost_min=minimum,
        cost_avg=average,
        cost_med=middle,
    )


@given(real_lines())
def test_nothing_that_ten_repetitions_led_to_is_impossible(line):
    assert impossible(line) == ()


@cache
def outcomes(largest):
    """Best, average and median of every ten numbers of hits up to the largest."""
    return {
        (Fraction(runs[9]), Fraction(sum(runs), 10), Fraction(runs[4] + runs[5], 2))
        for runs in combinations_with_replacement(range(largest + 1), 10)
    }


def some_ten_repetitions_have(line):
    precision = [line.precision_max, line.precision_avg, line.precision_med]
    recall = [line.recall_max, line.recall_avg, line.recall_med]
    bounds = [(*stands_for(p), *stands_for(r)) for p, r in zip(precision, recall, strict=True)]
    return any(
        all(
            p_low <= hits / line.z < p_high and r_low <= hits / line.true_outliers < r_high
            for hits, (p_low, p_high, r_low, r_high) in zip(outcome, bounds, strict=True)
        )
        for outcome in outcomes(min(line.z, line.true_outliers))
    )


def test_hits_are_impossible_just_if_no_ten_repetitions_have_them():
    # Figures without a digit after the point stand for several numbers of hits.
    figures = ["0", "1", "0.0", "0.2", "0.3", "0.5", "0.7", "0.8", "1.0", "1.1"]
    verdicts = Counter()
    for three in product(figures, repeat=3):
        line = with_hits(3, 3, three, three)
        possible = some_ten_repetitions_have(line)
        assert (impossible(line) == ()) == possible, three
        verdicts[possible] += 1
    assert min(verdicts[True], verdicts[False]) > 50


@given(
    z=st.integers(1, 5),
    true_outliers=st.integers(1, 5),
    runs=st.lists(st.integers(0, 5), min_size=10, max_size=10),
    changed=st.lists(st.integers(-6, 6), min_size=6, max_size=6),
)
def test_precision_and_recall_are_of_the_same_ten_repetitions(z, true_outliers, runs, changed):
    runs = sorted(min(hits, z, true_outliers) for hits in runs)
    values = [
        Fraction(value) / total
        for total in (z, true_outliers)
        for value in (runs[9], Fraction(sum(runs), 10), Fraction(runs[4] + runs[5], 2))
    ]
    figures = [
        printed(max(0, value + Fraction(change, 100)), 2, ROUND_HALF_UP)
        for value, change in zip(values, changed, strict=True)
    ]
    line = with_hits(z, true_outliers, figures[:3], figures[3:])
    assert (impossible(line) == ()) == some_ten_repetitions_have(line)


def test_costs_are_impossible_just_if_no_ten_repetitions_have_them():
    # Half units hold every lower end. The largest of ten costs may be as large as it likes, so
    # that only a too small average is out of reach.
    outcomes_of_costs = {
        (runs[0], sum(runs), runs[4] + runs[5])
        for runs in combinations_with_replacement(range(8), 10)
    }
    verdicts = Counter()
    for figures in product("01234", repeat=3):
        (least, least_end), (_, average_end), (middle, middle_end) = map(stands_for, figures)
        possible = any(
            2 * least <= minimum < 2 * least_end
            and total < 20 * average_end
            and 4 * middle <= middle_two < 4 * middle_end
            for minimum, total, middle_two in outcomes_of_costs
        )
        assert (impossible(with_costs(*figures)) == ()) == possible, figures
        verdicts[possible] += 1
    assert min(verdicts[True], verdicts[False]) > 10


def test_the_upper_end_of_what_a_figure_stands_for_is_not_reached():
    # 1 stands for 0.5 and more, and 2 for 1.5; 0.4 for less than 0.5, and 1.0 for less than 1.1.
    assert impossible(with_costs("1", "1", "0.4")) == ("minimum cost 1 is above the median 0.4",)
    assert impossible(with_costs("1", "1.0", "2")) == (
        "average cost 1.0 is below 1.1, the least that minimum 1 and median 2 of ten allow",
    )


@given(costs=st.lists(st.floats(0, 1e6), min_size=10, max_size=10))
def test_the_stated_bound_on_average_costs_holds(costs):
    least = (4 * min(costs) + 6 * median(costs)) / 10
    assert fmean(costs) >= least * (1 - 1e-12)


@given(shares=st.lists(st.floats(0, 1), min_size=10, max_size=10))
def test_the_stated_bounds_on_average_precision_hold(shares):
    best, middle = max(shares), median(shares)
    assert (5 * middle + best) / 10 <= fmean(shares) + 1e-12
    assert fmean(shares) <= (6 * middle + 4 * best) / 10 + 1e-12


# Worked out by hand, each from the figures of the line alone.
IMPOSSIBLE = {
    # 23, 42/2 and at least 219/10 of 25 hits, but 4·23 + 6·21 = 218; 4·0.215 + 6·0.315 = 2.75.
    ("synthetic", "algorithm-1", 20, 25): ["above 0.872", "below 0.275"],
    # 41, 48/2 and at least 378/10 of 50 hits, but 4·41 + 6·24 = 308; 4·0.335 + 6·0.685 = 5.45.
    ("synthetic", "tkm++", 20, 50): ["above 0.616", "below 0.545"],
    # 46, 84/2 and at least 438/10 of 50 hits, but 4·46 + 6·42 = 436; costs as for z = 25.
    ("synthetic", "algorithm-1", 20, 50): ["above 0.872", "below 0.275"],
    # z is the number of true outliers, and yet precision is not recall.
    ("synthetic", "random", 20, 100): ["0.36 and 0.44, average 0.20 and 0.24, median 0.20 and"],
    ("synthetic", "k-means++", 20, 100): ["0.68 and 0.82, average 0.49 and 0.59, median 0.51"],
    ("synthetic", "tkm++", 20, 100): ["0.75 and 0.90, average 0.49 and 0.59, median 0.54"],
    ("synthetic", "rkm++", 20, 100): ["0.81 and 0.98, average 0.78 and 0.94, median 0.77"],
    ("synthetic", "algorithm-1", 20, 100): ["0.77 and 0.93, average 0.76 and 0.91, median 0.74"],
    # 5/21 = 0.238 and 6/21 = 0.286; 5/17 = 0.294 and 6/17 = 0.353.
    ("shuttle", "rkm++", 5, 21): ["precision 0.26 is no multiple of 1/21", "recall 0.33 is no"],
    # 11/34 = 0.324 and 12/34 = 0.353; 11/17 = 0.647 and 12/17 = 0.706; 10/34 = 0.294.
    ("shuttle", "rkm++", 10, 34): [
        "precision 0.34 is no multiple of 1/34",
        "recall 0.68 is no multiple of 1/17",
        "median recall 0.30 is no multiple of 1/34",
    ],
    ("skin-noise", "tkm++", 20, 6126): ["minimum cost 1.98 is above the median 1.91"],
    ("shuttle-noise", "random", 20, 1000): ["minimum cost 0.21 is above the median 0.19"],
    ("shuttle-noise", "rkm++", 20, 1000): ["minimum cost 0.22 is above the median 0.20"],
}


def test_the_impossible_lines_are_those_found_by_hand():
    found = {
        (line.table, line.method, line.k, line.z): impossible(line)
        for line in published()
        if impossible(line)
    }
    assert found.keys() == IMPOSSIBLE.keys()
    for key, reasons in found.items():
        assert len(reasons) == len(IMPOSSIBLE[key])
        assert all(part in said for part, said in zip(IMPOSSIBLE[key], reasons, strict=True))


@pytest.mark.parametrize(
    "line",
    [
        # 5/21 = 0.238 and 5/17 = 0.294, both cut off.
        find("shuttle", "tkm++", k=5),
        # 9/34 = 0.265 cut off; 9/17 = 0.529 cut off; the median 4 of 34 is 0.118, of 17 0.235.
        find("shuttle", "tkm++", k=10),
        # The median 11.5 of 51 is 0.225, and of 17 it is 0.676.
        find("shuttle", "rkm++", k=15),
        # One digit: 0.5 may be anything from 0.45 to 0.6.
        find("synthetic", "k-means++", z=25),
        # All three costs are 2.8.
        find("kdd", "rkm++", k=3),
        # An average far above minimum and median: one bad run is enough.
        find("kdd", "random", k=5),
    ],
)
def test_lines_found_possible_by_hand_are_possible(line):
    assert impossible(line) == ()


def test_of_all_z_only_120_makes_the_block_of_100_outliers_possible():
    block = [line for line in published() if (line.table, line.z) == ("synthetic", 100)]
    possible = [
        z for z in range(90, 150) if not any(impossible(replace(line, z=z)) for line in block)
    ]
    assert possible == [120]


def test_a_median_above_the_maximum_is_the_only_reason_given():
    figures = ("0.20", "0.20", "0.40")
    assert impossible(with_hits(25, 25, figures, figures)) == (
        "median precision 0.40 is above the maximum 0.20",
    )


def test_an_average_below_the_least_is_impossible():
    figures = ("0.40", "0.20", "0.40")
    assert impossible(with_hits(25, 25, figures, figures)) == (
        "average precision 0.20 is below 0.24, the least that maximum 0.40 and median 0.40 "
        "of ten allow",
    )


def test_figures_that_come_twice_are_remarked_on_both_lines():
    said = {(line.table, line.method, line.z): remarks(line) for line in published()}
    assert {key: notes for key, notes in said.items() if notes} == {
        ("synthetic", "algorithm-1", 25): (
            "all figures but the time are also those of k = 20, z = 50",
        ),
        ("synthetic", "algorithm-1", 50): (
            "all figures but the time are also those of k = 20, z = 25",
        ),
    }
