"""``.npz`` archives that are not trusted: every claim is checked before memory is taken for it.

Only arrays of numbers and text come out, never Python objects, whose loading could run code.
What is wrong with a file is said as one of `FAULTS`, whose `reason` a reader understands.
`write_archive` writes such files, whole or not at all.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, NDArray

from robust_kmeans.safe_files import replacing

KIND_NAMES = {"U": "text", "f": "floats", "i": "integers", "u": "integers", "iu": "integers"}

HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

# Zip reaches about 1000 at best, on data that says nothing.
MOST_EXPANSION = 1000
EXPANSION_ROOM = 2**20

# All that reading an archive, an array or JSON raises on bytes that are not what they claim.
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    LookupError,
    MemoryError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Archive:
    """The arrays of an archive, each checked before it is made."""

    def __init__(self, stream: BinaryIO) -> None:
        size = _check_start(stream)
        self._archive = zipfile.ZipFile(stream)
        members = self._archive.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        self.names = frozenset(self._members)
        if len(self.names) < len(members):
            raise ValueError("it has two entries of the same name")
        total = sum(member.file_size for member in members)
        if total > MOST_EXPANSION * size + EXPANSION_ROOM:
            raise ValueError(f"its {size} bytes claim to hold {total}")

    def text(self, name: str) -> str:
        """One text."""
        return str(self.array(name, "U", 0).item())

    def json(self, name: str) -> dict[str, Any]:
        """One JSON object."""
        try:
            value = json.loads(self.text(name))
        except json.JSONDecodeError as error:
            raise ValueError(f"the entry {name} is not valid JSON ({error})") from None
        if not isinstance(value, dict):
            raise ValueError(f"the entry {name} is not a JSON object")
        return value

    def number(self, name: str) -> int | float:
        """One number."""
        value: int | float = self.array(name, "iuf", 0).item()
        return value

    def integer(self, name: str) -> int:
        """One integer."""
        return int(self.array(name, "iu", 0).item())

    def array_or_none(self, name: str, kinds: str, n_dimensions: int) -> NDArray[Any] | None:
        """An entry as `array` gives it, or None where it is empty."""
        array = self.array(name, kinds, n_dimensions)
        return array if array.size else None

    def array(self, name: str, kinds: str, n_dimensions: int) -> NDArray[Any]:
        """An entry as a fresh array, if it has one of these kinds of dtype."""
        if name not in self._members:
            raise ValueError(f"its entry {name} is missing")
        member = self._members[name]
        # The others are rare, and each has errors of its own.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"the entry {name} is compressed by an unknown method")
        # Reading to the end compares the checksum, so that a header is never damaged below.
        content = self._archive.read(member)
        shape, fortran, dtype, start = _header(name, content)
        if dtype.hasobject:
            raise ValueError(f"the entry {name} holds Python objects (pickle), never loaded")
        if dtype.kind not in kinds or len(shape) != n_dimensions:
            raise ValueError(
                f"the entry {name} is {dtype} of shape {shape}, not "
                f"{KIND_NAMES.get(kinds, 'numbers')} in {n_dimensions} dimensions"
            )
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content) - start:
            raise ValueError(
                f"the entry {name} claims shape {shape} of {dtype} but has "
                f"{len(content) - start} bytes"
            )
        flat = np.frombuffer(content, dtype=dtype, offset=start, count=math.prod(shape))
        array = flat.reshape(shape, order="F" if fortran else "C")
        # In the byte order of this machine and in C order, as the kernels need it.
        native = np.array(array, dtype=dtype.newbyteorder("="), order="C")
        # Python takes it for a fault of its own if a letter is beyond unicode.
        if dtype.kind == "U" and (native.reshape(-1).view(np.uint32) > sys.maxunicode).any():
            raise ValueError(f"the entry {name} is not valid unicode")
        return native


def write_archive(path: str | os.PathLike[str], entries: Mapping[str, ArrayLike]) -> None:
    """Write arrays as an archive; an existing one is replaced only when the new one is complete."""
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name, value in entries.items():
            # A ZipInfo made by name has a fixed date: equal contents give equal bytes.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
                npy.write_array(stream, np.asanyarray(value), allow_pickle=False)


def reason(fault: BaseException) -> str:
    """What a fault says about a file, in words."""
    if isinstance(fault, zipfile.BadZipFile | zlib.error | struct.error | EOFError | OSError):
        return f"it is cut off or its bytes have changed ({fault})"
    return str(fault).rstrip(".") or type(fault).__name__


def _check_start(stream: BinaryIO) -> int:
    """The size of the file, if it starts like an archive."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    start = stream.read(6)
    stream.seek(0)
    if not size:
        raise ValueError("it is empty")
    if start == npy.MAGIC_PREFIX:
        raise ValueError("it is a single .npy array")
    if not start.startswith(b"PK"):
        raise ValueError("it is not a zip archive, as .npz files are")
    return size


def _header(name: str, content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether in Fortran order, dtype, and where the values start."""
    stream = io.BytesIO(content)
    try:
        version = npy.read_magic(stream)
        if version not in HEADER_READERS:
            raise ValueError(f"version {version} of .npy")
        shape, fortran, dtype = HEADER_READERS[version](stream)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError) as error:
        raise ValueError(f"the entry {name} has no valid header ({error})") from error
    return shape, fortran, dtype, stream.tell()
