"""Files as UCI packs them: an encoder of Unix `compress`, and small files that count as published.

The encoder follows the program's own order of steps: write a code, widen the codes if the
table has outgrown them, then enter a string.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import zipfile

from robust_kmeans.datasets import sources

CLEAR = 256


def compress(data, most_width=16, block_mode=True, clear_every=None):
    """The bytes of ``compress -b most_width``, which empties the table every so many codes."""
    writer = _Codes()
    first_free = 257 if block_mode else 256
    known = {bytes([byte]): byte for byte in range(256)}
    n_since_clear = 0
    string = b""
    for byte in data:
        longer = string + bytes([byte])
        if longer in known:
            string = longer
            continue
        n_known = len(known) - 256 + first_free
        writer.write(known[string], n_known, most_width)
        if n_known < 2**most_width:
            known[longer] = n_known
        n_since_clear += 1
        if block_mode and n_since_clear == clear_every:
            writer.clear()
            known = {bytes([byte]): byte for byte in range(256)}
            n_since_clear = 0
        string = bytes([byte])
    if string:
        writer.write(known[string], len(known) - 256 + first_free, most_width)
    writer.end_group(padded=False)
    return b"\x1f\x9d" + bytes([most_width | (0x80 if block_mode else 0)]) + bytes(writer.out)


class _Codes:
    def __init__(self):
        self.out = bytearray()
        self.width = 9
        self.group = []

    def write(self, code, n_known, most_width):
        self.group.append(code)
        if len(self.group) == 8:
            self.end_group(padded=True)
        # With most_width 9 the program still goes on to 10 bits.
        if n_known > 2**self.width - 1 and self.width < max(most_width, 10):
            self.end_group(padded=True)
            self.width += 1

    def clear(self):
        self.group.append(CLEAR)
        self.end_group(padded=True)
        self.width = 9

    def end_group(self, padded):
        packed = sum(code << (place * self.width) for place, code in enumerate(self.group))
        n_bytes = -(-len(self.group) * self.width // 8)
        if padded and self.group:
            n_bytes = self.width
        self.out += packed.to_bytes(n_bytes, "little")
        self.group = []


def archive(members):
    """A zip archive of these names and contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in members.items():
            writer.writestr(name, content)
    return stream.getvalue()


def packings(name, text):
    """The names under which a file may lie in a folder, each with its contents."""
    return {
        name: text,
        f"{name}.gz": gzip.compress(text),
        f"{name}.Z": compress(text),
        f"{name}.zip": archive({name: text}),
    }


def publish(monkeypatch, key, text, url=None):
    """Let `text` be what is published as the file `key`; returns its entry."""
    file = sources.FILES[key]
    hashed = text if file.hashed == "text" else gzip.compress(text, mtime=0)
    changed = dataclasses.replace(
        file,
        sha256=hashlib.sha256(hashed).hexdigest(),
        most_bytes=len(hashed),
        n_rows=len(text.splitlines()),
        url=file.url if url is None else url,
    )
    monkeypatch.setitem(sources.FILES, key, changed)
    return changed
