"""Files of Unix `compress` (``.Z``): Lempel, Ziv and Welch's codes of growing width.

Source: T. A. Welch, *A Technique for High-Performance Data Compression*, IEEE Computer 17
(1984), and the format that `compress` made of it, as gzip still reads it.  A table of at
most 2¹⁶ strings, each a known string and one more byte, is kept as links, so that memory is
bounded whatever the file claims.  Cost: one step in Python per byte, some megabytes a second;
the one file that comes this way has 1.2 MB.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import IO

MAGIC = b"\x1f\x9d"

LEAST_WIDTH = 9
MOST_WIDTH = 16
WIDTH_BITS = 0x1F
BLOCK_MODE = 0x80
UNUSED_FLAGS = 0x60

CLEAR = 256
"""In block mode, the code that empties the table."""

CODES_PER_GROUP = 8


class LZWError(ValueError):
    """What is wrong with a compressed file."""


def decompress(stream: IO[bytes], block_size: int = 2**20) -> Iterator[bytes]:
    """The contents of a ``.Z`` file, in blocks of about `block_size` bytes.

    Parameters
    ----------
    stream : binary file
        At its beginning.
    block_size : int, default=2**20
        A block has fewer bytes than this and one string of the table, at most 2¹⁶.

    Yields
    ------
    bytes

    Raises
    ------
    LZWError
        If the bytes are no such file, or end in the middle of a code.

    Examples
    --------
    >>> import io
    >>> from robust_kmeans.datasets.lzw import decompress
    >>> b"".join(decompress(io.BytesIO(bytes.fromhex("1f9d9061c400"))))
    b'ab'
    """
    block_mode, most_width = _read_header(stream)
    # The string of a code is that of its prefix, then its suffix.
    prefixes = array("H", bytes(2 * 2**MOST_WIDTH))
    suffixes = bytearray(range(256)) + bytearray(2**MOST_WIDTH - 256)
    last_of_empty = CLEAR if block_mode else CLEAR - 1
    last, width, previous, first = last_of_empty, LEAST_WIDTH, -1, 0
    output = bytearray()
    while group := stream.read(width):
        packed = int.from_bytes(group, "little")
        n_codes, left_over = divmod(8 * len(group), width)
        # Fewer than eight bits fill the last byte, and may be anything.
        if left_over >= 8:
            raise LZWError("it ends in the middle of a code")
        mask = 2**width - 1
        # The codes come in groups of eight; where the width changes, what is left of a group
        # is skipped, as the machine instruction that once read it did.
        for _ in range(n_codes):
            code = packed & mask
            packed >>= width
            if code == CLEAR and block_mode:
                last, width, previous = last_of_empty, LEAST_WIDTH, -1
                break
            if previous < 0:
                if code >= CLEAR:
                    raise LZWError(f"the code {code} comes before its string is known")
                first = code
                output.append(code)
                previous = code
                continue
            is_new = code == last + 1 and last < 2**most_width - 1
            if code > last and not is_new:
                raise LZWError(f"the code {code} comes before its string is known")
            # A code may be used by the very step that defines it: its string is then the
            # previous one and that one's own first byte.
            string = bytearray([first]) if is_new else bytearray()
            link = previous if is_new else code
            while link >= 256:
                string.append(suffixes[link])
                link = prefixes[link]
            first = link
            string.append(link)
            string.reverse()
            output += string
            if last < 2**most_width - 1:
                last += 1
                prefixes[last], suffixes[last] = previous, first
            previous = code
            if len(output) >= block_size:
                yield bytes(output)
                output.clear()
            if last == mask and width < most_width:
                width += 1
                break
    yield bytes(output)


def _read_header(stream: IO[bytes]) -> tuple[bool, int]:
    header = stream.read(3)
    if len(header) < 3 or not header.startswith(MAGIC):
        raise LZWError(f"it does not begin with {MAGIC.hex()} and a byte of flags")
    flags = header[2]
    most_width = flags & WIDTH_BITS
    if flags & UNUSED_FLAGS or not LEAST_WIDTH <= most_width <= MOST_WIDTH:
        raise LZWError(f"its flags {flags:#04x} are none that `compress` writes")
    # `compress -b 9` moves on to ten bits like any other: it compares too late.
    return bool(flags & BLOCK_MODE), max(most_width, LEAST_WIDTH + 1)
