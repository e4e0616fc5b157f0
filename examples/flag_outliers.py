"""Find the rows of a table that belong nowhere, keep the model, and judge new rows with it.

    python examples/flag_outliers.py

Writes two pictures and a model file into the folder ``output``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from robust_kmeans import RobustKMeans, plot_clusters, plot_trim_curve
from robust_kmeans.datasets import make_contaminated_blobs

OUTPUT = Path("output")


def main() -> None:
    """Fit, look, save, load, predict."""
    OUTPUT.mkdir(exist_ok=True)
    X, _, _ = make_contaminated_blobs(
        5000, n_clusters=6, n_outliers=150, n_features=4, outlier_box=400, random_state=1
    )
    model = RobustKMeans(n_clusters=6, n_outliers=0.03, random_state=0).fit(X)
    strongest = model.outlier_indices_[np.argsort(-model.outlier_scores_[model.outlier_indices_])]
    print(f"{len(strongest)} outliers; the strongest are rows {strongest[:5].tolist()}")

    plot_clusters(model, X).figure.savefig(OUTPUT / "clusters.png", dpi=150)
    # The curve falls steeply while outliers are left out, and slowly from then on.
    plot_trim_curve(model, X).figure.savefig(OUTPUT / "trim_curve.png", dpi=150)
    plt.close("all")

    model.save(OUTPUT / "model.npz")
    loaded = RobustKMeans.load(OUTPUT / "model.npz")
    new = np.vstack([X[:2], [[1e4, 0, 0, 0]]])
    print(f"labels of two known rows and one far away: {loaded.predict(new).tolist()}")


if __name__ == "__main__":
    main()
