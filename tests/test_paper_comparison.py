"""Verdicts on the paper's lines, from figures made up for the purpose."""

from __future__ import annotations

from dataclasses import replace
from math import floor, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.paper.comparison import compare, in_unit, targets
from robust_kmeans.paper.data import STAND_IN
from robust_kmeans.paper.experiments import experiments
from robust_kmeans.paper.published import published
from robust_kmeans.paper.summaries import Spread, Summary
from robust_kmeans.paper.trials import Circumstances

SHUTTLE = experiments()["shuttle-noise"]
KDD = experiments()["kdd"]
SYNTHETIC = experiments()["synthetic"]

AS_PRINTED = Circumstances(
    table="shuttle-noise",
    data="shuttle.trn",
    n=43_500,
    d=9,
    k=10,
    z=1000,
    true_outliers=1000,
    beta=0.5,
    noise_scale=5.0,
    seed=0,
    version="0",
    code="0",
)
TEN_PERCENT = replace(
    AS_PRINTED,
    table="kdd",
    data="10 percent file",
    n=494_021,
    d=34,
    k=3,
    z=8_752,
    true_outliers=8_752,
    noise_scale=None,
)
FULL = replace(TEN_PERCENT, data="full file", n=4_898_431, z=45_747, true_outliers=45_747)


def spread(average, deviation=0.0):
    return Spread(average, average, average, deviation)


def summary(
    protocol,
    *,
    cost=0.38e8,
    precision=0.81,
    recall=None,
    deviation=0.0,
    repetitions=10,
    method="algorithm-1",
    circumstances=AS_PRINTED,
):
    """By default the averages that the paper prints for its own algorithm at k = 10."""
    recall = precision if recall is None else recall
    return Summary(
        circumstances,
        method,
        protocol,
        repetitions,
        precision=spread(precision, deviation),
        recall=spread(recall, deviation),
        cost=spread(cost, deviation * SHUTTLE.cost_unit),
        seconds=1.0,
        speedup=None,
    )


def judge(seeds, lloyd, experiment=SHUTTLE):
    (line,) = compare(experiment, [seeds, lloyd])
    assert (line.seeds, line.lloyd) == (seeds, lloyd)
    return line.verdict, line.reasons


def test_the_paper_s_own_figures_agree_with_it():
    found = judge(summary("seeds"), summary("lloyd"))
    assert found == ("agrees", ("as seeds", "after Lloyd"))


def test_one_protocol_is_enough_to_agree():
    assert judge(summary("seeds", cost=1e8), summary("lloyd")) == ("agrees", ("after Lloyd",))
    assert judge(summary("seeds"), summary("lloyd", cost=1e8)) == ("agrees", ("as seeds",))


def test_cost_and_precision_must_agree_in_the_same_protocol():
    verdict, reasons = judge(summary("seeds", cost=0.40e8), summary("lloyd", precision=0.5))
    assert verdict == "differs"
    assert reasons == ("nearer as seeds", "cost 0.40 above 0.38")


def test_what_differs_is_told_for_the_nearer_protocol_with_its_direction():
    verdict, reasons = judge(
        summary("seeds", cost=0.9e8, precision=0.4),
        summary("lloyd", cost=0.3123e8, precision=0.8449, recall=0.7),
    )
    assert verdict == "differs"
    assert reasons == (
        "nearer after Lloyd",
        "cost 0.31 below 0.38",
        "precision 0.84 above 0.81",
        "recall 0.70 below 0.81",
    )


def test_precision_and_recall_that_miss_alike_are_told_once():
    far = {"precision": 0.7, "recall": 0.7}
    _, reasons = judge(summary("seeds", **far), summary("lloyd", **far))
    assert reasons == ("nearer as seeds", "precision and recall 0.70 below 0.81")


