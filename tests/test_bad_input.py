"""Bad input: the message says what came, what was expected and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from robust_kmeans import (
    KMeansPlusPlus,
    MixtureSeeding,
    RobustKMeans,
    Seeds,
    TKMeansPlusPlus,
    as_init,
    outlier_precision_recall,
    robust_kmeans_plusplus,
    tkmeans_plusplus,
    trimmed_calinski_harabasz_score,
    trimmed_davies_bouldin_score,
    trimmed_kmeans,
    trimmed_silhouette_score,
)
from robust_kmeans.datasets import add_row_noise, make_contaminated_blobs

ROWS = np.random.RandomState(0).uniform(size=(1000, 2))
ONES = np.ones(1000)


class Fit:
    """A fit to be tried, on a given model or a new one."""

    def __init__(self, X=ROWS, sample_weight=None, **parameters):
        self.X, self.sample_weight = X, sample_weight
        self.parameters = {"n_clusters": 3, "random_state": 0} | parameters

    def __call__(self, model=None):
        model = (model or RobustKMeans()).set_params(**self.parameters)
        model.fit(self.X() if callable(self.X) else self.X, sample_weight=self.sample_weight)


class Returns:
    """A seeding of the user's own."""

    def __init__(self, centers):
        self.centers = centers

    def seed(self, data, n_clusters, n_outliers, random):
        return Seeds(self.centers, np.arange(len(self.centers)))


def using(value, row=7, column=1, dtype=np.float64):
    rows = ROWS.astype(dtype)
    rows[row, column] = value
    return rows


def frame(rows):
    return pytest.importorskip("pandas").DataFrame(rows, columns=["height", "width"])


def fitted(dtype=np.float64):
    return RobustKMeans(3, random_state=0).fit(ROWS.astype(dtype))


def too_many_seeds(rows, n_clusters, random_state):
    return rows[: n_clusters + 1]


