"""Seedings by name, and what `init=` may be: a name, an array, a callable or a seeding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robust_kmeans.execution.base import Execution, is_large
from robust_kmeans.seeding.drawing import Seeding, Seeds
from robust_kmeans.seeding.kmeans_plusplus import KMeansPlusPlus
from robust_kmeans.seeding.rkmeans_plusplus import MixtureSeeding
from robust_kmeans.seeding.robust_kmeans_parallel import RobustKMeansParallel
from robust_kmeans.seeding.robust_kmeans_plusplus import RobustKMeansPlusPlus
from robust_kmeans.seeding.tkmeans_plusplus import TKMeansPlusPlus
from robust_kmeans.seeding.uniform import RandomSeeding
from robust_kmeans.validation import as_centers, check_reach

SEEDINGS: dict[str, Callable[..., Seeding]] = {
    "random": RandomSeeding,
    "k-means++": KMeansPlusPlus,
    "robust-k-means++": RobustKMeansPlusPlus,
    "tkm++": TKMeansPlusPlus,
    "rkm++": MixtureSeeding,
    "robust-k-means||": RobustKMeansParallel,
}

Init = str | ArrayLike | Callable[..., ArrayLike] | Seeding


def seeding_by_name(name: str, **options: float | None) -> Seeding:
    """A seeding configured with those options that are not None; others must not be given.

    As for every method without it, an oversampling of 0 leaves ``rkm++`` as it is.
    """
    if name not in SEEDINGS:
        raise ValueError(
            f"{name!r} is not a seeding; expected one of {_names()}, or a seeding object."
        )
    seeding = cast(Any, SEEDINGS[name])
    known = {field.name for field in fields(seeding)}
    given = {option: value for option, value in options.items() if _is_given(option, value)}
    for option, value in given.items():
        if option not in known:
            raise ValueError(
                f"{option}={value!r} does not apply to {name!r}; it applies to "
                f"{_names_with(option)}. Leave it at {_not_given(option)}."
            )
    return cast(Seeding, seeding(**given))


def resolve_init(
    init: Init,
    rows: Any,
    *,
    eta: float | None,
    n_local_trials: int | None,
    oversampling: float | None = None,
) -> Seeding:
    """The seeding that `init` means for these rows (an array, a data set or a dask array)."""
    options = {"eta": eta, "n_local_trials": n_local_trials, "oversampling": oversampling}
    if isinstance(init, str):
        if init == "auto":
            init = _auto(rows, options)
        if init not in SEEDINGS:
            raise ValueError(
                f'init={init!r} is not a seeding; expected "auto", one of {_names()}, an array '
                f"of centres, a callable or a seeding object."
            )
        return seeding_by_name(init, **options)
    for option, value in options.items():
        if _is_given(option, value):
            raise ValueError(
                f"{option}={value!r} applies to an init given by name; set it on the seeding "
                f"object, or leave it at {_not_given(option)}."
            )
    if isinstance(init, type):
        raise TypeError(f"init={init.__name__} is a class; pass an object, {init.__name__}(…).")
    if is_seeding(init):
        return cast(Seeding, init)
    if callable(init):
        if not isinstance(rows, np.ndarray):
            raise TypeError(
                f"init={init!r} is a callable, which needs X as an array (numpy.asarray(X) of "
                f"a memory map); otherwise use a seeding by its name, a seeding object or an "
                f"array of centres."
            )
        return _Callable(init, rows)
    return _Given(init)


def _auto(rows: Any, options: dict[str, float | None]) -> str:
    """Few readings for large data, unless an option is given that only the other one has."""
    sequential = any(
        _is_given(option, options[option]) for option in ("n_local_trials", "oversampling")
    )
    n_rows, n_features = rows.shape
    large = is_large(n_rows, n_features, rows.dtype)
    return "robust-k-means||" if large and not sequential else "robust-k-means++"


def is_seeding(init: object) -> bool:
    """Whether this is a seeding object (a frame may have a column named seed)."""
    return callable(getattr(init, "seed", None))


@dataclass(frozen=True)
class _Given:
    """Centres that the user has chosen."""

    centers: Any

    def seed(
        self, data: Execution, n_clusters: int, _n_outliers: float, _random: np.random.RandomState
    ) -> Seeds:
        centers = as_centers(self.centers, n_clusters, data.n_features, data.dtype, "init")
        check_reach(data, centers, "init")
        return Seeds(centers, np.full(n_clusters, -1))


@dataclass(frozen=True)
class _Callable:
    """A function of (X, n_clusters, random_state=…), as scikit-learn's KMeans takes."""

    function: Callable[..., ArrayLike]
    rows: NDArray[np.floating]

    def seed(
        self, data: Execution, n_clusters: int, _n_outliers: float, random: np.random.RandomState
    ) -> Seeds:
        name = "what the callable init returned"
        chosen = self.function(self.rows, n_clusters, random_state=random)
        centers = as_centers(chosen, n_clusters, data.n_features, data.dtype, name)
        check_reach(data, centers, name)
        return Seeds(centers, np.full(n_clusters, -1))


def _is_given(option: str, value: object) -> bool:
    # False == 0, but it is no number: the seeding refuses it.
    nothing = option == "oversampling" and value == 0 and not isinstance(value, bool | np.bool_)
    return value is not None and not nothing


def _not_given(option: str) -> str:
    return "0" if option == "oversampling" else "None"


def _names() -> str:
    return ", ".join(map(repr, SEEDINGS))


def _names_with(option: str) -> str:
    names = [n for n, s in SEEDINGS.items() if option in {f.name for f in fields(cast(Any, s))}]
    return " and ".join(map(repr, names))