@pytest.mark.parametrize("figure", ["precision", "recall", "cost"])
def test_each_of_the_three_averages_can_differ(figure):
    far = {figure: 0.1e8 if figure == "cost" else 0.1}
    verdict, reasons = judge(
        summary("seeds", **{"recall": 0.81} | far), summary("lloyd", **{"recall": 0.81} | far)
    )
    assert verdict == "differs"
    assert len(reasons) == 2
    assert reasons[1].startswith(f"{figure} 0.10 below")


@given(st.integers(0, 10_000))
def test_without_spread_the_paper_s_digits_decide(ten_thousandths):
    precision = ten_thousandths / 10_000
    same = floor(ten_thousandths / 100) == 81 or floor((ten_thousandths + 50) / 100) == 81
    verdict, _ = judge(summary("seeds", precision=precision), summary("lloyd", precision=precision))
    assert (verdict == "agrees") == same


# From a printed table of Student's distribution: 97.5 % quantiles for 1, 2, 9 and 39 degrees.
@pytest.mark.parametrize(
    ("repetitions", "quantile"), [(2, 12.706), (3, 4.303), (10, 2.262), (40, 2.023)]
)
@pytest.mark.parametrize("end", [0.805, 0.82])
def test_what_chance_may_do_to_two_averages_still_agrees(repetitions, quantile, end):
    margin = quantile * 0.01 * sqrt(1 / 10 + 1 / repetitions)
    outwards = 1 if end > 0.81 else -1

    def verdict(distance):
        given = {
            "precision": end + outwards * distance,
            "recall": 0.81,
            "deviation": 0.01,
            "repetitions": repetitions,
        }
        return judge(summary("seeds", **given), summary("lloyd", **given))[0]

    assert verdict(0.999 * margin) == "agrees"
    assert verdict(1.001 * margin) == "differs"


@pytest.mark.parametrize("cost", [0.38e8, 1e8])
def test_a_single_repetition_is_not_judged(cost):
    once = {"cost": cost, "repetitions": 1}
    expected = ("unjudged", ("one repetition has no spread",))
    assert judge(summary("seeds", **once), summary("lloyd", **once)) == expected
    assert judge(summary("seeds", **once), summary("lloyd", cost=cost)) == expected
    assert judge(summary("seeds", cost=cost), summary("lloyd", **once)) == expected


@pytest.mark.parametrize("repetitions", [1, 10])
def test_an_impossible_line_is_impossible_whatever_came_out_here(repetitions):
    circumstances = replace(
        AS_PRINTED, table="synthetic", data="generated", n=1025, d=2, k=20, z=25, true_outliers=25
    )
    same = {
        "circumstances": circumstances,
        "cost": 0.26e4,
        "precision": 0.88,
        "repetitions": repetitions,
    }
    verdict, reasons = judge(summary("seeds", **same), summary("lloyd", **same), SYNTHETIC)
    assert verdict == "impossible"
    assert reasons == (
        "average precision 0.88 is above 0.872, the most that maximum 0.92 and median 0.84 "
        "of ten allow",
        "average cost 0.26 is below 0.275, the least that minimum 0.22 and median 0.32 "
        "of ten allow",
        "all figures but the time are also those of k = 20, z = 50",
    )


def every_summary():
    """Of all six methods in all three blocks, last first."""
    return [
        summary(protocol, method=method, circumstances=replace(AS_PRINTED, k=setting.k))
        for setting in reversed(SHUTTLE.settings)
        for method in reversed(SHUTTLE.methods)
        for protocol in (("fit",) if method == "RobustKMeans" else ("lloyd", "seeds"))
    ]


def test_lines_come_in_the_order_of_the_paper():
    lines = compare(SHUTTLE, every_summary())
    assert [line.printed for line in lines] == [
        line for line in published() if line.table == "shuttle-noise"
    ]
    for line in lines:
        for ours in (line.seeds, line.lloyd):
            assert (ours.method, ours.circumstances.k) == (line.printed.method, line.printed.k)


def test_lines_without_both_protocols_are_left_out():
    complete = every_summary()
    missing = next(ours for ours in complete if ours.protocol == "lloyd")
    lines = compare(SHUTTLE, [ours for ours in complete if ours is not missing])
    assert len(lines) == 14
    assert (missing.method, missing.circumstances.k) not in {
        (line.printed.method, line.printed.k) for line in lines
    }
    assert compare(SHUTTLE, []) == []