CASES = {
    # Rows.
    "NaN": (Fit(using(np.nan)), ValueError, r"1 NaN.*column 1;.*row 7\. Drop such rows or fill"),
    "infinity": (Fit(using(-np.inf)), ValueError, r"infinite.*column 1;.*row 7\. Drop such rows"),
    "NaN in a frame": (
        Fit(lambda: frame(using(np.nan, row=[20, 9]))),
        ValueError,
        r"2 NaN.*column 1 \('width'\);.*row 9",
    ),
    "infinity in a float32 frame": (
        Fit(lambda: frame(using(np.inf, column=0, dtype=np.float32))),
        ValueError,
        r"1 NaN or infinite.*column 0 \('height'\);.*row 7",
    ),
    "None among objects": (
        Fit(np.array([[1, 2], [3, None], [5, 6], [7, 8]], dtype=object)),
        ValueError,
        r"1 NaN.*column 1;.*row 1",
    ),
    "no rows": (Fit(ROWS[:0]), ValueError, r"0 sample\(s\) \(shape=\(0, 2\)\).*minimum of 1"),
    "no columns": (Fit(ROWS[:, :0]), ValueError, r"0 feature\(s\) \(shape=\(1000, 0\)\).*minimum"),
    "one dimension": (Fit(ROWS[:, 0]), ValueError, "(?s)Expected 2D.*got 1D.*Reshape"),
    "three dimensions": (Fit(ROWS[np.newaxis]), ValueError, r"dim 3, while dim <= 2 is required"),
    "strings": (Fit([["a", "b"], ["c", "d"]]), ValueError, "convert string to float: 'a'"),
    "ragged lists": (Fit([[1, 2], [3]]), ValueError, "inhomogeneous shape"),
    "complex": (Fit(ROWS + 1j), ValueError, "Complex data not supported"),
    "sparse": (Fit(sparse.csr_array(ROWS)), TypeError, r"Sparse.*dense data is required.*toarray"),
    "masked": (
        Fit(np.ma.array(ROWS, mask=np.arange(2000).reshape(1000, 2) < 5)),
        ValueError,
        r"5 masked values; fill or drop",
    ),
    "float32 whose squares overflow": (
        Fit(using(1e20, dtype=np.float32)),
        ValueError,
        r"X spans 1e\+20 in column 1: .*overflow float32\. Scale the data or pass float64",
    ),
    "float64 whose squares overflow": (
        Fit(using(-1e160)),
        ValueError,
        r"X spans 1e\+160 in column 1: .*overflow float64\. Scale the data\.",
    ),
    # Parameters of the estimator.
    "n_clusters 0": (Fit(n_clusters=0), ValueError, "n_clusters=0 must be at least 1"),
    "n_clusters -1": (Fit(n_clusters=-1), ValueError, "n_clusters=-1 must be at least 1"),
    "n_clusters 2.5": (Fit(n_clusters=2.5), TypeError, "n_clusters=2.5 must be an int"),
    "n_clusters True": (Fit(n_clusters=True), TypeError, "n_clusters=True must be an int"),
    "n_clusters too large": (
        Fit(n_clusters=1001, n_outliers=0),
        ValueError,
        "n_samples=1000 is less than n_clusters=1001; lower n_clusters",
    ),
    "n_outliers -1": (Fit(n_outliers=-1), ValueError, "n_outliers=-1 must not be negative"),
    "n_outliers 900.0": (Fit(n_outliers=900.0), ValueError, r"900\.0.*\[0, 1\); use the int 900"),
    "n_outliers 1.0": (Fit(n_outliers=1.0), ValueError, r"1\.0.*share in \[0, 1\); use the int 1 "),
    "n_outliers -0.1": (Fit(n_outliers=-0.1), ValueError, r"n_outliers=-0\.1.*share in \[0, 1\)"),
    # A negative number of rows would not be right either.
    "n_outliers -1.0": (
        Fit(n_outliers=-1.0),
        ValueError,
        r"=-1\.0.*share in \[0, 1\)(?!.*int -1)",
    ),
    "n_outliers NaN": (Fit(n_outliers=np.nan), ValueError, r"n_outliers=nan.*share in \[0, 1\)"),
    "n_outliers a word": (
        Fit(n_outliers="many"),
        ValueError,
        r"n_outliers='many' must be an int \(how many rows\), a float in \[0, 1\) .* or \"auto\"",
    ),
    "n_outliers True": (Fit(n_outliers=True), TypeError, "n_outliers=True must be an int"),
    "n_outliers too large": (
        Fit(n_outliers=950, n_clusters=60),
        ValueError,
        r"^n_outliers=950 leaves 50 of 1000 rows for n_clusters=60; lower one of them\.$",
    ),
    "n_outliers of all rows": (
        Fit(n_outliers=1500),
        ValueError,
        "n_outliers=1500 leaves nothing: the number of rows is 1000; lower n_outliers",
    ),
    "unknown init": (
        Fit(init="kmeans"),
        ValueError,
        r"init='kmeans'.*'k-means\+\+', 'robust-k-means\+\+'.*array.*callable",
    ),
    "init of another shape": (
        Fit(init=ROWS[:4]),
        ValueError,
        r"init has shape \(4, 2\); expected \(3, 2\): one row per cluster",
    ),
    "init of other features": (Fit(init=np.eye(3)), ValueError, r"\(3, 3\); expected \(3, 2\)"),
    "init with NaN": (Fit(init=using(np.nan, 0)[:3]), ValueError, "init has NaN.*must be finite"),
    "init too far for float64": (Fit(init=ROWS[:3] + 1e200), ValueError, "(?=.*init).*float64"),
    "init too far for float32": (
        Fit(ROWS.astype(np.float32), init=ROWS[:3] + 1e25),
        ValueError,
        "(?=.*init).*overflow float32",
    ),
    "init beyond float32": (
        Fit(ROWS.astype(np.float32), init=ROWS[:3] + 1e60),
        ValueError,
        "(?=.*init).*float32",
    ),
    "init a class": (Fit(init=MixtureSeeding), (TypeError, ValueError), "init=.*MixtureSeeding"),
    "init returns another shape": (
        Fit(init=too_many_seeds),
        ValueError,
        r"callable init returned has shape \(4, 2\); expected \(3, 2\)",
    ),
    "init returns nothing": (Fit(init=lambda *_, **__: None), ValueError, "callable init returned"),
    "n_init 0": (Fit(n_init=0), ValueError, "n_init=0 must be at least 1"),
    "n_init with an array": (Fit(init=ROWS[:3], n_init=2), ValueError, "n_init=2.*use n_init=1"),
    "eta 0": (Fit(eta=0), ValueError, "eta=0 must be a number above 0"),
    "eta -1.0": (Fit(eta=-1.0), ValueError, r"eta=-1\.0 must be a number above 0"),
    "eta with random": (
        Fit(init="random", eta=0.5),
        ValueError,
        r"eta=0\.5 does not apply to 'random'; it applies to 'robust-k-means\+\+' and",
    ),
    "eta with a seeding object": (
        Fit(init=MixtureSeeding(), eta=0.5),
        ValueError,
        r"eta=0\.5 applies to an init given by name; set it on the seeding object",
    ),
    "n_local_trials 0": (Fit(n_local_trials=0), ValueError, "n_local_trials=0 must be at least 1"),
    "max_iter 0": (Fit(max_iter=0), ValueError, "max_iter=0 must be at least 1"),
    "tol -1": (Fit(tol=-1), ValueError, "tol=-1 must be a number of at least 0"),
    "tol NaN": (Fit(tol=np.nan), ValueError, "tol=nan must be a number of at least 0"),
    "n_threads 0": (Fit(n_threads=0), ValueError, "n_threads=0 must be at least 1"),
    "verbose -1": (Fit(verbose=-1), ValueError, "verbose=-1 must be at least 0"),
    "callback 3": (Fit(callback=3), TypeError, "callback=3 must be callable with one argument"),
    "random_state a": (Fit(random_state="a"), ValueError, "'a' cannot be used to seed"),
    # Weights.
    "weights too short": (
        Fit(sample_weight=ONES[:9]),
        ValueError,
        r"sample_weight has shape \(9,\); X has 1000 rows, so it must have shape \(1000,\)",
    ),
    "weights 2-D": (
        Fit(sample_weight=ONES[:, np.newaxis]),
        ValueError,
        r"sample_weight has shape \(1000, 1\).* must have shape \(1000,\)",
    ),
    "weights negative": (
        Fit(sample_weight=np.where(np.arange(1000) == 4, -2, 1)),
        ValueError,
        r"sample_weight\[4\]=-2 is negative; use 0 to leave a row out",
    ),
    "weights NaN": (
        Fit(sample_weight=np.where(np.arange(1000) == 4, np.nan, 1)),
        ValueError,
        r"sample_weight has NaN.*row 4; weights must be finite",
    ),
    # scikit-learn wants the word "zero".
    "weights zero": (Fit(sample_weight=0 * ONES), ValueError, r"sample_weight.*zero"),
    "weights strings": (Fit(sample_weight=["a"] * 1000), ValueError, "sample_weight must be num"),
    "weights all trimmed": (
        Fit(sample_weight=ONES / 2, n_outliers=500),
        ValueError,
        "n_outliers=500 leaves nothing: the total sample_weight is 500; lower n_outliers",
    ),
    "a constant too large to sum": (
        Fit(np.column_stack([ROWS, np.full(len(ROWS), 1e306)])),
        ValueError,
        r"values up to 1e\+306 in column 2: their sum would overflow float64. Scale the data",
    ),
    "a seeding that returns NaN": (
        Fit(init=Returns(np.full((3, 2), np.nan))),
        ValueError,
        "what the seeding returned has NaN or infinite values",
    ),
    "a seeding that returns too many centres": (
        Fit(init=Returns(ROWS[:4])),
        ValueError,
        r"what the seeding returned has shape \(4, 2\); expected \(3, 2\)",
    ),
    "weights that overflow the cost": (
        Fit(ROWS * 1e60, sample_weight=ONES * 1e200),
        ValueError,
        "squared distances would overflow",
    ),
    "weights on too few rows": (
        Fit(sample_weight=np.arange(1000) < 2),
        ValueError,
        "2 of 1000 rows have a sample_weight above 0, fewer than n_clusters=3; lower n_clusters",
    ),
    # New rows for a fitted model.
    "other features": (
        lambda: fitted().predict(ROWS[:, :1]),
        ValueError,
        "1 features.*ing 2 feat",
    ),
    "predict NaN": (lambda: fitted().predict(using(np.nan)), ValueError, "NaN.*column 1;.*row 7"),
    "predict masked": (
        lambda: fitted().predict(np.ma.masked_greater(ROWS, 0.5)),
        ValueError,
        "masked values; fill or drop",
    ),
    "predict beyond float64": (
        lambda: fitted().predict(using(1e200)),
        ValueError,
        r"X spans 1e\+200 in column 1: .*overflow float64",
    ),
    "predict beyond float32": (
        lambda: fitted(np.float32).predict(using(1e40)),
        ValueError,
        "column 1.*float32",
    ),
    "squares beyond float32": (
        lambda: fitted(np.float32).predict(using(1e25)),
        ValueError,
        r"X spans 1e\+25 in column 1: .*overflow float32",
    ),
    # Seedings and functions.
    "alpha 2": (lambda: MixtureSeeding(alpha=2), ValueError, r"alpha=2 must be.*\[0, 1\]"),
    "delta 0": (lambda: MixtureSeeding(delta=0), ValueError, r"delta=0 must be.*\(0, 1\]"),
    "n_restarts 0": (lambda: MixtureSeeding(n_restarts=0), ValueError, "n_restarts=0 must be at"),
    "opt_guess 0": (lambda: TKMeansPlusPlus(opt_guess=0), ValueError, "opt_guess=0.*above 0"),
    "opt_guess NaN": (
        lambda: tkmeans_plusplus(ROWS, 2, n_outliers=1, opt_guess=np.nan),
        ValueError,
        "opt_guess=nan must be a number above 0",
    ),
    "trials 1.5": (lambda: KMeansPlusPlus(1.5), TypeError, r"n_local_trials=1\.5 must be an int"),
    "seeding of NaN": (
        lambda: robust_kmeans_plusplus(using(np.nan), 2, n_outliers=1),
        ValueError,
        "NaN.*column 1;.*row 7",
    ),
    "as_init of an unknown name": (
        lambda: as_init("rkm", n_outliers=1),
        ValueError,
        r"'rkm' is not a seeding; expected one of .*'rkm\+\+'",
    ),
    "as_init of eta and an object": (
        lambda: as_init(MixtureSeeding(), n_outliers=1, eta=0.5),
        ValueError,
        "eta.*belong to a seeding given by name; set them on it",
    ),
    "as_init of what is no seeding": (
        lambda: as_init(3, n_outliers=1)(ROWS, 2),
        (TypeError, ValueError),
        "3.*seeding",
    ),
    "centers of other features": (
        lambda: trimmed_kmeans(ROWS, np.eye(3), n_outliers=1),
        ValueError,
        r"centers has shape \(3, 3\); expected \(n_clusters, 2\)",
    ),
    # Measures.
    "0/1 mask": (
        lambda: outlier_precision_recall([0, 1, 0, 1], [0, 0, 1, 1]),
        ValueError,
        "true_outliers has repeated.*0/1 mask pass a boolean mask, such as labels == -1",
    ),
    "labels as flags": (
        lambda: outlier_precision_recall([3, 4], [-1, 2]),
        ValueError,
        "flagged has.*negative row numbers; for labels.*pass a boolean mask",
    ),
    "masks of different length": (
        lambda: outlier_precision_recall([True] * 3, [True] * 4),
        ValueError,
        "same length.*got a mask of length 3 and a mask of length 4",
    ),
    "a mask and row numbers": (
        lambda: outlier_precision_recall([True] * 3, [2]),
        ValueError,
        "got a mask of length 3 and row numbers",
    ),
    "float row numbers": (
        lambda: outlier_precision_recall([1.0], [1]),
        TypeError,
        "true_outliers has dtype float64; expected a boolean mask or row numbers",
    ),
    "silhouette of one cluster": (
        lambda: trimmed_silhouette_score(ROWS, np.zeros(1000, int)),
        ValueError,
        "labels has 1 clusters among 1000 inliers; this measure needs at least 2 clusters",
    ),
    "Davies-Bouldin of outliers alone": (
        lambda: trimmed_davies_bouldin_score(ROWS, np.full(1000, -1)),
        ValueError,
        "0 clusters among 0 inliers",
    ),
    "Calinski-Harabasz with short labels": (
        lambda: trimmed_calinski_harabasz_score(ROWS, [0, 1]),
        ValueError,
        r"labels has shape \(2,\); X has 1000 rows, so it must have shape \(1000,\)",
    ),
    # Data sets.
    "fewer rows than clusters": (
        lambda: make_contaminated_blobs(5, n_clusters=10),
        ValueError,
        "n_samples=5 is less than n_clusters=10",
    ),
    "sizes of too few clusters": (
        lambda: make_contaminated_blobs([3, 4], n_clusters=3),
        ValueError,
        r"n_samples=\[3, 4\] must be an int, or one int.*for each of 3 clusters",
    ),
    "an empty cluster": (
        lambda: make_contaminated_blobs([3, 0], n_clusters=2),
        ValueError,
        r"n_samples=\[3, 0\].*at least 1 for each of 2 clusters",
    ),
    "negative spread": (
        lambda: make_contaminated_blobs(cluster_std=-1),
        ValueError,
        "cluster_std=-1 must be a number of at least 0",
    ),
    "a box of side 0": (lambda: make_contaminated_blobs(box=0), ValueError, "box=0.*above 0"),
    "int rows": (lambda: make_contaminated_blobs(dtype=int), ValueError, "dtype=.*float32 or"),
    "more noise than rows": (lambda: make_contaminated_blobs(n_noisy=3000), ValueError, "n_noisy"),
    "negative noise": (lambda: make_contaminated_blobs(noise_scale=-1), ValueError, "noise_scale"),
    "noise on more rows than there are": (
        lambda: add_row_noise(ROWS, 1001),
        ValueError,
        "n_rows=1001 is more than the 1000 rows of X; lower it",
    ),
    "noise on NaN": (lambda: add_row_noise(using(np.nan), 1), ValueError, "NaN"),
}
FITS = {name: case for name, case in CASES.items() if isinstance(case[0], Fit)}


def fitted_attributes(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize(("call", "error", "message"), CASES.values(), ids=CASES)
def test_the_message_says_what_came_and_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("fit", "error", "message"), FITS.values(), ids=FITS)
def test_a_failed_fit_leaves_nothing_half_fitted(fit, error, message):
    model = RobustKMeans()
    with pytest.raises(error):
        fit(model)
    assert not fitted_attributes(model)


@pytest.mark.parametrize("name", ["NaN in a frame", "n_outliers too large", "weights too short"])
def test_a_failed_refit_mixes_nothing_of_two_fits(name):
    fit, error, message = FITS[name]
    model = RobustKMeans(2, random_state=0).fit(np.random.RandomState(0).uniform(size=(40, 5)))
    before = fitted_attributes(model)
    with pytest.raises(error, match=message):
        fit(model)
    # Either still all of the first fit, or nothing.
    after = fitted_attributes(model)
    same = after.keys() == before.keys() and all(after[key] is before[key] for key in after)
    assert same or not after


@pytest.mark.parametrize("method", ["predict", "transform", "score", "decision_function"])
def test_methods_ask_for_a_fit_first(method):
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
        getattr(RobustKMeans(), method)(ROWS)
