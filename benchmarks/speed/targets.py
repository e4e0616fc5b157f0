"""What is held against what, and the figures asked: all of them in one table.

A ratio is a peer's time divided by ours in the same cell and dtype.  `mean` is the geometric mean
to reach over all cells and dtypes of a line, `worst` the least ratio that is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from speed.grid import DTYPES
from speed.peer_jobs import FAISS, INTELEX, ONE_TRIMKMEANS, OURS, SKLEARN, TRIMCLUSTER, TRIMKMEANS
from speed.records import Place
from speed.tasks import FILTERED, TEN_RUNS, TO_COST, TO_ITS_COST, UNFILTERED

MEMORY_PER_ROW = 40
"""Bytes beyond X that a fit may take per row, and what does not grow with n on top."""
BANDWIDTH_SHARE = 0.5
"""Of the streaming read, for each step of seeding on data that exceeds the cache."""


@dataclass(frozen=True)
class Comparison:
    """A line of the summary: our figure, a peer's figure, and the ratios asked."""

    what: str
    task: str
    peer: str
    mean: float | None = None
    worst: float | None = None
    dtypes: tuple[str, ...] = DTYPES
    ours: str = OURS
    costs: bool = False
    """Whether our trimmed cost must not be above the peer's."""
    data: str | None = None
    least_k: int = 0
    """Where the figures are asked: on which data, from how many clusters on."""

    def covers(self, place: Place) -> bool:
        """Whether the figures asked are meant for this place, too."""
        on_data = self.data in (None, place.data)
        return place.dtype in self.dtypes and on_data and place.k >= self.least_k


COMPARISONS = (
    Comparison("seeding", "seeding", SKLEARN, 8, 4, ("float32",)),
    Comparison("seeding", "seeding", SKLEARN, 2.5, 1.2, ("float64",)),
    Comparison("greedy seeding", "greedy", SKLEARN, dtypes=("float32",)),
    Comparison("greedy seeding", "greedy", SKLEARN, dtypes=("float64",)),
    Comparison(
        "seeding, k ≥ 100, clustered: filters",
        "filters",
        UNFILTERED,
        None,
        1.0,
        ours=FILTERED,
        data="clustered",
        least_k=100,
    ),
    Comparison("Lloyd iteration without bounds", "lloyd", SKLEARN, 2, 1.2),
    Comparison("Lloyd iteration without bounds", "lloyd", INTELEX, 1.3, 0.9),
    Comparison("iteration of a run to rest", "converged", SKLEARN, 4),
    Comparison("iteration of a run to rest", "converged", INTELEX, 2),
    Comparison("iteration of a run to rest", "converged", FAISS, 3, dtypes=("float32",)),
    Comparison("fit without local search, to KMeans' ρ", "fits", SKLEARN, 3, 1.2, ours=TO_COST),
    Comparison("default fit", "fits", SKLEARN, 1.5, 0.7, costs=True),
    Comparison("default fit", "fits", TEN_RUNS, 5, costs=True),
    Comparison("default fit", "trimmed", TRIMKMEANS, 100, costs=True),
    Comparison("default fit", "trimmed", ONE_TRIMKMEANS, 100, costs=True),
    Comparison(
        "fit without local search, to its ρ", "trimmed", ONE_TRIMKMEANS, 100, ours=TO_ITS_COST
    ),
    Comparison("default fit", "trimmed", TRIMCLUSTER, 100, costs=True),
    Comparison("default fit, 1,000 × 2, k=20", "small", SKLEARN, worst=1 / 3),
)
