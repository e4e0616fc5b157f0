"""The parts of the comparison of speed: what they measure is what they say."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from robust_kmeans import robust_kmeans_plusplus
from tests import oracle

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import scaling
from speed import bandwidth, grid, jobs, our_jobs, page, peer_jobs, quotes, records, targets, tasks

PLACE = records.Place("clustered", 1_000_000, 9, 20, 10_000, "float32", 2)


def record(task, peer, value, *, place=PLACE, **facts):
    return records.Record(task, place, peer, value, **facts)


def only_line(found, heading="## Figures asked"):
    """The cells of the one line of a section's table."""
    section = page.as_markdown(found, "command", []).split(f"{heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    assert len(lines) == 3, section
    return [cell.strip() for cell in lines[2].strip("|").split("|")]


@pytest.fixture
def work(tmp_path):
    rows = grid.make_rows(grid.Cell("clustered", 600, 3, 4))
    np.save(tmp_path / "rows.npy", rows)
    return jobs.Work(tmp_path / "rows.npy", 4, 6, 1)


# ------------------------------------------------------------------------------- the grid


def test_grid_is_what_was_asked():
    cells = {(cell.data, cell.n, cell.d, cell.k) for cell in grid.full_grid()}
    assert len(cells) == 2 * 6 + 3
    assert ("Gaussian", 50_000, 784, 50) in cells
    assert ("KDD 10 %", 494_021, 34, 5) in cells


def test_clustered_rows_are_shuffled_clusters_and_one_percent_far_outliers():
    cell = grid.Cell("clustered", 5_000, 5, 6)
    rows = grid.make_rows(cell)
    far = np.abs(rows).max(axis=1) > 60
    assert 0.8 * cell.z <= far.sum() <= cell.z == 50
    near = rows[~far]
    # Neighbours in the file belong to different clusters, as often as chance has it.
    steps = np.linalg.norm(np.diff(near, axis=0), axis=1) > 15
    assert 0.7 < steps.mean() < 0.95


# ------------------------------------------------------------------------------- the jobs


@pytest.mark.parametrize("filtered", [True, False])
def test_variants_of_seeding_choose_the_same_rows(work, filtered, monkeypatch):
    grown = []

    class Watched(our_jobs.Growth):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            grown.append(self)

    monkeypatch.setattr(our_jobs, "Growth", Watched)
    outcome = our_jobs.grown_seeding(work, 3, filtered)
    expected = robust_kmeans_plusplus(
        work.rows(), work.n_clusters, n_outliers=work.n_outliers, n_local_trials=1, random_state=3
    )
    assert [row.index for row in grown[0].rows] == list(expected[1])
    assert 0 < outcome.n_rows <= len(work.rows()) * work.n_clusters


def test_a_seeding_consists_of_readings_and_of_cuts_and_draws(work, monkeypatch):
    within = []

    def timed(call):
        """The whole takes 20 seconds, and each sweep two of them."""
        within.append(call)
        found = call()
        within.pop()
        return (2.0 if within else 20.0), found

    monkeypatch.setattr(our_jobs, "timed", timed)
    reading = our_jobs.grown_seeding(work, 0, part="reading")
    rest = our_jobs.grown_seeding(work, 0, part="cut and draw")
    # Four centres, of which the last needs no reading.
    assert (reading.n_iter, reading.seconds) == (3, 2.0)
    assert rest.seconds == (20.0 - 3 * 2.0) / 4


def test_plain_iteration_switches_bounds_off(work, monkeypatch):
    asked = []
    monkeypatch.setattr(our_jobs, "trimmed_lloyd", lambda *_given, **options: asked.append(options))
    our_jobs.plain_iteration(work, 0, jobs.Window(2, 22))
    assert {options["max_iter"] for options in asked} == {2, 22}
    assert all(options["tol"] == 0 and not options["bounds"] for options in asked)


def test_fit_to_cost_ends_once_the_cost_is_reached(work):
    easy, hard = (our_jobs.fit_to_cost(work, 0, target) for target in (math.inf, 0.0))
    assert easy.n_iter == 1
    assert hard.n_iter == our_jobs.MOST_RUNS + 1
    assert hard.cost > 0


def test_all_centres_are_judged_by_the_trimmed_cost(work):
    found = peer_jobs.sklearn_fit(work, 0)
    rows = work.rows()
    d2 = oracle.squared_distances(rows, found.centers).min(axis=1)
    expected = oracle.trimmed_cost(d2, work.n_outliers)
    assert our_jobs.cost_of(work, found.centers) == pytest.approx(expected, rel=1e-4)


def test_streaming_read_reads_everything():
    assert bandwidth.add_up(np.arange(1000.0)) == 999 * 500
    assert bandwidth.streaming_read(threads=3, n_bytes=2**16) > 0


@pytest.mark.parametrize(
    ("window", "durations", "expected"),
    [
        # The first one only shows how long it takes.
        (jobs.Window(2, 22), [8.0, 1.0, 7.0], 0.3),
        # Twice each where the window is half as wide: the best of both ends.
        (jobs.Window(2, 12), [8.0, 3.0, 1.0, 7.0, 9.0], 0.6),
        # And where it takes half as long as a short run.
        (jobs.Window(2, 22), [jobs.SHORT / 2, 3.0, 1.0, 7.0, 9.0], 0.3),
    ],
)
def test_seconds_between_two_numbers_of_iterations_leave_out_what_both_have(
    window, durations, expected, monkeypatch
):
    clock = iter(
        [time for i, each in enumerate(durations) for time in (100.0 * i, 100.0 * i + each)]
    )
    monkeypatch.setattr(jobs.time, "perf_counter", lambda: next(clock))
    assert jobs.between(lambda _max_iter: None, window).seconds == pytest.approx(expected)


# ------------------------------------------------------------------------------- scaling


def test_threads_double_up_to_the_most():
    assert [scaling.thread_counts(most) for most in (1, 2, 6)] == [[1], [1, 2], [1, 2, 4, 6]]


def test_who_would_take_too_long_is_left_out_from_there_on():
    pace = scaling.Pace()
    small, large, largest = (grid.Cell("clustered", n, 9, 20) for n in (10**4, 10**5, 10**6))
    pace.note([record("fit by n", "ours", 0.1), record("fit by n", "scikit-learn", 5.0)], small)
    bench = tasks.Bench(None, 3, ["ours", "scikit-learn"], Path(), quick=False)
    assert pace.limited(bench, "fit by n", small).peers == bench.peers
    limited = pace.limited(bench, "fit by n", large)
    assert (limited.peers, limited.repeats) == (["ours"], 3)
    pace.note([record("fit by n", "ours", 1.0)], large)
    limited = pace.limited(bench, "fit by n", largest)
    assert (limited.peers, limited.repeats) == (["ours"], 1)


# ---------------------------------------------------------------------------- the records


def test_records_are_read_as_they_were_written(tmp_path):
    written = [
        record("fits", "ours", 0.125, runs=5, cost=1.0 / 3.0, note="a, b", setting="s"),
        records.Record("bandwidth", records.Place("start"), "all threads", 1e10, "B/s"),
    ]
    records.write(tmp_path / "lines.csv", written)
    read = records.read(tmp_path / "lines.csv")
    assert read[0] == written[0]
    assert read[1].place == written[1].place
    assert math.isnan(read[1].cost)


def test_lines_of_another_setting_are_measured_again(tmp_path):
    path = tmp_path / "lines.csv"
    records.Store(path, "then").add([record("seeding", "ours", 1.0)])
    assert records.Store(path, "then").has("seeding", PLACE)
    now = records.Store(path, "now")
    assert not now.has("seeding", PLACE)
    assert now.n_stale == 1


def test_another_file_is_not_overwritten(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match=r"data\.csv has not the columns task, data, n"):
        records.Store(path, "now")
    assert path.read_text() == "x,y\n1,2\n"


# ------------------------------------------------------------------------------- the page


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((9.0, 9.0), "reached"), ((30.0, 3.0), "not reached: worst"), ((5, 5), "not reached: mean")],
)
def test_verdicts_hold_mean_and_worst_case_against_the_figures_asked(times, verdict):
    places = (PLACE, PLACE._replace(k=100))
    found = [record("seeding", "ours", 1.0, place=place) for place in places]
    found += [
        record("seeding", "scikit-learn", seconds, place=place)
        for seconds, place in zip(times, places, strict=True)
    ]
    cells = only_line(found)
    assert cells[3:5] == ["2", f"{math.sqrt(times[0] * times[1]):.2f}"]
    assert cells[6] == f"{min(times):.2f}"
    assert cells[-1] == verdict


