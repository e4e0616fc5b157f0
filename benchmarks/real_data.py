"""The real data sets of the evaluation, as `robust_kmeans.datasets` loads them.

The folder is ROBUST_KMEANS_DATA, or shared/data beside the repository.  Nothing is
downloaded, and nothing is kept but in memory.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robust_kmeans.datasets import RealData, load_kddcup, load_shuttle, load_skin

SHUTTLE = "shuttle.trn.gz"
SKIN = "Skin_NonSkin.txt.gz"
KDD = "kddcup.data_10_percent.gz"


def data_folder() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("ROBUST_KMEANS_DATA", beside))


@lru_cache(maxsize=1)
def shuttle() -> RealData:
    """43,500 × 9; classes 6 and 7, 17 rows, are the outliers."""
    return load_shuttle(data_home=data_folder(), download_if_missing=False)


@lru_cache(maxsize=1)
def skin() -> NDArray[np.float64]:
    """245,057 × 3: blue, green, red."""
    return load_skin(data_home=data_folder(), download_if_missing=False).X


@lru_cache(maxsize=1)
def kdd() -> RealData:
    """494,021 × 34, standardised; all but the three large classes, 8,752 rows, are outliers."""
    return load_kddcup(data_home=data_folder(), download_if_missing=False)
