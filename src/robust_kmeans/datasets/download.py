"""Transfers that can be broken off and continued, and that leave a good file or none.

The bytes go to ``<name>.part`` beside the target.  A call that finds such a file asks the
server for the rest of it (HTTP Range); a server that sends everything again is taken at its
word.  The whole is then copied, checked, and only then moved into place.
"""

from __future__ import annotations

import http
import http.client
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from robust_kmeans.datasets.packed import DataFileError
from robust_kmeans.reporting import LOGGER
from robust_kmeans.safe_files import replacing

BLOCK_SIZE = 2**18
TIMEOUT = 60.0
"""Seconds without an answer, or without a byte, before the transfer counts as broken."""

MOST_BYTES = 2**30
"""No file here comes near to it: whoever sends more is not the source that we know."""


@dataclass(frozen=True)
class DownloadProgress:
    """What a callback is told while a file is transferred.

    Attributes
    ----------
    name : str
        The file's name.
    n_bytes : int
        How much of it is here, what an earlier call transferred included.
    n_total : int or None
        How much there is, where the server says so.
    """

    name: str
    n_bytes: int
    n_total: int | None


DownloadCallback = Callable[[DownloadProgress], object]


def download(
    url: str,
    target: Path,
    check: Callable[[Path], None],
    callback: DownloadCallback | None = None,
) -> None:
    """Transfer `url` to `target`, continuing what an earlier call left behind.

    Parameters
    ----------
    url : str
    target : Path
        Its folder is made if need be.
    check : callable
        Given the finished file under a temporary name, raises DataFileError if it is not the
        right one.
    callback : callable, optional
        Given a DownloadProgress after each block.

    Raises
    ------
    ConnectionError
        If the transfer did not begin or broke off; its bytes are kept for the next call.
    DataFileError
        If the file that came is not the right one; nothing of it is kept.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.part")
    partial.touch()
    try:
        with partial.open("rb+") as stream:
            _transfer(url, target.name, stream, callback)
            with replacing(target) as temporary:
                # A copy, so that another process that is busy with the same transfer does not
                # write into the file in place.
                stream.seek(0)
                with temporary.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)
                check(temporary)
    except DataFileError:
        partial.unlink(missing_ok=True)
        raise
    except BaseException:
        if partial.exists() and partial.stat().st_size == 0:
            partial.unlink(missing_ok=True)
        raise
    partial.unlink(missing_ok=True)
    LOGGER.info("%s is in %s", target.name, target.parent)


def _transfer(url: str, name: str, stream: BinaryIO, callback: DownloadCallback | None) -> None:
    """Write what is missing to the end of `stream`, or all of it from its beginning."""
    response, n_bytes = _ask(url, stream.seek(0, os.SEEK_END))
    with response:
        stream.truncate(n_bytes)
        stream.seek(n_bytes)
        n_total = None if response.length is None else n_bytes + response.length
        LOGGER.info("downloading %s from %s, beginning at byte %d", name, url, n_bytes)
        while block := _read(response, n_bytes, n_total):
            stream.write(block)
            n_bytes += len(block)
            if n_bytes > MOST_BYTES:
                raise DataFileError(f"{url} sent more than {MOST_BYTES:,} bytes.")
            LOGGER.debug("%s: %d of %s bytes", name, n_bytes, n_total or "unknown")
            if callback is not None:
                callback(DownloadProgress(name, n_bytes, n_total))


def _ask(url: str, n_have: int) -> tuple[http.client.HTTPResponse, int]:
    """The server's answer, and the byte of the file at which it begins."""
    headers = {"User-Agent": "robust-kmeans"}
    if n_have:
        headers["Range"] = f"bytes={n_have}-"
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT
        )
    except urllib.error.HTTPError as error:
        error.close()
        # More is here than there is, or just as much: what is here cannot be continued.
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and n_have:
            return _ask(url, 0)
        raise ConnectionError(f"the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"the server was not reached ({reason})") from error
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return response, 0
    if response.headers.get("Content-Range", "").startswith(f"bytes {n_have}-"):
        return response, n_have
    response.close()
    if n_have:
        return _ask(url, 0)
    raise ConnectionError("the server answered with a part of the file that nobody asked for")


def _read(response: http.client.HTTPResponse, n_bytes: int, n_total: int | None) -> bytes:
    try:
        block = response.read(BLOCK_SIZE)
    except (OSError, http.client.HTTPException) as error:
        fault: Exception | None = error
    else:
        # A connection that closes early looks like the end of the file.
        if block or n_total is None or n_bytes == n_total:
            return block
        fault = None
    raise ConnectionError(
        f"the transfer broke off after {n_bytes:,} of {n_total or 'unknown'} bytes; call again "
        f"to continue it"
    ) from fault
