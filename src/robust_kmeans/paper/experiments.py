"""Which experiments there are, read from experiments.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

DataName = Literal["synthetic", "shuttle", "kddcup", "skin"]


@dataclass(frozen=True)
class Setting:
    """One block of a table.

    Attributes
    ----------
    k : int
        The number of clusters.
    z : int or None
        The number of rows to leave out; None for as many as there are true outliers.
    """

    k: int
    z: int | None = None


@dataclass(frozen=True)
class Experiment:
    """One table of the paper.

    Attributes
    ----------
    name : str
        What the command calls it.
    title : str
    data : str
        Which data: one of "synthetic", "shuttle", "kddcup" and "skin".
    varies : {"k", "z"}
        What tells its blocks apart.
    cost_unit : float
        What the paper divides its costs by.
    beta : float
        The paper's error parameter: η of its own algorithm, and of TKM++.
    repetitions : int
    methods : tuple of str
    settings : tuple of Setting
    n_noisy : int
        So many rows get noise, and are the true outliers; 0 for data with outliers of their own.
    """

    name: str
    title: str
    data: DataName
    varies: Literal["k", "z"]
    cost_unit: float
    beta: float
    repetitions: int
    methods: tuple[str, ...]
    settings: tuple[Setting, ...]
    n_noisy: int = 0


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by name, in the order of the paper.

    Examples
    --------
    >>> from robust_kmeans.paper.experiments import experiments
    >>> list(experiments())
    ['synthetic', 'shuttle', 'kdd', 'skin-noise', 'shuttle-noise']
    >>> [setting.z for setting in experiments()["shuttle"].settings]
    [21, 34, 51]
    """
    text = files(__package__).joinpath("experiments.toml").read_text(encoding="utf-8")
    return {
        name: Experiment(
            name=name,
            methods=tuple(table.pop("methods")),
            settings=tuple(Setting(**setting) for setting in table.pop("settings")),
            **table,
        )
        for name, table in tomllib.loads(text).items()
    }
