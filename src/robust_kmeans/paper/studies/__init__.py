"""What the paper's Lemma 1, its theorems and its silences come to, each run live.

coverage    how many clusters get a seed, draw after draw, where the theorems fail
trade_off   how the cost falls when more than z rows may be left out (Lemma 1)
bicriteria  what t = (1 + c)·k seeds bring, kept or reduced to k
noise       how large the noise is that the paper calls large

``result`` has what each of them gives, and ``planted`` the data and the yardstick that trade_off
and bicriteria share.  Everything is drawn from the seed that a study is given: the same seed, the
same result, and the repetitions of a shorter run are the first of a longer one.
"""

from __future__ import annotations

from robust_kmeans.paper.studies import bicriteria, coverage, noise, trade_off
from robust_kmeans.paper.studies.result import Curve, Panel, Report, Study, StudyResult, Table

__all__ = ["STUDIES", "Curve", "Panel", "Report", "Study", "StudyResult", "Table"]

_STUDIES: tuple[Study, ...] = (coverage, trade_off, bicriteria, noise)
STUDIES: dict[str, Study] = {study.NAME: study for study in _STUDIES}
"""By name, in the order of the page."""
