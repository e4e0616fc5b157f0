"""The text in a file, whatever it is packed in: nothing, gzip, compress, or a zip archive.

What a file is, its first bytes say, not its name.  All reading goes in blocks, so that a file
that unpacks without end costs no memory.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from robust_kmeans.datasets import lzw

BLOCK_SIZE = 2**20

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK"

MEMBER_SUFFIXES = ("", ".gz", ".Z")

# All that unpacking raises on bytes that are not what they claim; OSError comes from seeking to
# where there is nothing.
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


class DataFileError(ValueError):
    """A data file that is damaged, or another one than its name says."""


def text_blocks(path: Path, name: str) -> Generator[bytes, None, None]:
    """The text of the file `name`, which `path` is, packs, or holds in an archive."""
    with path.open("rb") as file, _faults_named(path), _member(file, name) as stream:
        yield from _unpacked(stream)


def packed_blocks(path: Path, name: str) -> Generator[bytes, None, None]:
    """The file itself, still packed, or the member `name` of an archive."""
    with path.open("rb") as file, _faults_named(path), _member(file, name) as stream:
        yield from _blocks(stream)


def digest(blocks: Iterable[bytes], most_bytes: int) -> str:
    """SHA-256 of all blocks; once there are more than `most_bytes`, no more are read."""
    found = hashlib.sha256()
    n_bytes = 0
    for block in blocks:
        n_bytes += len(block)
        if n_bytes > most_bytes:
            return f"that of more than {most_bytes:,} bytes"
        found.update(block)
    return found.hexdigest()


@contextmanager
def _member(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The file, or if it is a zip archive, its member `name`, in whatever folder and packing."""
    if _begins_with(file) != ZIP_MAGIC:
        yield file
        return
    with zipfile.ZipFile(file) as archive, archive.open(_find_member(archive, name)) as stream:
        yield stream


def _find_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    members = {Path(member.filename).name: member for member in archive.infolist()}
    for suffix in MEMBER_SUFFIXES:
        member = members.get(name + suffix)
        if member is not None and member.compress_type in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            return member
    raise DataFileError(f"the archive has no readable {name!r} in it")


def _unpacked(stream: IO[bytes]) -> Iterator[bytes]:
    magic = _begins_with(stream)
    if magic == lzw.MAGIC:
        yield from lzw.decompress(stream, BLOCK_SIZE)
        return
    if magic == GZIP_MAGIC:
        with gzip.GzipFile(fileobj=stream) as unzipped:
            yield from _blocks(unzipped)
        return
    yield from _blocks(stream)


def _blocks(stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while block := stream.read(BLOCK_SIZE):
        yield block


def _begins_with(stream: IO[bytes]) -> bytes:
    magic = stream.read(2)
    stream.seek(0)
    return magic


@contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    try:
        yield
    except FAULTS as fault:
        reason = str(fault) or type(fault).__name__
        raise DataFileError(f"{str(path)!r} cannot be unpacked: {reason}.") from fault
