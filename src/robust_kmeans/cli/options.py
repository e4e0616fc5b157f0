"""The options that several commands have."""

# No postponed annotations here: typer reads them at run time.
# ruff: noqa: UP045 - for the same reason Optional, not | None

from pathlib import Path
from typing import Annotated, Optional

import typer

File = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV (also .gz), Parquet, Feather or NPY; text with a header.",
        show_default=False,
    ),
]
Clusters = Annotated[
    int, typer.Option("-k", "--clusters", help="How many clusters.", show_default=False)
]
Outliers = Annotated[
    str,
    typer.Option(
        "-z", "--outliers", help="How many rows are outliers: 100, or 2%.", show_default=False
    ),
]
OutliersOrAuto = Annotated[
    str,
    typer.Option(
        "-z",
        "--outliers",
        help="How many rows are outliers: 100, or 2%; or auto, which counts rows that stand "
        "apart (about ten times as long).",
        show_default=False,
    ),
]
Files = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV (also .gz), Parquet, Feather or NPY; text with a header. A folder or a "
        "pattern such as 'data/*.parquet' (in quotes), or a file of 1 GiB or more, stays on disk: "
        "it is read piece by piece, as often as needed.",
        show_default=False,
    ),
]
OnDisk = Annotated[
    Optional[bool],
    typer.Option(
        "--on-disk/--in-memory",
        help="Whether rows stay on disk (by default large files, folders and patterns do); never "
        "changes the result.",
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    Optional[str],
    typer.Option(
        help="How much memory may be used, such as '2 GB'; rows stay on disk then (half of the "
        "machine's by default)."
    ),
]
Checkpoint = Annotated[
    Optional[Path],
    typer.Option(
        help="A file to keep how far the fit has come: the same command goes on from there."
    ),
]
Columns = Annotated[
    Optional[str],
    typer.Option(help="Columns to cluster, separated by commas (all by default)."),
]
Exclude = Annotated[
    Optional[str],
    typer.Option(help="Columns to leave out, such as an id, separated by commas."),
]
Delimiter = Annotated[
    Optional[str],
    typer.Option(help="What separates values in text files (, or tab by default)."),
]
Header = Annotated[
    Optional[bool],
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of text names the columns (unless it holds only numbers).",
        show_default=False,
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing or infinite values.")
]
Scale = Annotated[
    str,
    typer.Option(
        help="none, standard (mean, deviation) or robust (median, quartiles; outliers cannot "
        "spoil it)."
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Threads = Annotated[
    Optional[int],
    typer.Option(help="Threads to use (all cores by default); never changes the result."),
]
Output = Annotated[
    Optional[Path],
    typer.Option(
        "-o",
        "--output",
        help="Write all rows with label, nearest_cluster and outlier_score (where rows stay on "
        "disk, these three columns alone).",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that exist.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Only do the work; print errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
