"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NAME_LETTERS = 40
"""How much of a file's name its temporary name repeats: folders limit the length of names."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path`, which takes its place when the block ends well.

    Whoever reads `path` meanwhile sees the old file or the new one, never a part.  If the
    block raises anything, the temporary file is removed and `path` is left as it was.

    Parameters
    ----------
    path : path-like
        The file to write or to replace; where it is a link, the file that it points to.

    Yields
    ------
    Path
        An empty file in the same folder and with the same suffix, to be written and closed.

    Raises
    ------
    FileNotFoundError
        If the folder of `path` does not exist.
    IsADirectoryError
        If `path` is a folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from robust_kmeans.safe_files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "labels.csv"
    ...     with replacing(target) as temporary:
    ...         _ = temporary.write_text("label")
    ...     target.read_text(), len(list(Path(folder).iterdir()))
    ('label', 1)
    """
    with replacing_all([path]) as (temporary,):
        yield temporary


@contextmanager
def replacing_all(
    paths: Sequence[str | os.PathLike[str]], *, overwrite: bool = True
) -> Iterator[list[Path]]:
    """As `replacing`, for several files that appear together or not at all.

    With ``overwrite=False`` a file that exists by then is kept, and FileExistsError raised.
    """
    targets = [_writable(path) for path in paths]
    temporaries = [_temporary_name(target) for target in targets]
    placed: list[Path] = []
    try:
        for temporary, target in zip(temporaries, targets, strict=True):
            _create(temporary, target)
        yield temporaries
        for temporary in temporaries:
            _flush(temporary)
        for temporary, target in zip(temporaries, targets, strict=True):
            _place(temporary, target, overwrite=overwrite)
            placed.append(target)
    except BaseException:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        if not overwrite:
            # None of them was there before.
            for target in placed:
                target.unlink(missing_ok=True)
        raise
    for folder in {target.parent for target in targets}:
        _flush_folder(folder)


def _temporary_name(target: Path) -> Path:
    start = target.name[:NAME_LETTERS]
    return target.with_name(f".{start}.{secrets.token_hex(8)}.tmp{target.suffix}")


def _place(temporary: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        # Unlike a rename, a link fails if somebody else has been faster.
        os.link(temporary, target)
    except FileExistsError:
        raise FileExistsError(f"{str(target)!r} exists by now; it was left as it is.") from None
    except OSError:
        # A file system without links.
        if target.exists():
            raise FileExistsError(f"{str(target)!r} exists by now; it was left as it is.") from None
        os.replace(temporary, target)
        return
    temporary.unlink()


def _writable(path: str | os.PathLike[str]) -> Path:
    # Replacing a link would leave the file that it points to as it was.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder; give the name of a file in it.")
    # Replacing a device or a pipe would destroy it instead of writing to it.
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)!r} is not a regular file; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{os.fspath(path)!r} cannot be written: there is no folder {str(target.parent)!r}. "
            f"Create it first, or choose another one."
        )
    return target


def _create(temporary: Path, target: Path) -> None:
    try:
        # 0o666 less the umask is what `open` gives; the functions of `tempfile` give 0o600.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except PermissionError:
        raise PermissionError(
            f"{str(target)!r} cannot be written: no files may be created in its folder. Choose "
            f"another folder, or change its permissions."
        ) from None


def _flush(file: Path) -> None:
    """Wait until the file is on the disk: a rename may get there before the contents do."""
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())


def _flush_folder(folder: Path) -> None:
    # Not every system can open a folder, and the file is complete either way.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
