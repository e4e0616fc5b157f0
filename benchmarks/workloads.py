"""What the evaluation runs on: a list of workloads, each a recipe for instances.

To add one, write a function seed → `Instance` (or use one that is here) and put a `Workload`
into the list of its group in `WORKLOADS`.  The group decides which figure it has to reach: see
`verdicts.py`.

Fresh workloads have another instance for each seed.  The others have one, and only the
methods' own seeds vary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import real_data
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from robust_kmeans.datasets import add_row_noise, make_contaminated_blobs
from robust_kmeans.paper.instances import Counterexample, instance_a, instance_b, instance_c

NOISE_SCALE = 5.0
"""Of the noisy rows' noise, in standard deviations of each feature; the paper names none."""


class Instance(NamedTuple):
    """Rows; where they are known, the outliers (a mask) and the clusters' means."""

    X: NDArray[np.float64]
    outliers: NDArray[np.bool_] | None = None
    centers: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Workload:
    """A recipe for instances of one shape, and what is asked of them: k clusters, z outliers."""

    name: str
    group: str
    n_rows: int
    n_features: int
    n_clusters: int
    n_outliers: int
    make: Callable[[int], Instance]
    fresh: bool = False
    file: str | None = None

    @property
    def missing(self) -> bool:
        """Whether it needs a file that is not there."""
        return self.file is not None and not (real_data.data_folder() / self.file).is_file()

    @property
    def work(self) -> float:
        """Roughly what a fit costs, to foretell how long all of them take."""
        return self.n_rows * (self.n_features + 5) * self.n_clusters


# ------------------------------------------------------------------------ generated data


def synthetic(n_outliers: int, outlier_box: float, seed: int) -> Instance:
    """The paper's: 20 unit Gaussians in a square of side 100, and uniform outliers."""
    return blobs(1000, 20, n_outliers, 2, 100.0, outlier_box, seed)


def blobs(
    n_samples: int | tuple[int, ...],
    n_clusters: int,
    n_outliers: int,
    n_features: int,
    box: float,
    outlier_box: float,
    seed: int,
) -> Instance:
    """Unit Gaussians in one cube and uniform outliers in another with the same middle."""
    made = make_contaminated_blobs(
        n_samples,
        n_clusters=n_clusters,
        n_outliers=n_outliers,
        n_features=n_features,
        box=box,
        outlier_box=outlier_box,
        random_state=seed,
    )
    return Instance(made.X, made.labels < 0, made.centers)


def heavy_tails(n_samples: int, n_clusters: int, n_outliers: int, seed: int) -> Instance:
    """Clusters with Student's t noise of 3 degrees of freedom in 10 dimensions."""
    random = np.random.default_rng(seed)
    centers = random.uniform(0, 20, (n_clusters, 10))
    labels = np.arange(n_samples) % n_clusters
    clustered = centers[labels] + random.standard_t(3, (n_samples, 10))
    far = random.uniform(-90, 110, (n_outliers, 10))
    return Instance(np.concatenate([clustered, far]), _last(n_samples, n_outliers), centers)


def counterexample(make: Callable[[], Counterexample], _seed: int) -> Instance:
    """One of the instances on which the paper's theorems fail."""
    made = make()
    return Instance(made.X, made.clusters < 0, made.centers)


def _last(n_inliers: int, n_outliers: int) -> NDArray[np.bool_]:
    return np.arange(n_inliers + n_outliers) >= n_inliers


# ----------------------------------------------------------------------------- real data


def shuttle_small(_seed: int) -> Instance:
    data = real_data.shuttle()
    return Instance(data.X, data.outliers)


def kdd_small(_seed: int) -> Instance:
    data = real_data.kdd()
    return Instance(data.X, data.outliers)


def noisy(rows: Callable[[], NDArray[np.float64]], n_noisy: int, _seed: int) -> Instance:
    """Noise on so many random rows, which are the outliers; the same rows for every seed."""
    return Instance(*add_row_noise(rows(), n_noisy, scale=NOISE_SCALE, random_state=0))


def clean(rows: Callable[[], NDArray[np.float64]], _seed: int) -> Instance:
    return Instance(rows())


def shuttle_rows() -> NDArray[np.float64]:
    return real_data.shuttle().X


def kdd_rows() -> NDArray[np.float64]:
    return real_data.kdd().X


def toy_rows(load: Callable[[], datasets.Bunch], standardised: bool) -> NDArray[np.float64]:
    """One of the small data sets that come with scikit-learn."""
    X = load().data.astype(np.float64)
    return StandardScaler().fit_transform(X) if standardised else X


def mixture_rows(n_features: int, box: float) -> NDArray[np.float64]:
    return blobs(10_000, 10, 0, n_features, box, box, 0).X


def cube_rows() -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(size=(10_000, 3))