def test_a_higher_cost_is_told_whatever_the_time():
    found = [
        record("trimmed", "ours", 1.0, cost=102.0),
        record("trimmed", peer_jobs.TRIMKMEANS, 500.0, cost=100.0),
    ]
    assert only_line(found)[-1] == "not reached: ρ above theirs in 1 of 1, by 2.00% at most"


def test_times_lost_in_noise_are_no_ratios():
    found = [record("converged", "ours", 1.0), record("converged", "faiss", -0.1)]
    assert not page._ratios(found, next(c for c in targets.COMPARISONS if c.peer == "faiss"))


def test_seeding_is_held_against_the_streaming_read(monkeypatch):
    monkeypatch.setattr(page, "cache_bytes", lambda: 10**6)
    # 20 steps of 36 MB in 0.072 s are 10 GB/s.
    found = [
        records.Record("bandwidth", records.Place("start"), "all threads", 16e9, "B/s"),
        record("seeding", "ours", 0.072),
    ]
    cells = only_line(found, "## Seeding and the limit of memory")
    assert cells[6:10] == ["3.60", "10.0", "62%", "reached"]
    found += [
        record("passes", tasks.READING, 0.003, note="19 readings"),
        record("passes", tasks.CUT_AND_DRAW, 0.0005, note="19 readings"),
    ]
    cells = only_line(found, "## Seeding and the limit of memory")
    assert cells[10:] == ["19", "3.00", "12.0", "75%", "0.50"]


