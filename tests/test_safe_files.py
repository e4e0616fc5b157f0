"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from robust_kmeans import safe_files
from robust_kmeans.safe_files import replacing, replacing_all


def only_files(folder, *names):
    return sorted(file.name for file in folder.iterdir()) == sorted(names)


def test_a_new_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "table.csv"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert only_files(tmp_path, "table.csv")


def test_an_existing_file_is_replaced_at_the_end_only(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("old")
    with replacing(str(target)) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


@pytest.mark.parametrize("name", ["table.csv", "table", ".hidden", "a.tar.gz", "ü" * 100 + ".png"])
def test_the_temporary_file_is_hidden_beside_the_target_and_keeps_its_suffix(tmp_path, name):
    target = tmp_path / name
    with replacing(target) as temporary:
        assert temporary.parent == target.parent
        assert temporary.name.startswith(".")
        assert temporary.name != name
        assert temporary.name.endswith(f".tmp{target.suffix}")
    assert only_files(tmp_path, name)


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("existed", [True, False])
def test_an_interrupted_write_leaves_everything_as_it_was(tmp_path, fault, existed):
    target = tmp_path / "table.csv"
    if existed:
        target.write_text("old")

    def interrupted():
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise fault

    with pytest.raises(fault):
        interrupted()
    assert only_files(tmp_path, *(["table.csv"] if existed else []))
    assert not existed or target.read_text() == "old"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_fault_of_the_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, step):
    def fail(*arguments):
        raise OSError("disk full")

    target = tmp_path / "table.csv"
    target.write_text("old")
    monkeypatch.setattr(safe_files.os, step, fail)
    with pytest.raises(OSError, match="disk full"), replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "old"
    assert only_files(tmp_path, "table.csv")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_permissions_are_those_of_an_ordinary_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "table.csv") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "table.csv").stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_and_the_file_behind_it_is_written(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    with replacing(tmp_path / "link.csv") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_missing_folder_is_refused_before_the_block(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"there is no folder .*missing.* Create it"),
        replacing(tmp_path / "missing" / "table.csv"),
    ):
        pytest.fail("the block ran")


def test_a_folder_is_refused_before_the_block(tmp_path):
    with (
        pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"),
        replacing(tmp_path),
    ):
        pytest.fail("the block ran")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_what_is_not_a_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(OSError, match="is not a regular file"),
        replacing(tmp_path / "pipe"),
    ):
        pytest.fail("the block ran")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise PermissionError

    monkeypatch.setattr(safe_files.os, "open", refuse)
    with (
        pytest.raises(PermissionError, match=r"table\.csv' cannot be written"),
        replacing(tmp_path / "table.csv"),
    ):
        pytest.fail("the block ran")


def test_several_files_appear_together_or_not_at_all(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]

    def interrupted():
        with replacing_all(paths) as temporaries:
            temporaries[0].write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with replacing_all(paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text("whole")
        assert not any(path.exists() for path in paths)
    assert [path.read_text() for path in paths] == ["whole", "whole"]
    assert sorted(tmp_path.iterdir()) == paths


def test_without_overwriting_a_file_that_appears_meanwhile_is_kept(tmp_path):
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]

    def overtaken():
        with replacing_all(paths, overwrite=False) as temporaries:
            temporaries[0].write_text("ours")
            paths[1].write_text("theirs")

    with pytest.raises(FileExistsError, match="exists by now"):
        overtaken()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b.txt": "theirs"}
