"""How the page of the reproduction is to be read: its texts that no figure changes."""

from __future__ import annotations

from robust_kmeans.paper.methods import DEFAULT
from robust_kmeans.paper.runner import PLAIN_REPETITIONS

PROTOCOLS = f"""\
Each method of the paper was run in two protocols: the seeds as they are, as the paper's text has
it, and the seeds followed by trimmed Lloyd. Our default is a whole fit of
`{DEFAULT}(n_clusters=k, n_outliers=z)`; it reaches a figure if its average is at least as good as
the best average of the block, at the paper's digits.
"""

CHOICES = """\
Read as, where the paper leaves a choice:

- TKM++ needs a guess of the optimum: the trimmed cost of one k-means++.
- RKM++ draws 1 + (k − 1)/δ candidates, and restarts its reduction 60 times.
- KDD's 10 percent file is standardised by its own means and deviations, not by those of the full
  file.
- On Synthetic, z rows are left out, at z = 100 as elsewhere; the lines of z = 100, which are
  impossible, would be possible with 120 rows flagged.
"""

TIMES = f"""\
Times are medians. "Plain NumPy ÷ ours" is the median over the first {PLAIN_REPETITIONS} repetitions
(over all, if there are fewer). Plain NumPy computes distances in blocks of rows that fit a cache.
Ours include checking the input; `random` is mostly that check. Times were taken while as many
processes ran as is said with the machine, at the top: that slows all of them down.
"""

STAND_IN_NOTE = """\
**A stand-in: generated rows, as many as the paper's data have. Only the times mean anything; no
other figure would say anything about the data.**
"""
