"""Memory for what is kept per row: RAM up to a limit, and files beyond it.

Files are mapped: the system writes their pages to the disk when it needs the memory, and reads
them again when they are looked at.  They have no name, so that nothing is left behind however
the process ends.  Their room is claimed at once: a full disk is an error when memory is asked
for, never a crash when it is used.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
import weakref
from collections import deque
from threading import Lock
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Arrays share files of at least this size: a process may map only so many.
FILE_BYTES = 2**26
# Arrays in RAM from this size on are mapped each by itself.
LEAST_MAPPED = 2**16
# Arrays begin at multiples of this, a cache line.
ALIGNMENT = 64


class Budget:
    """Arrays in RAM as long as they take no more than `limit` bytes, others in mapped files.

    Parameters
    ----------
    limit : int
    folder : str, optional
        Where files are made; by default the system's folder for temporary files.

    Attributes
    ----------
    most_in_ram, in_files : int
        Bytes of arrays in RAM at most so far, and bytes of all files ever made.

    Examples
    --------
    >>> import numpy as np
    >>> budget = Budget(limit=1000)
    >>> arrays = [budget.empty((100,), np.float64) for _ in range(2)]
    >>> budget.in_ram, budget.in_files > 0
    (800, True)
    """

    def __init__(self, limit: int, folder: str | None = None) -> None:
        self.limit = limit
        self.most_in_ram = self.in_files = 0
        self._taken = 0
        # Arrays may go at any time, in any thread, even in one that holds the lock: they only
        # leave their size here.
        self._given_back: deque[int] = deque()
        self._folder = folder
        self._lock = Lock()
        self._file: mmap.mmap | None = None
        self._used = 0

    @property
    def in_ram(self) -> int:
        """Bytes of arrays in RAM."""
        with self._lock:
            return self._counted()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array whose memory is given back when nobody has it any more."""
        array = self.empty_in_ram(shape, dtype)
        if array is not None:
            return array
        with self._lock:
            # Made on the file itself, not as a view of another array: NumPy lets views refer to the
            # first array of all, and nobody could tell whether this one is in use.
            n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
            return np.ndarray(shape, dtype, *self._on_file(n_bytes))

    def empty_in_ram(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any] | None:
        """The same, or nothing where there is no room for it in RAM."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        with self._lock:
            if self._counted() + n_bytes > self.limit:
                return None
            self._taken += n_bytes
            self.most_in_ram = max(self.most_in_ram, self._taken)
        array = _in_ram(shape, dtype, n_bytes)
        weakref.finalize(array, self._given_back.append, n_bytes)
        return array

    def _counted(self) -> int:
        while self._given_back:
            self._taken -= self._given_back.popleft()
        return self._taken

    def _on_file(self, n_bytes: int) -> tuple[mmap.mmap, int]:
        """A mapped file, and where in it so many bytes are free."""
        if self._file is None or self._used + n_bytes > len(self._file):
            self._file, self._used = _mapped_file(max(n_bytes, FILE_BYTES), self._folder), 0
            self.in_files += len(self._file)
        start = self._used
        self._used += -(-n_bytes // ALIGNMENT) * ALIGNMENT
        return self._file, start


def _in_ram(shape: tuple[int, ...], dtype: DTypeLike, n_bytes: int) -> NDArray[Any]:
    """An array whose memory goes back to the system with it.

    An allocator keeps what it was given back, in gaps that may be too small for others.
    """
    if n_bytes < LEAST_MAPPED or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(shape, dtype)
    # Private: memory that processes share is counted elsewhere.
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.ndarray(shape, dtype, memory)


def _mapped_file(n_bytes: int, folder: str | None) -> mmap.mmap:
    """So many bytes of a file without a name; its room is free again when nobody has them."""
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="robust-kmeans-") as file:
            _claim(file, n_bytes)
            return mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        where = folder or tempfile.gettempdir()
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(
                error.errno,
                f"what is kept per row does not fit into memory_limit, and no file for it could "
                f"be made in {where!r}: {error.strerror}. Set TMPDIR to a folder that can be "
                f"written to, or raise memory_limit",
            ) from error
        raise OSError(
            error.errno,
            f"what is kept per row does not fit into memory_limit, and the disk of {where!r} has "
            f"no room for {n_bytes / 2**20:.0f} MiB more. Free some, set TMPDIR to a folder on "
            f"another disk, or raise memory_limit",
        ) from error


def _claim(file: IO[bytes], n_bytes: int) -> None:
    """Make sure of the room on the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    # Not every system can be asked for it: what has been written is there.
    zeros = bytes(2**20)
    for start in range(0, n_bytes, len(zeros)):
        file.write(zeros[: n_bytes - start])
    file.flush()