digit_rows = partial(toy_rows, datasets.load_digits, standardised=False)

# ------------------------------------------------------------------------------ the list

# Sizes fall by a third from cluster to cluster: 3,000 rows in the first, 10 in the last.
UNBALANCED = tuple(round(3000 * (2 / 3) ** i) for i in range(15))
SMALL_AND_LARGE = (500,) * 10 + (40,) * 10
SHUTTLE_OUTLIERS = {5: 21, 10: 34, 15: 51}

SYNTHETIC = [
    Workload(
        f"synthetic-z{z}-box{box}", "synthetic", 1000 + z, 2, 20, z,
        partial(synthetic, z, float(box)), fresh=True,
    )
    for z in (25, 50, 100)
    for box in (100, 1000, 10_000)
]  # fmt: skip

SHUTTLE = [
    Workload(
        f"shuttle-k{k}", "shuttle", 43_500, 9, k, z, shuttle_small, file=real_data.SHUTTLE
    )
    for k, z in SHUTTLE_OUTLIERS.items()
]  # fmt: skip

NOISE = [
    Workload(
        f"shuttle-noise-k{k}", "noise", 43_500, 9, k, 1000,
        partial(noisy, shuttle_rows, 1000), file=real_data.SHUTTLE,
    )
    for k in (10, 20, 40)
] + [
    Workload(
        f"skin-noise-k{k}", "noise", 245_057, 3, k, 6126,
        partial(noisy, real_data.skin, 6126), file=real_data.SKIN,
    )
    for k in (20, 40, 50)
] + [
    Workload(f"kdd10-k{k}", "noise", 494_021, 34, k, 8752, kdd_small, file=real_data.KDD)
    for k in (3, 5)
]  # fmt: skip

MIXTURES = [
    Workload(
        f"mixture-d{d}", "mixture", 5000, d, 20, 250,
        partial(blobs, 4750, 20, 250, d, 10.0, 100.0), fresh=True,
    )
    for d in (50, 200)
] + [
    Workload(
        "unbalanced", "mixture", sum(UNBALANCED) + 100, 5, 15, 100,
        partial(blobs, UNBALANCED, 15, 100, 5, 30.0, 1000.0), fresh=True,
    ),
    Workload(
        "small-clusters", "mixture", sum(SMALL_AND_LARGE) + 200, 5, 20, 200,
        partial(blobs, SMALL_AND_LARGE, 20, 200, 5, 100.0, 10_000.0), fresh=True,
    ),
]  # fmt: skip

INSTANCES = [
    Workload("instance-a", "optimum 0", 2060, 80, 20, 60, partial(counterexample, instance_a)),
    Workload("instance-b", "optimum 0", 1000, 2, 1, 100, partial(counterexample, instance_b)),
    Workload("instance-c", "optimum 0", 12_550, 2, 2, 2500, partial(counterexample, instance_c)),
]

# Never looked at while parameters were chosen: only seeds from 10 on are run on them.
HOLD_OUT = [
    Workload("digits-noise", "hold-out", 1797, 64, 10, 90, partial(noisy, digit_rows, 90)),
    Workload(
        "heavy-tails", "hold-out", 3150, 10, 10, 150, partial(heavy_tails, 3000, 10, 150),
        fresh=True,
    ),
]  # fmt: skip

CLEAN_ROWS: list[tuple[str, int, int, Callable[[], NDArray[np.float64]], str | None]] = [
    ("iris", 150, 4, partial(toy_rows, datasets.load_iris, standardised=False), None),
    ("wine", 178, 13, partial(toy_rows, datasets.load_wine, standardised=True), None),
    ("cancer", 569, 30, partial(toy_rows, datasets.load_breast_cancer, standardised=True), None),
    ("digits", 1797, 64, digit_rows, None),
    ("shuttle", 43_500, 9, shuttle_rows, real_data.SHUTTLE),
    ("skin", 245_057, 3, real_data.skin, real_data.SKIN),
    ("kdd10", 494_021, 34, kdd_rows, real_data.KDD),
    ("mixture-d2", 10_000, 2, partial(mixture_rows, 2, 20.0), None),
    ("mixture-d20", 10_000, 20, partial(mixture_rows, 20, 5.0), None),
    ("cube", 10_000, 3, cube_rows, None),
]
CLEAN = [
    Workload(f"clean-{name}", "clean", n, d, 10, 0, partial(clean, rows), file=file)
    for name, n, d, rows, file in CLEAN_ROWS
]

WORKLOADS = [*SYNTHETIC, *SHUTTLE, *NOISE, *MIXTURES, *INSTANCES, *HOLD_OUT, *CLEAN]

QUICK = Workload(
    "quick", "synthetic", 210, 2, 4, 10, partial(blobs, 200, 4, 10, 2, 100.0, 1000.0), fresh=True
)
"""Tiny, to see that everything runs."""
