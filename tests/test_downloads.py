"""A download leaves the published file or none, and goes on where an earlier one broke off."""

from __future__ import annotations

import gzip
import logging
import random
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from robust_kmeans.datasets import DataFileError, download, load_kddcup, load_shuttle, load_skin
from tests.packing import archive, compress, publish

NAME = "skin+segmentation.zip"


class Server:
    """What a server sends, how it misbehaves, and what it was asked."""

    def __init__(self):
        self.content = b""
        self.status = 200
        self.knows_ranges = True
        self.says_length = True
        self.breaks_after = None
        self.wrong_range = False
        self.requests = []
        self.n_sent = 0

    def answer(self, handler):
        wanted = handler.headers.get("Range")
        self.requests.append(wanted)
        first, status = 0, self.status
        if wanted and self.knows_ranges:
            first, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            if first >= len(self.content):
                handler.send_error(416)
                return
        body = self.content[first:]
        handler.send_response(status)
        if self.says_length:
            handler.send_header("Content-Length", str(len(body)))
        if status == 206:
            shown = first + 1 if self.wrong_range else first
            size = len(self.content)
            handler.send_header("Content-Range", f"bytes {shown}-{size - 1}/{size}")
        handler.end_headers()
        body = body[: self.breaks_after]
        handler.wfile.write(body)
        self.n_sent += len(body)


@pytest.fixture
def server(monkeypatch):
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.answer(self)

        def log_message(self, *arguments):
            pass

    # A proxy of the environment would not find a server on this machine.
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        state.url = f"http://127.0.0.1:{listening.server_port}/files/"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        listening.shutdown()
        thread.join()


@pytest.fixture
def skin(server, monkeypatch):
    """A small Skin_NonSkin.txt, which the server has; stored, so that its size is known."""
    random_bytes = random.Random(0).choices(range(256), k=3000)
    rows = np.reshape(random_bytes, (-1, 3))
    text = "".join(f"{b}\t{g}\t{r}\t1\r\n" for b, g, r in rows).encode()
    publish(monkeypatch, "skin", text, server.url + NAME)
    monkeypatch.setattr(download, "BLOCK_SIZE", 500)
    server.content = archive({"Skin_NonSkin.txt": text})
    return rows


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def load(folder, **options):
    return load_skin(data_home=folder, **options).X


def break_off(server, folder, n_bytes=1200):
    """Leave the first `n_bytes` of a transfer in `folder`."""
    server.breaks_after = n_bytes
    with pytest.raises(ConnectionError, match=r"broke off after 1,\d+ of \d+ bytes; call again"):
        load(folder)
    server.breaks_after = None
    assert names(folder) == [f"{NAME}.part"]
    assert (folder / f"{NAME}.part").read_bytes() == server.content[:n_bytes]


def test_a_missing_file_is_downloaded_once(server, skin, tmp_path):
    folder = tmp_path / "new" / "folder"
    np.testing.assert_array_equal(load(folder), skin)
    assert names(folder) == [NAME]
    np.testing.assert_array_equal(load(folder), skin)
    assert server.requests == [None]


def test_progress_is_told_and_logged(server, skin, tmp_path, caplog):
    told = []
    with caplog.at_level(logging.INFO, logger="robust_kmeans"):
        load(tmp_path, callback=told.append)
    sizes = [progress.n_bytes for progress in told]
    assert sizes == sorted(set(sizes))
    assert len(sizes) > 3
    assert sizes[-1] == len(server.content)
    assert {(progress.name, progress.n_total) for progress in told} == {(NAME, sizes[-1])}
    assert [server.url + NAME in message for message in caplog.messages] == [True, False]


def test_without_leave_nothing_is_downloaded(server, skin, tmp_path):
    with pytest.raises(FileNotFoundError, match="download_if_missing=True"):
        load(tmp_path, download_if_missing=False)
    assert server.requests == []
    assert names(tmp_path) == []


def test_a_transfer_that_broke_off_is_continued(server, skin, tmp_path):
    break_off(server, tmp_path)
    told = []
    np.testing.assert_array_equal(load(tmp_path, callback=told.append), skin)
    assert names(tmp_path) == [NAME]
    assert server.requests == [None, "bytes=1200-"]
    assert server.n_sent == len(server.content)
    assert told[0].n_bytes > 1200
    assert told[-1].n_bytes == told[-1].n_total == len(server.content)


def test_a_server_without_ranges_sends_everything_again(server, skin, tmp_path):
    break_off(server, tmp_path)
    server.knows_ranges = False
    np.testing.assert_array_equal(load(tmp_path), skin)
    assert names(tmp_path) == [NAME]
    assert (tmp_path / NAME).read_bytes() == server.content
    assert server.n_sent == len(server.content) + 1200


def test_an_answer_from_another_place_is_not_taken(server, skin, tmp_path):
    break_off(server, tmp_path)
    server.wrong_range = True
    np.testing.assert_array_equal(load(tmp_path), skin)
    assert server.requests == [None, "bytes=1200-", None]


