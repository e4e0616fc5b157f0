"""Bringing columns to one scale: a shift and a factor per column, kept for new rows.

k-means sees distances only, so a column in large units would decide alone.  The robust
scaling is by median and interquartile range, which a few outliers cannot move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_kmeans.validation import as_rows

SCALINGS = ("none", "standard", "robust")

BLOCK_VALUES = 2**18
"""Values that are converted to float64 at a time: 2 MB, whatever the size of the data."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """A shift and a factor for each column.

    Parameters
    ----------
    method : {"none", "standard", "robust"}
        How they were found.
    offset : array-like of shape (n_features,)
        What is subtracted.
    factor : array-like of shape (n_features,)
        What is divided by after that; above 0.
    constant_columns : tuple of int
        The columns without spread, which are shifted only (their factor is 1).

    Examples
    --------
    >>> from robust_kmeans.scaling import Scaling
    >>> scaling = Scaling("standard", offset=[10.0, 0.0], factor=[2.0, 1.0])
    >>> scaling.apply([[14.0, 3.0]])
    array([[2., 3.]])
    >>> scaling.undo([[2.0, 3.0]])
    array([[14.,  3.]])
    """

    method: str
    offset: NDArray[np.float64]
    factor: NDArray[np.float64]
    constant_columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_method(self.method)
        offset = _column_values("offset", self.offset)
        factor = _column_values("factor", self.factor)
        if len(offset) != len(factor):
            raise ValueError(
                f"offset has {len(offset)} values and factor {len(factor)}; both need one per "
                f"column."
            )
        if not (factor > 0).all():
            column = int(np.argmin(factor > 0))
            raise ValueError(
                f"factor[{column}]={factor[column]:g} must be above 0; use 1 for a column that is "
                f"not to be scaled."
            )
        if self.method == "none" and (offset.any() or (factor != 1).any()):
            raise ValueError(
                "method='none' leaves rows as they are, so each offset must be 0 and each factor "
                "1; use 'standard' or 'robust' for others."
            )
        columns = tuple(int(column) for column in self.constant_columns)
        if not all(0 <= column < len(factor) for column in columns):
            raise ValueError(
                f"constant_columns={columns} must be column numbers below {len(factor)}."
            )
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "constant_columns", columns)

    @classmethod
    def none(cls, n_features: int) -> Scaling:
        """The scaling that leaves rows as they are."""
        return cls("none", np.zeros(n_features), np.ones(n_features))

    def apply(self, rows: ArrayLike) -> NDArray[np.floating]:
        """(rows − offset) / factor as a new array of the dtype of `rows`.

        With method "none" the very rows that came are returned.
        """
        return self._scaled(rows, inverse=False)

    def undo(self, points: ArrayLike) -> NDArray[np.floating]:
        """Scaled points × factor + offset: `apply` reversed, such as for centres."""
        return self._scaled(points, inverse=True)

    def _scaled(self, rows: ArrayLike, *, inverse: bool) -> NDArray[np.floating]:
        array = as_rows(rows)
        if array.shape[1] != len(self.offset):
            raise ValueError(
                f"X has {array.shape[1]} columns; the scaling is for {len(self.offset)}. Pass the "
                f"columns that it was fitted on."
            )
        if self.method == "none":
            return array
        scaled = np.empty_like(array)
        for block in _blocks(array):
            # A value that leaves the range of the dtype is refused below.
            with np.errstate(over="ignore", invalid="ignore"):
                values = array[block].astype(np.float64)
                if inverse:
                    values *= self.factor
                    values += self.offset
                else:
                    values -= self.offset
                    values /= self.factor
                scaled[block] = values
            self._check_range(array[block], scaled[block])
        return scaled

    def _check_range(self, before: NDArray[np.floating], after: NDArray[np.floating]) -> None:
        if np.isfinite(after).all():
            return
        # What was NaN or infinite before is for the estimator to refuse, which names the row.
        overflown = (np.isfinite(before) & ~np.isfinite(after)).any(axis=0)
        if overflown.any():
            column = int(np.argmax(overflown))
            raise ValueError(
                f"X has values in column {column} that leave the range of {after.dtype} when "
                f"scaled by {self.factor[column]:g}; remove the extreme ones, or do not scale."
            )


def fit_scaling(rows: ArrayLike, method: str) -> Scaling:
    """Find the shift and the factor of each column.

    Parameters
    ----------
    rows : array-like of shape (n_samples, n_features)
    method : {"none", "standard", "robust"}
        "standard" is by mean and standard deviation, "robust" by median and interquartile
        range, which outliers cannot spoil; "none" leaves the rows as they are.

    Returns
    -------
    Scaling
        Its `constant_columns` are those without spread, which are shifted only.

    Examples
    --------
    >>> from robust_kmeans.scaling import fit_scaling
    >>> rows = [[1.0, 7.0], [2.0, 7.0], [3.0, 7.0], [4.0, 7.0], [1e9, 7.0]]
    >>> scaling = fit_scaling(rows, "robust")
    >>> scaling.offset, scaling.factor, scaling.constant_columns
    (array([3., 7.]), array([2., 1.]), (1,))
    """
    check_method(method)
    array = as_rows(rows)
    if method == "none":
        return Scaling.none(array.shape[1])
    # Sums of what is not finite, or of what is too large, are refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        offset, factor = _mean_and_deviation(array) if method == "standard" else _quartiles(array)
    usable = np.isfinite(offset) & np.isfinite(factor)
    if not usable.all():
        raise ValueError(
            f"X has NaN, infinite or extremely large values in column {int(np.argmin(usable))}; "
            f"drop such rows or fill them before scaling."
        )
    constant = np.flatnonzero(factor == 0)
    factor[constant] = 1.0
    return Scaling(method, offset, factor, tuple(constant.tolist()))


def check_method(method: str) -> None:
    """Refuse what is not the name of a scaling."""
    if method not in SCALINGS:
        names = ", ".join(map(repr, SCALINGS))
        raise ValueError(f"{method!r} is not a scaling; expected one of {names}.")


def _mean_and_deviation(
    rows: NDArray[np.floating],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # Deviations from the first row are exactly 0 in a constant column, and keep the digits
    # that a sum of values far from 0 would lose.
    first = rows[0].astype(np.float64)
    rough = first + sum((rows[block] - first).sum(axis=0) for block in _blocks(rows)) / len(rows)
    total = np.zeros_like(first)
    squares = np.zeros_like(first)
    # The first row may itself be far out: deviations from the mean decide.
    for block in _blocks(rows):
        deviations = rows[block] - rough
        total += deviations.sum(axis=0)
        squares += np.einsum("ij,ij->j", deviations, deviations)
    correction = total / len(rows)
    variance = np.maximum(squares / len(rows) - correction**2, 0.0)
    return rough + correction, np.sqrt(variance)


def _quartiles(rows: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n_columns = rows.shape[1]
    offset, factor = np.empty(n_columns), np.empty(n_columns)
    # Column by column: the percentiles of all at once would copy all rows.
    for column in range(n_columns):
        values = rows[:, column].astype(np.float64)
        low, offset[column], high = np.percentile(values, [25, 50, 75], overwrite_input=True)
        factor[column] = high - low
    return offset, factor


def _column_values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A read-only float64 copy of what must be finite numbers, one per column."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, one per column: {error}") from None
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} has shape {array.shape}; expected one value per column.")
    if not np.isfinite(array).all():
        column = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name}[{column}]={array[column]:g} must be finite.")
    array.setflags(write=False)
    return array


def _blocks(rows: NDArray[np.floating]) -> Iterator[slice]:
    step = max(1, BLOCK_VALUES // rows.shape[1])
    return (slice(start, start + step) for start in range(0, len(rows), step))
