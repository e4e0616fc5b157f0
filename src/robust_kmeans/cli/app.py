"""The commands of `robust-kmeans` and their options; the work is done elsewhere.

What does the work is imported by the command that needs it: help and the completion of a
command line should not wait for compilers and numerical libraries.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from robust_kmeans import __version__
from robust_kmeans.cli.options import (
    Checkpoint,
    Clusters,
    Columns,
    Delimiter,
    DropMissing,
    Exclude,
    File,
    Files,
    Force,
    Header,
    Json,
    MemoryLimit,
    OnDisk,
    Outliers,
    OutliersOrAuto,
    Output,
    Quiet,
    Scale,
    Seed,
    Threads,
)
from robust_kmeans.cli.terminal import UserError, clear_errors

if TYPE_CHECKING:
    from robust_kmeans.cli.request import Source
    from robust_kmeans.paper.data import KddFile

app = typer.Typer(
    help="k-means for data that is not clean: finds clusters, and says which rows are outliers.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(
    "fit",
    epilog="[b]Examples[/b]\n\n"
    "robust-kmeans fit data.csv -k 20 -z 2%\n\n"
    "robust-kmeans fit data.csv -k 8 -z 100 --exclude id --scale robust --plot clusters.png\n\n"
    "robust-kmeans fit data.parquet -k 8 -z 1% -o labelled.parquet --model model.npz\n\n"
    "robust-kmeans fit 'data/*.parquet' -k 8 -z 1% --model model.npz --checkpoint half-way.npz",
)
@clear_errors
def fit_command(
    file: Files,
    clusters: Clusters,
    outliers: OutliersOrAuto,
    columns: Columns = None,
    exclude: Exclude = None,
    scale: Scale = "none",
    seed: Seed = 0,
    threads: Threads = None,
    output: Output = None,
    model: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write a model file (.npz) for `predict` and `inspect`."),
    ] = None,
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Draw the clusters: .png, .svg or .pdf."),
    ] = None,
    on_disk: OnDisk = None,
    memory_limit: MemoryLimit = None,
    checkpoint: Checkpoint = None,
    delimiter: Delimiter = None,
    header: Header = None,
    drop_missing: DropMissing = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Cluster a file, or many, and find their outliers."""
    from robust_kmeans.cli import fitting, large
    from robust_kmeans.cli.request import Settings, Targets, Voice
    from robust_kmeans.cli.stored import stays_on_disk

    stays = stays_on_disk(file, on_disk, memory_limit)
    (large.fit if stays else fitting.fit)(
        _source(file, columns, exclude, delimiter, header, drop_missing),
        Settings(
            clusters,
            "auto" if outliers == "auto" else parse_outliers(outliers),
            _known_scaling(scale),
            _seed(seed),
            threads,
            _bytes(memory_limit),
            checkpoint,
        ),
        targets=Targets(output, model, plot, force),
        voice=Voice(quiet, json),
    )


