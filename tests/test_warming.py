from __future__ import annotations

import os
import subprocess
import sys

import pytest

import robust_kmeans

PROGRAM = """
import os, warnings
from pathlib import Path
import numpy as np
import robust_kmeans
warnings.simplefilter("ignore")

cache = Path(os.environ["NUMBA_CACHE_DIR"])
def compiled():
    return {path.name for path in cache.rglob("*.nbc")}

from robust_kmeans import RobustKMeans
assert not compiled(), "the import has compiled something"
robust_kmeans.warm_up(["float64"])
before = compiled()
assert before

random = np.random.RandomState(1)
for X in (random.standard_normal((500, 3)), random.randint(9, size=(2500, 70)).astype(float)):
    weights = random.uniform(size=len(X))
    for sample_weight in (None, weights):
        model = RobustKMeans(35, n_outliers=7, n_local_trials=1, random_state=0)
        model.fit(X, sample_weight=sample_weight)
        model.predict(X), model.transform(X), model.score_samples(X), model.score(X)
        RobustKMeans(5, n_outliers=0.1, oversampling=1.0, n_init=2).fit(X)
    robust_kmeans.trim_curve(X, X[:2])
    robust_kmeans.robust_kmeans_plusplus(X, 4, n_outliers=5, threshold="balanced", inside=0.5)
RobustKMeans(4, n_outliers="auto").fit(random.standard_normal((2000, 2)))
# Enough rows for helpers, and enough centres for several per reading.
X = random.standard_normal((20_000, 3))
RobustKMeans(9, n_outliers=7, n_threads=2, random_state=0).fit(X)
robust_kmeans.robust_kmeans_plusplus(X, 100, n_outliers=5, n_local_trials=1)
new = sorted(compiled() - before)
assert not new, f"compiled after the warm-up: {new}"
"""


def test_after_warming_up_nothing_is_compiled_and_nothing_by_the_import(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtypes", ["float32", ["float16"], [float]])
def test_types_that_are_not_clustered_are_refused(dtypes):
    with pytest.raises(ValueError, match="must be a list of 'float32' and 'float64'"):
        robust_kmeans.warm_up(dtypes)


FULL_DISK = """
import resource
import numpy as np
from robust_kmeans.kernels import totals
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
assert totals.cost_below(np.ones(4), np.empty(0), 2.0) == 4.0
"""


def test_kernels_work_where_the_cache_cannot_be_written(tmp_path):
    """In a process whose files may not grow: as on a full disk."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.nb?"))