@pytest.mark.parametrize("n_more", [0, 10])
def test_a_part_with_all_there_is_begins_anew(server, skin, tmp_path, n_more):
    (tmp_path / f"{NAME}.part").write_bytes(server.content + bytes(n_more))
    np.testing.assert_array_equal(load(tmp_path), skin)
    assert names(tmp_path) == [NAME]
    assert (tmp_path / NAME).read_bytes() == server.content
    assert server.requests[-1] is None


def test_a_part_of_something_else_is_refused_and_removed(server, skin, tmp_path):
    (tmp_path / f"{NAME}.part").write_bytes(b"something else" * 10)
    with pytest.raises(DataFileError, match="Nothing was kept"):
        load(tmp_path)
    assert names(tmp_path) == []
    np.testing.assert_array_equal(load(tmp_path), skin)


@pytest.mark.parametrize("place", [0, 100, 1500, -10])
def test_a_corrupted_transfer_leaves_nothing(server, skin, tmp_path, place):
    corrupted = bytearray(server.content)
    corrupted[place] ^= 0x40
    server.content = bytes(corrupted)
    with pytest.raises(DataFileError, match=r"'Skin_NonSkin\.txt' as it was published") as caught:
        load(tmp_path)
    assert server.url + NAME in str(caught.value)
    assert "expected" in str(caught.value)
    assert names(tmp_path) == []


def test_a_page_in_place_of_the_file_leaves_nothing(server, skin, tmp_path):
    server.content = b"<html>Please log in.</html>"
    with pytest.raises(DataFileError, match="as it was published"):
        load(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("breaks_after", [None, 1000])
def test_a_length_that_nobody_says_is_found_out_by_the_check(server, skin, tmp_path, breaks_after):
    server.says_length = False
    server.breaks_after = breaks_after
    if breaks_after is None:
        np.testing.assert_array_equal(load(tmp_path), skin)
        return
    with pytest.raises(DataFileError, match="Nothing was kept"):
        load(tmp_path)
    assert names(tmp_path) == []


def test_whoever_sends_too_much_is_cut_short(server, skin, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MOST_BYTES", 1000)
    with pytest.raises(DataFileError, match="more than 1,000 bytes"):
        load(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("status", [404, 403, 500, 503])
def test_an_answer_of_failure_says_where_to_get_the_file(server, skin, tmp_path, status):
    server.status = status
    with pytest.raises(ConnectionError, match=f"answered {status}") as caught:
        load(tmp_path)
    for part in ("Skin_NonSkin.txt", str(tmp_path), server.url + NAME, repr(NAME)):
        assert part in str(caught.value)
    assert names(tmp_path) == []


def test_without_a_network_the_error_says_where_to_get_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/{NAME}"
    publish(monkeypatch, "skin", b"1\t2\t3\t1\r\n", url)
    with pytest.raises(ConnectionError, match=r"not reached.*refused") as caught:
        load(tmp_path)
    for part in ("Skin_NonSkin.txt", str(tmp_path), url, "ROBUST_KMEANS_DATA"):
        assert part in str(caught.value)
    assert names(tmp_path) == []


def test_a_server_that_falls_silent_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{NAME}"
        publish(monkeypatch, "skin", b"1\t2\t3\t1\r\n", url)
        with pytest.raises(ConnectionError, match="timed out"):
            load(tmp_path)
    assert names(tmp_path) == []


def test_an_interrupted_transfer_is_continued(server, skin, tmp_path):
    def interrupt(progress):
        if progress.n_bytes > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(tmp_path, callback=interrupt)
    assert names(tmp_path) == [f"{NAME}.part"]
    np.testing.assert_array_equal(load(tmp_path), skin)
    assert server.requests[1].startswith("bytes=1")
    assert names(tmp_path) == [NAME]


def test_a_folder_that_cannot_be_made_is_said(server, skin, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="could not be downloaded"):
        load(tmp_path / "file" / "folder")


def test_both_parts_of_shuttle_come_in_one_archive(server, tmp_path, monkeypatch):
    url = server.url + "statlog+shuttle.zip"
    train, test = b"1 2 3 4 5 6 7 8 9 1\n", b"9 8 7 6 5 4 3 2 1 7\n"
    publish(monkeypatch, "shuttle train", train, url)
    publish(monkeypatch, "shuttle test", test, url)
    server.content = archive(
        {"Index": b"", "shuttle.trn.Z": compress(train), "shuttle.tst": test, "shuttle.doc": b""}
    )
    data = load_shuttle("all", data_home=tmp_path)
    assert data.target.tolist() == [1, 7]
    assert data.paths == (tmp_path / "statlog+shuttle.zip",)
    assert server.requests == [None]


@pytest.mark.parametrize("subset", ["10 percent", "full"])
def test_kddcup_is_kept_as_the_packed_file(server, tmp_path, monkeypatch, subset):
    text = f"{','.join(['0'] * 41)},normal.\n".encode()
    name = {"10 percent": "kddcup.data_10_percent.gz", "full": "kddcup.data.gz"}[subset]
    publish(monkeypatch, f"kddcup {subset}", text, f"{server.url}5976042")
    server.content = gzip.compress(text, mtime=0)
    assert load_kddcup(subset, data_home=tmp_path).paths == (tmp_path / name,)
    assert (tmp_path / name).read_bytes() == server.content
