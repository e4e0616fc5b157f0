"""A few rows of a chunk that are kept from one sweep to a later one.

Where rows are decoded or computed in large pieces, a few of them cost as much as all.  So a sweep
that has all of them at hand notes those that the next one may ask for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.execution.budget import Budget
from robust_kmeans.sweeps.base import NotAtHand, read_only

# This share of all rows may be noted.
NOTED_SHARE = 1 / 32


class Notes:
    """Rows of a chunk, found by their positions in it.

    Parameters
    ----------
    positions : ndarray of shape (m,), ascending
    rows : ndarray of shape (m, n_features)

    Examples
    --------
    >>> notes = Notes(np.array([2, 5]), np.array([[20.0], [50.0]]))
    >>> notes.take(np.array([5]))
    array([[50.]])
    """

    def __init__(self, positions: NDArray[np.integer], rows: NDArray[np.floating]) -> None:
        self._positions, self._rows = positions, rows

    def take(self, positions: NDArray[np.integer]) -> NDArray[np.floating]:
        """A copy of these rows; NotAtHand where one of them was not noted."""
        places = np.searchsorted(self._positions, positions)
        if np.any(places == len(self._positions)) or np.any(self._positions[places] != positions):
            raise NotAtHand
        return read_only(self._rows[places])


def no_notes(n_features: int, dtype: np.dtype[np.floating]) -> Notes:
    """Before anything was noted: none is asked for, none is missing."""
    return Notes(np.empty(0, np.int32), np.empty((0, n_features), dtype))


def noted(rows: NDArray[np.floating], positions: NDArray[np.integer], budget: Budget) -> Notes:
    """Notes of the rows at these positions; of none where the budget has too little room in RAM."""
    which = budget.empty_in_ram((len(positions),), np.int32)
    copies = budget.empty_in_ram((len(positions), rows.shape[1]), rows.dtype)
    if which is None or copies is None:
        return no_notes(rows.shape[1], rows.dtype)
    which[:] = positions
    np.take(rows, which, axis=0, out=copies)
    return Notes(which, copies)
