"""Data sets: synthetic clusters with known outliers."""

from robust_kmeans.datasets.synthetic import (
    ContaminatedBlobs,
    NoisyRows,
    add_row_noise,
    make_contaminated_blobs,
)

__all__ = ["ContaminatedBlobs", "NoisyRows", "add_row_noise", "make_contaminated_blobs"]
