"""Text comes out of a file as it went in, however it is packed; damage is said, never passed on."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import subprocess
import tracemalloc
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_kmeans.datasets import DataFileError, packed
from robust_kmeans.datasets.lzw import LZWError, decompress
from robust_kmeans.datasets.packed import digest, packed_blocks, text_blocks
from tests.packing import archive, compress, packings

WIDTHS = range(9, 17)


@st.composite
def texts(draw):
    """Of few letters, so that strings repeat; long enough for the codes to widen."""
    letters = draw(st.integers(1, 256))
    n_bytes = draw(st.sampled_from([0, 1, 2, 7, 8, 9, 300, 2000, 6000]))
    seed = draw(st.integers(0, 2**31 - 1))
    return bytes(random.Random(seed).choices(range(letters), k=n_bytes))


def unpack(data, block_size=2**20):
    return b"".join(decompress(io.BytesIO(data), block_size))


def text_or_error(path):
    try:
        return b"".join(text_blocks(path, "table.txt"))
    except DataFileError as error:
        return error


@given(texts(), st.sampled_from(WIDTHS), st.booleans(), st.sampled_from([None, 1, 5, 300, 900]))
def test_decompressing_undoes_compressing(text, most_width, block_mode, clear_every):
    assert unpack(compress(text, most_width, block_mode, clear_every)) == text


@given(st.binary(max_size=200), st.integers(1, 50))
def test_the_size_of_blocks_changes_nothing(text, block_size):
    assert unpack(compress(text), block_size) == text


@pytest.mark.skipif(shutil.which("gzip") is None, reason="there is no gzip to compare with")
@pytest.mark.parametrize("most_width", [9, 10, 13, 16])
@pytest.mark.parametrize("block_mode", [True, False])
def test_the_encoder_of_these_tests_writes_what_gzip_reads(most_width, block_mode):
    text = bytes(random.Random(0).choices(b"0123 \n", k=150_000))
    data = compress(text, most_width, block_mode, clear_every=20_000)
    done = subprocess.run(["gzip", "-dc"], input=data, capture_output=True, check=True)
    assert done.stdout == text
    assert unpack(data) == text


@given(st.binary(max_size=300), st.sampled_from([0x89, 0x8C, 0x90, 0x10]))
def test_arbitrary_codes_give_bytes_or_the_error(data, flags):
    with suppress(LZWError):
        assert len(unpack(b"\x1f\x9d" + bytes([flags]) + data)) <= (8 * len(data)) ** 2


@pytest.mark.parametrize("header", [b"", b"\x1f", b"\x1f\x9d", b"\x1f\x8b\x90", b"text"])
def test_a_file_without_the_header_is_refused(header):
    with pytest.raises(LZWError, match="does not begin with 1f9d"):
        unpack(header)


@pytest.mark.parametrize("flags", [0x88, 0x91, 0x80, 0xB0, 0xD0, 0x9F])
def test_flags_that_mean_nothing_are_refused(flags):
    with pytest.raises(LZWError, match=f"{flags:#04x}"):
        unpack(b"\x1f\x9d" + bytes([flags]) + b"abc")


def test_a_code_that_is_cut_is_refused():
    # Each code of nine bits has its last bit in a byte of its own.
    data = compress(b"ab")
    assert unpack(data) == b"ab"
    with pytest.raises(LZWError, match="middle of a code"):
        unpack(data[:4])


@pytest.mark.parametrize("codes", [[257], [300, 97], [97, 258], [97, 98, 259], [97, 256, 257]])
def test_codes_before_their_strings_are_refused(codes):
    groups, group = [], []
    for code in codes:
        group.append(code)
        if code == 256:
            groups.append((group, 9))
            group = []
    groups.append((group, -(-9 * len(group) // 8)))
    data = b"".join(
        sum(code << (9 * place) for place, code in enumerate(group)).to_bytes(n_bytes, "little")
        for group, n_bytes in groups
    )
    with pytest.raises(LZWError, match="before its string is known"):
        unpack(b"\x1f\x9d\x90" + data)


def test_memory_does_not_grow_with_what_comes_out():
    data = compress(bytes(500_000))
    assert len(data) < 5000
    tracemalloc.start()
    try:
        total = sum(len(block) for block in decompress(io.BytesIO(data), block_size=2**14))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 500_000
    assert peak < 300_000


@given(texts(), st.sampled_from(["", ".gz", ".Z", ".zip"]), st.sampled_from([1, 7, 2**20]))
def test_text_is_the_same_in_every_packing(tmp_path, text, packing, block_size):
    path = tmp_path / "file"
    path.write_bytes(packings("table.txt", b"1" + text)["table.txt" + packing])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "BLOCK_SIZE", block_size)
        assert b"".join(text_blocks(path, "table.txt")) == b"1" + text


@pytest.mark.parametrize("packing", ["", ".gz", ".Z"])
def test_an_archive_may_have_folders_other_members_and_packed_ones(tmp_path, packing):
    content = packings("table.txt", b"1 2\n")["table.txt" + packing]
    path = tmp_path / "all.zip"
    path.write_bytes(archive({"Index": b"-", f"data/table.txt{packing}": content}))
    assert b"".join(text_blocks(path, "table.txt")) == b"1 2\n"
    assert b"".join(packed_blocks(path, "table.txt")) == content


@given(
    st.sampled_from([b"\x1f\x8b", b"\x1f\x8b\x08\x00", b"\x1f\x9d\x90", b"PK", b"PK\x03\x04", b""]),
    st.binary(max_size=200),
)
def test_arbitrary_bytes_give_text_or_the_error(tmp_path, magic, data):
    path = tmp_path / "file"
    path.write_bytes(magic + data)
    result = text_or_error(path)
    assert isinstance(result, bytes) or str(path) in str(result)


@given(
    st.sampled_from([".gz", ".Z", ".zip"]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=3),
)
def test_damage_gives_another_text_or_the_error(tmp_path, packing, flips):
    text = b"50 21 77 0 28\n55 0 92 0 0\n" * 20
    data = bytearray(packings("table.txt", text)["table.txt" + packing])
    for place, flip in flips:
        data[place % len(data)] ^= flip
    path = tmp_path / "file"
    path.write_bytes(data)
    result = text_or_error(path)
    assert isinstance(result, bytes) or str(path) in str(result)


@pytest.mark.parametrize("packing", [".gz", ".zip"])
def test_a_file_that_is_cut_is_refused(tmp_path, packing):
    path = tmp_path / f"table.txt{packing}"
    data = packings("table.txt", b"50 21 77 0 28\n" * 20)[path.name]
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataFileError, match=r"table\.txt.* cannot be unpacked"):
        b"".join(text_blocks(path, "table.txt"))


def test_an_archive_without_the_file_is_refused(tmp_path):
    path = tmp_path / "all.zip"
    path.write_bytes(archive({"other.txt": b"1"}))
    with pytest.raises(DataFileError, match=r"all\.zip.*no readable 'table\.txt'"):
        b"".join(text_blocks(path, "table.txt"))


def test_members_packed_in_uncommon_ways_are_refused(tmp_path):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as writer:
        writer.writestr("table.txt", b"1")
    with pytest.raises(DataFileError, match=r"no readable 'table\.txt'"):
        b"".join(text_blocks(path, "table.txt"))


def test_files_that_unpack_without_end_are_not_read_to_the_end(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(20_000_000)))
    blocks = text_blocks(path, "table.txt")
    assert "more than 100 bytes" in digest(blocks, 100)
    assert sum(map(len, blocks)) == 20_000_000 - packed.BLOCK_SIZE
