from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import robust_kmeans


def test_every_public_name_is_found():
    for name in robust_kmeans.__all__:
        assert getattr(robust_kmeans, name).__name__ == name
        assert name in dir(robust_kmeans)


def test_type_checkers_are_told_the_same_names():
    tree = ast.parse(Path(robust_kmeans.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {name.name: line.module for line in block.body for name in line.names}
    assert homes == robust_kmeans._HOMES
    assert sorted(homes) == sorted(robust_kmeans.__all__)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'KMedians'"):
        robust_kmeans.KMedians  # noqa: B018


def test_importing_the_package_imports_no_numerical_library():
    program = "import robust_kmeans, sys; print({'numpy', 'numba', 'sklearn'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
