"""``python -m robust_kmeans.cli`` is the command `robust-kmeans`."""

from robust_kmeans.cli import main

main()