@app.command(
    "predict",
    epilog="[b]Example[/b]\n\nrobust-kmeans predict model.npz new.csv -o labelled.csv",
)
@clear_errors
def predict_command(
    model: Annotated[Path, typer.Argument(help="A file that `fit --model` wrote.")],
    file: Files,
    output: Output = None,
    on_disk: OnDisk = None,
    memory_limit: MemoryLimit = None,
    delimiter: Delimiter = None,
    header: Header = None,
    drop_missing: DropMissing = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Label the rows of a file with a saved model; each row is judged by itself."""
    from robust_kmeans.cli import fitting, large
    from robust_kmeans.cli.request import Targets, Voice
    from robust_kmeans.cli.stored import stays_on_disk

    source = _source(file, None, None, delimiter, header, drop_missing)
    targets, voice = Targets(output, force=force), Voice(quiet, json)
    if stays_on_disk(file, on_disk, memory_limit):
        large.predict(model, source, _bytes(memory_limit), targets=targets, voice=voice)
    else:
        fitting.predict(model, source, targets=targets, voice=voice)


@app.command("inspect", epilog="[b]Example[/b]\n\nrobust-kmeans inspect model.npz")
@clear_errors
def inspect_command(
    model: Annotated[Path, typer.Argument(help="A file that `fit --model` wrote.")],
    json: Json = False,
) -> None:
    """Show what is in a model file."""
    from robust_kmeans.cli.fitting import inspect
    from robust_kmeans.cli.request import Voice

    inspect(model, voice=Voice(json=json))


@app.command(
    "compare",
    epilog="[b]Example[/b]\n\nrobust-kmeans compare data.csv -k 20 -z 2% --scale robust --runs 5",
)
@clear_errors
def compare_command(
    file: File,
    clusters: Clusters,
    outliers: Outliers,
    columns: Columns = None,
    exclude: Exclude = None,
    scale: Scale = "none",
    seed: Seed = 0,
    runs: Annotated[int, typer.Option(help="Runs of each method, with different seeds.")] = 3,
    threads: Threads = None,
    delimiter: Delimiter = None,
    header: Header = None,
    drop_missing: DropMissing = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Try the default, all seedings and scikit-learn's KMeans on a file, side by side."""
    from robust_kmeans.cli.comparing import compare
    from robust_kmeans.cli.request import Voice

    compare(
        _source(file, columns, exclude, delimiter, header, drop_missing),
        clusters,
        parse_outliers(outliers),
        scale=_known_scaling(scale),
        seed=_seed(seed),
        runs=runs,
        threads=threads,
        voice=Voice(quiet, json),
    )


@app.command("demo", epilog="[b]Example[/b]\n\nrobust-kmeans demo --plot demo.png")
@clear_errors
def demo_command(
    plot: Annotated[
        Path, typer.Option(help="Where to draw the picture: .png, .svg or .pdf.")
    ] = Path("robust-kmeans-demo.png"),
    force: Force = False,
    json: Json = False,
) -> None:
    """Cluster generated dirty data, beside scikit-learn's KMeans, and draw both."""
    from robust_kmeans.cli.demonstration import demonstrate
    from robust_kmeans.cli.request import Targets, Voice

    demonstrate(Targets(plot=plot, force=force), voice=Voice(json=json))


@app.command(
    "reproduce",
    epilog="[b]Examples[/b]\n\n"
    "robust-kmeans reproduce\n\n"
    "robust-kmeans reproduce --table shuttle --table kdd --repetitions 3 --jobs 1",
)
@clear_errors
def reproduce_command(
    table: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="synthetic, shuttle, kdd, skin-noise, shuttle-noise, all (the default) or none; "
            "may be given several times.",
            show_default=False,
        ),
    ] = None,
    study: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="coverage, trade-off, bi-criteria, noise, all (the default with all tables) or "
            "none.",
            show_default=False,
        ),
    ] = None,
    repetitions: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Of each method (10 by default, as in the paper)."),
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Processes (one per core by default); never changes the figures."),
    ] = None,
    noise_scale: Annotated[
        float,
        typer.Option(
            help="Of the noisy rows, in standard deviations of each column; the paper names none."
        ),
    ] = 5.0,
    kdd: Annotated[
        str,
        typer.Option(
            help="Which KDD data: 10-percent, full, auto (full if the file is there) or stand-in "
            "(generated, as large as the full file; for times only)."
        ),
    ] = "auto",
    data_home: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of the data files (ROBUST_KMEANS_DATA, or a cache)."),
    ] = None,
    download: Annotated[
        bool,
        typer.Option("--download/--no-download", help="Whether to get files that are missing."),
    ] = True,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Folder for the page, the pictures and the figures."),
    ] = Path("robust-kmeans-paper"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run has measured.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a page and pictures that exist.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run the experiments of the paper again, and show its figures beside ours.

    A run that was interrupted goes on where it stopped.
    """
    from robust_kmeans.cli.paper_order import Order
    from robust_kmeans.cli.reproducing import reproduce
    from robust_kmeans.cli.request import Voice
    from robust_kmeans.paper.data import Choices

    order = Order(
        table or ["all"],
        study or [],
        repetitions,
        Choices(_seed(seed), noise_scale, data_home, download, _known_kdd(kdd)),
        jobs,
        output,
        force,
        fresh,
    )
    reproduce(order, voice=Voice(quiet, json))


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""
    if version:
        typer.echo(f"robust-kmeans {__version__}")
        raise typer.Exit


def parse_outliers(text: str) -> int | float:
    """A number of rows, or a share of them where it ends in %."""
    percent = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*%", text)
    if percent and float(percent[1]) < 100:
        return float(percent[1]) / 100
    if re.fullmatch(r"\d+", text):
        return int(text)
    raise UserError(
        f"-z {text} must be a number of rows, such as 100, or a share below 100 %, such as "
        f"2%; fit takes auto, too."
    )


def _source(
    file: Path,
    columns: str | None,
    exclude: str | None,
    delimiter: str | None,
    header: bool | None,
    drop_missing: bool,
) -> Source:
    from robust_kmeans.cli.request import Source

    # The shell passes a tab only with effort.
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    if delimiter is not None and len(delimiter) != 1:
        raise UserError(f"--delimiter {delimiter!r} must be one character, or tab.")
    return Source(file, columns, exclude or "", delimiter, header, drop_missing)


def _known_scaling(scale: str) -> str:
    from robust_kmeans.scaling import SCALINGS

    if scale not in SCALINGS:
        raise UserError(f"--scale {scale} is unknown; use {', '.join(SCALINGS)}.")
    return scale


def _known_kdd(kdd: str) -> KddFile:
    from robust_kmeans.paper.data import KDD_FILES

    if kdd not in KDD_FILES:
        raise UserError(f"--kdd {kdd} is unknown; use {', '.join(KDD_FILES)}.")
    return kdd  # type: ignore[return-value]


def _bytes(memory_limit: str | None) -> int | str | None:
    """A bare number is one of bytes; text with a unit is for the estimator to read."""
    return int(memory_limit) if memory_limit and memory_limit.isdecimal() else memory_limit


def _seed(seed: int) -> int:
    if not 0 <= seed < 2**32:
        raise UserError(f"--seed {seed} must be between 0 and {2**32 - 1}.")
    return seed
