"""Sections of the generated page within a document that is written by hand.

What stands between ``<!-- results.md: HEADING -->`` and ``<!-- end -->`` is replaced by the section
of that heading, or by nothing where it was not measured.
"""

from __future__ import annotations

import re

_QUOTE = re.compile(r"(<!-- results\.md: ([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SECTION = re.compile(r"^## ([^\n]+)\n\n(.*?)\n*(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def filled(document: str, page: str) -> str:
    """The document with all its quotes as the page has them now."""
    sections = {match[1]: f"\n{match[2]}\n" for match in _SECTION.finditer(page)}
    return _QUOTE.sub(lambda found: f"{found[1]}{sections.get(found[2], '')}\n{found[3]}", document)