def test_memory_is_split_into_what_grows_with_rows_and_the_rest():
    half = PLACE._replace(n=500_000, z=5_000)
    found = [
        record("memory", "default fit", 30e6 + 2**20, unit="B"),
        record("memory", "default fit", 15e6 + 2**20, unit="B", place=half),
    ]
    assert only_line(found, "## Memory beyond X")[-3:] == ["30.0", "1.0", "reached"]


def test_quotes_are_the_sections_of_the_page_and_nothing_else_changes():
    written = page.as_markdown([record("seeding", "ours", 1.0)], "command", ["a machine"])
    document = "# Mine\n\n<!-- results.md: Machine -->\nold\n<!-- end -->\n\nMore.\n"
    filled = quotes.filled(document, written)
    expected = "# Mine\n\n<!-- results.md: Machine -->\n\n- a machine\n\n<!-- end -->\n\nMore.\n"
    assert filled == expected
    assert quotes.filled(filled, written) == filled


def test_quotes_of_what_was_not_measured_are_empty():
    document = "<!-- results.md: Memory beyond X -->\nold\n<!-- end -->\n"
    filled = quotes.filled(document, page.as_markdown([], "command", []))
    assert filled == "<!-- results.md: Memory beyond X -->\n\n<!-- end -->\n"


def test_docs_quote_the_page_as_it_was_written():
    docs = Path(__file__).parents[1] / "docs"
    results = docs / "performance" / "results.md"
    written = results.read_text(encoding="utf-8") if results.exists() else ""
    document = (docs / "performance.md").read_text(encoding="utf-8")
    assert quotes.filled(document, written) == document


def test_every_task_of_the_grid_has_a_heading():
    # Passes are told beside the limit of memory.
    assert {*page.HEADINGS, "passes"} == set(tasks.GRID_TASKS)
