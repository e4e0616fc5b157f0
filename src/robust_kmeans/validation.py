"""Input checks: every message says what came, what was expected and what to do.

Arrays are checked for their form by scikit-learn and for their values by one sweep, on all
threads: what is not finite, and what would overflow when squared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from robust_kmeans.execution.base import Execution
from robust_kmeans.sweeps.checks import RANGES, Ranges

RandomState = int | np.random.RandomState | None

ROW_OPTIONS: dict[str, Any] = {
    "dtype": [np.float64, np.float32],
    "order": "C",
    # Checked by `check_values`, in one reading on all threads and with a better message.
    "ensure_all_finite": False,
}
"""How `check_array` and `validate_data` are called: float arrays in C order are not copied."""


def as_rows(X: ArrayLike) -> NDArray[np.floating]:
    """`X` as a C-contiguous float array of rows; a float array in C order is not copied."""
    with clear_errors(X):
        rows: NDArray[np.floating] = check_array(X, **ROW_OPTIONS)
    return rows


def as_dtype(rows: NDArray[np.floating], dtype: np.dtype[Any]) -> NDArray[np.floating]:
    """Rows in the dtype of a fitted model; what does not fit into it is refused."""
    with np.errstate(over="ignore"):
        cast = rows.astype(dtype, copy=False)
    if dtype.itemsize < rows.dtype.itemsize and np.isinf(cast).sum() > np.isinf(rows).sum():
        raise ValueError(
            f"X has values in column {int(np.argmax(np.isinf(cast).any(axis=0)))} beyond {dtype}, "
            f"the dtype that the model was fitted on. Scale the data, or fit on {rows.dtype}."
        )
    return cast


@contextmanager
def clear_errors(X: ArrayLike) -> Iterator[None]:
    """Around a conversion of `X`: refuse masks, and name the column that is not numeric."""
    # Converting a masked array would silently use the values under the mask.
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"X is a masked array with {np.ma.getmaskarray(X).sum()} masked values; fill or drop "
            f"them first (X.filled(…), numpy.ma.compress_rows)."
        )
    try:
        yield
    except ValueError as error:
        for column in getattr(X, "columns", ()):
            try:
                np.asarray(X[column], dtype=np.float64)  # type: ignore[index]
            except (TypeError, ValueError) as reason:
                raise ValueError(
                    f"X has a column that is not numeric, {column!r}: {reason}. Drop or encode it."
                ) from error
        raise


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> NDArray[np.float64] | None:
    """Weights as float64, or None where every row weighs 1."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers, one per row: {error}") from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; X has {n_rows} rows, so it "
            f"must have shape ({n_rows},)."
        )
    if not np.isfinite(weights).all():
        first = int(np.argmin(np.isfinite(weights)))
        raise ValueError(
            f"sample_weight has NaN or infinite values, the first in row {first}; weights "
            f"must be finite."
        )
    if (weights < 0).any():
        first = int(np.argmax(weights < 0))
        raise ValueError(
            f"sample_weight[{first}]={weights[first]:g} is negative; use 0 to leave a row out."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; some row must weigh something.")
    return None if (weights == 1).all() else np.ascontiguousarray(weights)


def as_centers(
    centers: ArrayLike, n_clusters: int | None, n_features: int, dtype: np.dtype[Any], name: str
) -> NDArray[np.floating]:
    """Centres given by the user as a fresh C-contiguous array of `dtype`."""
    try:
        with np.errstate(over="ignore"):  # what exceeds float32 is refused below
            array = np.array(centers, dtype=dtype, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None
    expected = ("n_clusters" if n_clusters is None else n_clusters, n_features)
    right_length = n_clusters is None or array.shape[:1] == (n_clusters,)
    if array.ndim != 2 or array.shape[1] != n_features or not right_length or not len(array):
        raise ValueError(
            f"{name} has shape {array.shape}; expected ({expected[0]}, {expected[1]}): one row "
            f"per cluster, one column per feature of X."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has NaN or infinite values (as {dtype}); centres must be finite.")
    return array


def check_values(
    data: Execution,
    feature_names: Sequence[str] | None = None,
    centers: NDArray[np.floating] | None = None,
) -> None:
    """Refuse values that are not finite or whose squared distances could overflow."""
    ranges = data.summarise(RANGES, None)
    if ranges.first_bad >= 0:
        raise ValueError(_not_finite(ranges, data.where(ranges.first_bad), feature_names))
    highest = np.maximum(np.abs(ranges.low), np.abs(ranges.high)).astype(np.float64)
    if highest.max() > float(np.finfo(np.float64).max) / 4 / max(1.0, data.total_weight):
        column = _name(int(np.argmax(highest)), feature_names)
        raise ValueError(
            f"X has values up to {highest.max():.3g} in column {column}: their sum would "
            f"overflow float64. Scale the data."
        )
    largest, span = _largest_distance(ranges, centers)
    if not _fits(largest, data):
        widest = int(np.argmax(span))
        wider = " or pass float64" if data.dtype == np.float32 else ""
        raise ValueError(
            f"X spans {span[widest]:.3g} in column {_name(widest, feature_names)}: squared "
            f"distances would overflow {data.dtype}. Scale the data{wider}."
        )


def check_reach(data: Execution, centers: NDArray[np.floating], name: str) -> None:
    """Refuse centres from which squared distances to the rows could overflow."""
    largest, _ = _largest_distance(data.summarise(RANGES, None), centers)
    if not _fits(largest, data):
        raise ValueError(
            f"{name} is so far from X that squared distances would overflow {data.dtype}; "
            f"choose centres among the rows."
        )


def _largest_distance(
    ranges: Ranges, centers: NDArray[np.floating] | None
) -> tuple[float, NDArray[np.float64]]:
    """A bound of all squared distances, and the extent of each feature."""
    low, high = ranges.low.astype(np.float64), ranges.high.astype(np.float64)
    if centers is not None:
        low = np.minimum(low, centers.min(axis=0))
        high = np.maximum(high, centers.max(axis=0))
    with np.errstate(over="ignore"):
        span = high - low
        return float(np.sum(span**2)), span


def _fits(largest: float, data: Execution) -> bool:
    # A factor of 4 is left for rounding, and for distances to points between the rows.
    room = float(np.finfo(data.dtype).max) / 4
    total_room = float(np.finfo(np.float64).max) / 4
    return largest <= room and largest <= total_room / max(1.0, data.total_weight)


def outlier_budget(data: Execution, n_outliers: float) -> float:
    """The weight to trim: an int is a weight (with unit weights, rows), a float a share."""
    if isinstance(n_outliers, bool | np.bool_) or not isinstance(n_outliers, Real):
        raise TypeError(
            f"n_outliers={n_outliers!r} must be an int (how many rows) or a float in [0, 1) "
            f"(which share of them)."
        )
    if isinstance(n_outliers, Integral):
        if n_outliers < 0:
            raise ValueError(f"n_outliers={n_outliers} must not be negative; 0 trims nothing.")
        if n_outliers >= data.total_weight:
            whole = "total sample_weight" if data.weighted else "number of rows"
            raise ValueError(
                f"n_outliers={n_outliers} leaves nothing: the {whole} is {data.total_weight:g}; "
                f"lower n_outliers."
            )
        return int(n_outliers)
    share = float(n_outliers)
    if not 0 <= share < 1:
        is_count = share >= 1 and share.is_integer()
        hint = f"; use the int {int(share)} for a number of rows" if is_count else ""
        raise ValueError(f"n_outliers={share!r} is a float, which means a share in [0, 1){hint}.")
    # 1e-9: a share such as 0.29 of 100 rows is 29, though the product is 28.999….
    return share * data.total_weight if data.weighted else math.floor(share * data.n_rows + 1e-9)


def check_columns(
    estimator: Any, n_features: int, names: Sequence[str] | None, *, reset: bool
) -> None:
    """Note the columns of a fit, or refuse others: as scikit-learn does for arrays and frames."""
    if reset:
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} was fitted on "
            f"{estimator.n_features_in_}. Choose the same columns (open_dataset(…, columns=…))."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        other = next(i for i, name in enumerate(names) if name != known[i])
        raise ValueError(
            f"X has column {names[other]!r} where {type(estimator).__name__} was fitted on "
            f"{known[other]!r}. Choose the same columns in the same order "
            f"(open_dataset(…, columns=…))."
        )


def check_auto(name: str, value: object, expected: str) -> None:
    """Refuse any other word than "auto"; `expected` says what else may be given."""
    numeric = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'{name}={value!r} must be {expected}, or "auto".')
    if not isinstance(value, str) and not numeric:
        raise TypeError(f'{name}={value!r} must be {expected}, or "auto".')


def check_clusters(data: Execution, n_clusters: int, n_outliers: float = 0) -> None:
    """Refuse more clusters than rows that remain once the outliers are trimmed."""
    check_count("n_clusters", n_clusters)
    if data.weighted:
        if data.n_weighty_rows < n_clusters:
            raise ValueError(
                f"{data.n_weighty_rows} of {data.n_rows} rows have a sample_weight above 0, "
                f"fewer than n_clusters={n_clusters}; lower n_clusters."
            )
        return
    left = data.n_rows - n_outliers
    if n_outliers and left < n_clusters:
        raise ValueError(
            f"n_outliers={n_outliers} leaves {left} of {data.n_rows} rows for "
            f"n_clusters={n_clusters}; lower one of them."
        )
    if left < n_clusters:
        raise ValueError(
            f"n_samples={data.n_rows} is less than n_clusters={n_clusters}; lower n_clusters."
        )


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not an int of at least `least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} must be an int of at least {least}.")
    if value < least:
        raise ValueError(f"{name}={value} must be at least {least}.")


def check_threads(n_threads: int | None) -> None:
    """Refuse what is not None or a number of threads."""
    if n_threads is not None:
        check_count("n_threads", n_threads)


def as_bytes(name: str, value: object) -> int | None:
    """A number of bytes, from an int or from text such as "2 GB" or "512 MiB"."""
    if value is None:
        return None
    expected = f'{name}={value!r} must be a number of bytes, or text such as "2 GB" or "512 MiB".'
    if not isinstance(value, str):
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
            raise TypeError(expected)
        n_bytes = float(value)
    else:
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([kMGT]?)(i?)B\s*", value)
        if match is None:
            raise ValueError(expected)
        number, letter, binary = match.groups()
        n_bytes = float(number) * (1024 if binary else 1000) ** " kMGT".index(letter or " ")
    if not 1 <= n_bytes < 2**63:
        raise ValueError(expected)
    return int(n_bytes)


def check_trials(n_local_trials: int | None) -> None:
    """Refuse what is not None or a number of candidates."""
    if n_local_trials is not None:
        check_count("n_local_trials", n_local_trials)


def check_real(name: str, value: object, expected: str) -> float:
    """Refuse what is not a finite real number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} must be {expected}.")
    if not math.isfinite(value):
        raise ValueError(f"{name}={value!r} must be {expected}.")
    return float(value)


def check_positive(name: str, value: object) -> None:
    """Refuse what is not a finite number above 0."""
    if check_real(name, value, "a number above 0") <= 0:
        raise ValueError(f"{name}={value!r} must be a number above 0.")


def check_stopping(max_iter: int, tol: float) -> None:
    """Refuse a number of iterations or a tolerance that mean nothing."""
    check_count("max_iter", max_iter)
    if check_real("tol", tol, "a number of at least 0") < 0:
        raise ValueError(f"tol={tol!r} must be a number of at least 0.")


def check_share(name: str, value: object, *, zero_allowed: bool = True) -> None:
    """Refuse what is not a number between 0 and 1."""
    expected = f"a number in {'[' if zero_allowed else '('}0, 1]"
    share = check_real(name, value, expected)
    if not 0 <= share <= 1 or (share == 0 and not zero_allowed):
        raise ValueError(f"{name}={value!r} must be {expected}.")


def _not_finite(ranges: Ranges, where: str, feature_names: Sequence[str] | None) -> str:
    columns = np.flatnonzero(ranges.bad_values)
    named = ", ".join(_name(int(column), feature_names) for column in columns[:5])
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return (
        f"X has {ranges.bad_values.sum()} NaN or infinite values in column "
        f"{named}{more}; the first is in {where}. Drop such rows or fill them "
        f"(sklearn.impute) before clustering."
    )


def _name(column: int, feature_names: Sequence[str] | None) -> str:
    return str(column) if feature_names is None else f"{column} ({str(feature_names[column])!r})"
