"""Seedings: one method a file, each a short loop over sweeps.

``uniform``                 ``random``: distinct rows
``kmeans_plusplus``         ``k-means++``: chances ∝ D²
``robust_kmeans_plusplus``  ``robust-k-means++``: chances ∝ min(D², η·ρ/z)
``tkmeans_plusplus``        ``tkm++``: chances ∝ min(D², η·G/z), G a guess of the optimum
``rkmeans_plusplus``        ``rkm++``: a mixture of uniform and D², then a reduction to k
``robust_kmeans_parallel``  ``robust-k-means||``: a few rounds, then a reduction to k

``drawing`` has what they share, ``robust_draws`` and ``threshold`` are the loop of
``robust-k-means++``, ``reduction`` turns many candidates into k centres,
``registry`` knows them by name, and ``adapter`` lends them to scikit-learn's estimators.
"""
