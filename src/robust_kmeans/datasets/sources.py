"""Which files there are, where they are kept, and where they come from.

A file is known by the SHA-256 of its text, so that it may be packed in any way.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from robust_kmeans.datasets.download import DownloadCallback, download
from robust_kmeans.datasets.packed import DataFileError, digest, packed_blocks, text_blocks

FOLDER_VARIABLE = "ROBUST_KMEANS_DATA"

PACKINGS = ("", ".gz", ".Z", ".zip")


@dataclass(frozen=True)
class Published:
    """A file as its publisher describes it.

    Attributes
    ----------
    name : str
        Its name when unpacked.
    sha256 : str
    hashed : {"text", "packed"}
        Of what: of the text, or where nobody has published that, of the ``.gz`` file; such a
        file is taken in that packing only.
    most_bytes : int
        Of what is hashed: a file that unpacks to more is not read to its end.
    n_rows : int
    url : str
        A file of its own, or an archive that holds it.
    archive : str
        The name of that archive, or of another one that holds it.
    """

    name: str
    sha256: str
    hashed: Literal["text", "packed"]
    most_bytes: int
    n_rows: int
    url: str
    archive: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it goes by in a folder of data, in the order of search."""
        packings = PACKINGS if self.hashed == "text" else (".gz",)
        return (*(self.name + packing for packing in packings), self.archive)

    @property
    def saved_as(self) -> str:
        """The name under which a download is kept."""
        return self.archive if self.url.endswith(".zip") else f"{self.name}.gz"


_SHUTTLE_URL = "https://archive.ics.uci.edu/static/public/148/statlog+shuttle.zip"

FILES = {
    "shuttle train": Published(
        name="shuttle.trn",
        sha256="87b24ee9fb5137e1d417659cf905d84d0e15342bbaa60770f1ae83da1a38200a",
        hashed="text",
        most_bytes=1_153_518,
        n_rows=43_500,
        url=_SHUTTLE_URL,
        archive="statlog+shuttle.zip",
    ),
    "shuttle test": Published(
        name="shuttle.tst",
        sha256="f776934a628d9b94c482cb058a76ddaa63823e0f74aec065813c9dff3b89d661",
        hashed="text",
        most_bytes=384_257,
        n_rows=14_500,
        url=_SHUTTLE_URL,
        archive="statlog+shuttle.zip",
    ),
    "skin": Published(
        name="Skin_NonSkin.txt",
        sha256="e30c0a845385dcc95a45c45ed263465674a49638e98ef740afd520769c7714a4",
        hashed="text",
        most_bytes=3_400_818,
        n_rows=245_057,
        url="https://archive.ics.uci.edu/static/public/229/skin+segmentation.zip",
        archive="skin+segmentation.zip",
    ),
    # The copies that scikit-learn's fetch_kddcup99 uses: UCI's archive of everything is large.
    "kddcup 10 percent": Published(
        name="kddcup.data_10_percent",
        sha256="f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a",
        hashed="text",
        most_bytes=74_889_749,
        n_rows=494_021,
        url="https://ndownloader.figshare.com/files/5976042",
        archive="kdd+cup+1999+data.zip",
    ),
    "kddcup full": Published(
        name="kddcup.data",
        sha256="3b6c942aa0356c0ca35b7b595a26c89d343652c9db428893e7494f837b274292",
        hashed="packed",
        most_bytes=2**30,
        n_rows=4_898_431,
        url="https://ndownloader.figshare.com/files/5976045",
        archive="kdd+cup+1999+data.zip",
    ),
}


def obtain(
    file: Published,
    data_home: str | os.PathLike[str] | None,
    *,
    download_if_missing: bool,
    callback: DownloadCallback | None,
) -> Path:
    """Where `file` is, checked; downloaded first if it is nowhere and that is wanted."""
    folder = data_folder(data_home)
    for name in file.names:
        path = folder / name
        if path.is_file():
            check(file, path)
            return path
    advice = (
        f"Get it from {file.url} and put it there as {file.saved_as!r}, or name the folder that "
        f"has it with data_home or the environment variable {FOLDER_VARIABLE}."
    )
    if not download_if_missing:
        raise FileNotFoundError(
            f"{file.name!r} is not in {str(folder)!r}, which was searched for "
            f"{', '.join(file.names)}. {advice} With download_if_missing=True this is done for "
            f"you."
        )
    path = folder / file.saved_as
    try:
        download(file.url, path, partial(_check_download, file), callback)
    except OSError as error:
        kind = ConnectionError if isinstance(error, ConnectionError) else OSError
        raise kind(
            f"{file.name!r} is not in {str(folder)!r}, and could not be downloaded: {error}. "
            f"{advice}"
        ) from error
    return path


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """`data_home`, else what the environment names, else a folder in the user's cache."""
    named = data_home or os.environ.get(FOLDER_VARIABLE)
    if named:
        folder = Path(named).expanduser()
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG specification: a path that is not absolute is to be ignored.
        parent = cache if cache.is_absolute() else Path.home() / ".cache"
        folder = parent / "robust-kmeans"
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is a file; name the folder that data is in.")
    return folder


def check(file: Published, path: Path) -> None:
    """Raise DataFileError if `path` does not hold `file`."""
    advice = f"Delete it, and get it again from {file.url} (the next call can do it)."
    try:
        found = _digest(file, path)
    except DataFileError as error:
        raise DataFileError(f"{error} {advice}") from error
    if found != file.sha256:
        what = "text" if file.hashed == "text" else ".gz file"
        raise DataFileError(
            f"{str(path)!r} does not hold {file.name!r} as it was published: the SHA-256 of its "
            f"{what} is {found}, expected {file.sha256}. {advice}"
        )


def _check_download(file: Published, temporary: Path) -> None:
    try:
        found = _digest(file, temporary)
    except DataFileError as error:
        found = f"unknown ({error.__cause__ or error})"
    if found != file.sha256:
        raise DataFileError(
            f"What {file.url} sent is not {file.name!r} as it was published: its SHA-256 is "
            f"{found}, expected {file.sha256}. Nothing was kept. Call again to try once more, or "
            f"get the file elsewhere."
        )


def _digest(file: Published, path: Path) -> str:
    read = text_blocks if file.hashed == "text" else packed_blocks
    with closing(read(path, file.name)) as blocks:
        return digest(blocks, file.most_bytes)