def test_stand_in_data_have_neither_lines_nor_targets():
    circumstances = replace(FULL, data=STAND_IN)
    made_up = [
        summary("seeds", circumstances=circumstances),
        summary("lloyd", circumstances=circumstances),
        summary("fit", method="RobustKMeans", circumstances=circumstances),
    ]
    assert compare(KDD, made_up) == []
    assert targets(KDD, made_up) == []


def test_on_the_paper_s_rows_a_cost_is_only_divided_by_its_unit():
    assert in_unit(2.83e7, summary("seeds", circumstances=FULL), KDD) == 2.83e7 / 1e7
    assert in_unit(0.38e8, summary("seeds"), SHUTTLE) == 0.38e8 / 1e8


def test_on_a_sample_the_cost_per_kept_row_is_kept():
    ours = summary("seeds", circumstances=TEN_PERCENT)
    per_row = 2.83e7 / (4_898_431 - 45_747)
    assert in_unit(per_row * (494_021 - 8_752), ours, KDD) == pytest.approx(2.83, rel=1e-12)


def test_a_sample_is_judged_by_its_cost_per_row():
    kept = (494_021 - 8_752) / (4_898_431 - 45_747)
    same = {"precision": 0.63, "circumstances": TEN_PERCENT}
    scaled = [summary(protocol, cost=4.20e7 * kept, **same) for protocol in ("seeds", "lloyd")]
    unscaled = [summary(protocol, cost=4.20e7, **same) for protocol in ("seeds", "lloyd")]
    assert judge(*scaled, KDD)[0] == "agrees"
    assert judge(*unscaled, KDD) == ("differs", ("nearer as seeds", "cost 42.00 above 4.20"))


def fit(cost, precision, circumstances=AS_PRINTED):
    return summary(
        "fit", cost=cost, precision=precision, method="RobustKMeans", circumstances=circumstances
    )


def test_targets_are_the_paper_s_best_averages_of_each_block():
    found = targets(SHUTTLE, every_summary())
    assert [
        (
            target.fit.circumstances.k,
            target.paper_cost,
            target.paper_cost_method,
            target.paper_precision,
            target.paper_precision_method,
        )
        for target in found
    ] == [
        (10, "0.27", "random", "0.81", "rkm++"),
        (20, "0.20", "random", "0.80", "random"),
        (40, "0.14", "random", "0.80", "rkm++"),
    ]


@pytest.mark.parametrize(
    ("cost", "shown", "reached"),
    [(0.2749e8, "0.27", True), (0.2751e8, "0.28", False), (0.1e8, "0.10", True)],
)
def test_a_cost_reaches_its_target_at_the_paper_s_digits(cost, shown, reached):
    (target,) = targets(SHUTTLE, [fit(cost, 0.9)])
    assert (target.cost, target.cost_reached) == (shown, reached)


@pytest.mark.parametrize(
    ("precision", "shown", "reached"),
    [(0.8051, "0.81", True), (0.8049, "0.80", False), (1.0, "1.00", True)],
)
def test_a_precision_reaches_its_target_at_the_paper_s_digits(precision, shown, reached):
    (target,) = targets(SHUTTLE, [fit(0.1e8, precision)])
    assert (target.precision, target.precision_reached) == (shown, reached)


def test_a_target_printed_with_one_digit_is_met_with_one():
    kept = (494_021 - 8_752) / (4_898_431 - 45_747)
    (target,) = targets(KDD, [fit(2.84e7 * kept, 0.6, TEN_PERCENT)])
    assert (target.paper_cost, target.paper_cost_method) == ("2.8", "rkm++")
    assert (target.cost, target.cost_reached) == ("2.8", True)
    (target,) = targets(KDD, [fit(2.86e7 * kept, 0.6, TEN_PERCENT)])
    assert (target.cost, target.cost_reached) == ("2.9", False)
