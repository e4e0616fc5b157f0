"""What the peers do, each in a process of its own, which alone imports its package.

scikit-learn and faiss learn the number of threads from the environment.  The jobs of
scikit-learn are those of scikit-learn-intelex too, in a process in which `patch` was called.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np

from speed.jobs import Outcome, Window, Work, between, timed

OURS, SKLEARN, INTELEX, FAISS = "ours", "scikit-learn", "scikit-learn-intelex", "faiss"
# Runs per fit: ten are the default of trimkmeans; that of trimcluster is a hundred.
TRIMKMEANS, ONE_TRIMKMEANS = "trimkmeans, n_init=10", "trimkmeans, n_init=1"
TRIMCLUSTER = "trimcluster (R), runs=10"
N_TRIMMED_RUNS = 10
_MODULES = {
    SKLEARN: "sklearn",
    INTELEX: "sklearnex",
    FAISS: "faiss",
    TRIMKMEANS: "trimkmeans",
    ONE_TRIMKMEANS: "trimkmeans",
}
_HAS_TRIMCLUSTER = "quit(status=!requireNamespace('trimcluster',quietly=TRUE))"
_TRIMCLUSTER = """
given <- commandArgs(trailingOnly = TRUE)
rows <- as.matrix(read.csv(given[1], header = FALSE))
set.seed(as.integer(given[4]))
time <- system.time(found <- trimcluster::trimkmeans(
  rows, k = as.integer(given[2]), trim = as.numeric(given[3]), scaling = FALSE,
  runs = as.integer(given[6])))
write.table(found$means, given[5], sep = ",", row.names = FALSE, col.names = FALSE)
cat(time[["elapsed"]])
"""


def missing(peer: str) -> str | None:
    """Why a peer is left out, and how to get it; None where it is there."""
    if peer in _MODULES:
        found = importlib.util.find_spec(_MODULES[peer]) is not None
        return None if found else f"{peer} is left out: pip install 'robust-kmeans[bench]' adds it."
    found = shutil.which("Rscript") is not None and not (
        subprocess.run(["Rscript", "-e", _HAS_TRIMCLUSTER], capture_output=True).returncode
    )
    return None if found else (
        f"{peer} is left out: it needs R and its package trimcluster (in Debian: "
        f"apt install r-cran-trimcluster)."
    )  # fmt: skip


def patch(threads: int) -> None:
    """From now on scikit-learn's names are scikit-learn-intelex's in this process."""
    import daal4py
    from sklearnex import patch_sklearn

    daal4py.daalinit(threads)
    patch_sklearn(verbose=False)


def sklearn_seeding(work: Work, seed: int, trials: int | None) -> Outcome:
    from sklearn.cluster import kmeans_plusplus

    rows = work.rows()
    seconds, _ = timed(
        lambda: kmeans_plusplus(rows, work.n_clusters, n_local_trials=trials, random_state=seed)
    )
    return Outcome(seconds)


def sklearn_iterations_to_rest(work: Work, _seed: int, most: int) -> Outcome:
    seconds, model = timed(lambda: _sklearn_lloyd(work, most))
    return Outcome(seconds, model.n_iter_)


def sklearn_iteration(work: Work, _seed: int, window: Window) -> Outcome:
    return between(lambda max_iter: _sklearn_lloyd(work, max_iter), window)


def sklearn_run_to_rest(work: Work, _seed: int, most: int) -> Outcome:
    """Seconds per iteration of a whole run."""
    seconds, model = timed(lambda: _sklearn_lloyd(work, most))
    return Outcome(seconds / model.n_iter_, model.n_iter_)


def sklearn_fit(work: Work, seed: int) -> Outcome:
    from sklearn.cluster import KMeans

    rows = work.rows()
    model = KMeans(work.n_clusters, n_init=1, random_state=seed)
    seconds, _ = timed(lambda: model.fit(rows))
    return Outcome(seconds, model.n_iter_, centers=model.cluster_centers_)


def faiss_run(work: Work, _seed: int, n_iter: int) -> Outcome:
    """Seconds per iteration of a whole run."""
    import faiss

    rows, start = work.rows(), work.start()
    # Without these limits faiss takes a sample of the rows.
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": len(rows)}
    model = faiss.Kmeans(rows.shape[1], work.n_clusters, niter=n_iter, **limits)
    seconds, _ = timed(lambda: model.train(rows, init_centroids=start))
    return Outcome(seconds / n_iter, n_iter)


def trimkmeans_fit(work: Work, seed: int, n_runs: int) -> Outcome:
    from trimkmeans.trimkmeans import TrimKMeans

    rows = work.rows()
    share = work.n_outliers / len(rows)
    model = TrimKMeans(work.n_clusters, trim=share, n_init=n_runs, random_state=seed)
    seconds, _ = timed(lambda: model.fit(rows))
    return Outcome(seconds, centers=np.array(model.cluster_centers_))


def trimcluster_fit(work: Work, seed: int) -> Outcome:
    """Timed by R itself, without its start and the reading of the file."""
    rows = work.rows()
    with tempfile.TemporaryDirectory() as name:
        program, given, found = (Path(name) / each for each in ("fit.R", "rows.csv", "means.csv"))
        program.write_text(_TRIMCLUSTER)
        np.savetxt(given, rows, delimiter=",")
        share = work.n_outliers / len(rows)
        arguments = [given, work.n_clusters, share, seed, found, N_TRIMMED_RUNS]
        done = subprocess.run(
            ["Rscript", program, *map(str, arguments)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        centers = np.loadtxt(found, delimiter=",", ndmin=2)
    return Outcome(float(done.stdout.split()[-1]), centers=centers)


def _sklearn_lloyd(work: Work, max_iter: int):
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    options = {"n_init": 1, "tol": 0, "max_iter": max_iter, "algorithm": "lloyd"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(work.n_clusters, init=work.start(), **options).fit(work.rows())
