"""The cells of the grid: what is clustered, and into how many clusters.

Gaussian    one standard Gaussian: no clusters to find
clustered   unit Gaussians round uniform centres, in random order; 1 % of the rows far outside
real data   Shuttle, Skin and KDD Cup 1999 (10 %), as `real_data` loads them

Generated rows are drawn as float32, so that both dtypes hold the same numbers.  In all cells
z = 1 % of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import real_data
from numpy.typing import NDArray

DTYPES = ("float32", "float64")
OUTLIER_SHARE = 0.01
SHAPES = (
    (1_000_000, 9, 20),
    (1_000_000, 34, 20),
    (250_000, 3, 50),
    (1_000_000, 9, 100),
    (200_000, 128, 100),
    (50_000, 784, 50),
)


@dataclass(frozen=True)
class Cell:
    """Rows of one distribution, and the number of clusters."""

    data: str
    n: int
    d: int
    k: int
    outlier_share: float = OUTLIER_SHARE

    @property
    def z(self) -> int:
        """How many rows are trimmed."""
        return int(self.outlier_share * self.n)

    @property
    def name(self) -> str:
        """What `--grid` looks for, as in ``clustered-1000000-9-20``."""
        return "-".join([self.data.split()[0].lower(), *map(str, (self.n, self.d, self.k))])


def full_grid() -> list[Cell]:
    generated = [Cell(data, *shape) for shape in SHAPES for data in GENERATED]
    real = [
        Cell("Shuttle", 43_500, 9, 15),
        Cell("Skin", 245_057, 3, 50),
        Cell("KDD 10 %", 494_021, 34, 5),
    ]
    return generated + real


def quick_grid() -> list[Cell]:
    return [Cell(data, 4_000, 9, 5) for data in GENERATED]


def make_rows(cell: Cell) -> NDArray[np.floating]:
    """The rows of a cell; FileNotFoundError where real data is not there."""
    if cell.data in GENERATED:
        return GENERATED[cell.data](cell, np.random.default_rng(0))
    return REAL[cell.data]()


def _gaussian(cell: Cell, random: np.random.Generator) -> NDArray[np.float32]:
    return random.standard_normal((cell.n, cell.d), np.float32)


def _clustered(cell: Cell, random: np.random.Generator) -> NDArray[np.float32]:
    centers = random.uniform(-50, 50, (cell.k, cell.d)).astype(np.float32)
    rows = _gaussian(cell, random)
    rows += centers[random.integers(cell.k, size=cell.n)]
    far = random.choice(cell.n, cell.z, replace=False)
    rows[far] = random.uniform(-1000, 1000, (len(far), cell.d))
    return rows


GENERATED: dict[str, Callable[[Cell, np.random.Generator], NDArray[np.float32]]] = {
    "Gaussian": _gaussian,
    "clustered": _clustered,
}
REAL: dict[str, Callable[[], NDArray[np.float64]]] = {
    "Shuttle": lambda: real_data.shuttle().X,
    "Skin": real_data.skin,
    "KDD 10 %": lambda: real_data.kdd().X,
}
