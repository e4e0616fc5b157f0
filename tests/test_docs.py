"""Examples in the README and the how-tos run as they stand, and what these name is there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOW_TOS = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [ROOT / "README.md", *HOW_TOS]
NEEDED = {"files": ["pyarrow"], "dask": ["pandas", "dask.dataframe", "distributed"]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_of_a_page_runs(page, tmp_path, monkeypatch):
    for package in NEEDED.get(page.stem, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8"
    )
    assert tried
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_links_to_is_there(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    scripts = re.findall(r"(?<![/\w])benchmarks/\w+\.py", text)
    assert links
    for link in links:
        name, _, section = link.partition("#")
        target = page.parent / name
        assert target.exists(), link
        assert not section or section in sections(target), link
    for script in scripts:
        assert (ROOT / script).exists(), script


def sections(page):
    """What headings are called in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_start_page_leads_to_every_how_to():
    start = (ROOT / "docs" / "how-to" / "large-data.md").read_text(encoding="utf-8")
    for page in HOW_TOS:
        assert page.stem == "large-data" or f"]({page.name}" in start, page.name
