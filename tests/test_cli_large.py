"""The command on a large file, and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from robust_kmeans.datasets import make_contaminated_blobs
from tests.commands import COMMAND, compile_kernels


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """A million rows of text, about 50 MB."""
    path = tmp_path_factory.mktemp("large") / "large.csv"
    X, _, _ = make_contaminated_blobs(
        990_000, n_clusters=10, n_outliers=10_000, n_features=5, outlier_box=1000, random_state=0
    )
    table = pa.table({f"x{j}": np.round(X[:, j], 4) for j in range(5)})
    pa.csv.write_csv(table, path)
    compile_kernels()
    return path


MEASURED = """
import os, resource, sys, time
from robust_kmeans.cli import main
started = time.perf_counter()
try:
    main()
except SystemExit as end:
    code = end.code
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
# That is at least what the process had that started this one, where it can be had without:
if os.path.exists("/proc/self/status"):
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if "VmHWM" in line)
print(code or 0, time.perf_counter() - started, peak, file=sys.stderr)
"""


def test_a_million_rows_of_text_need_bounded_time_and_memory(large_file, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "fit", large_file, "-k", "10", "-z", "1%",
         "-o", tmp_path / "out.parquet", "--json"],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    code, seconds, peak = map(float, done.stderr.splitlines()[-1].split())
    assert code == 0
    facts = json.loads(done.stdout)
    assert (facts["rows"], facts["n_outliers"]) == (1_000_000, 10_000)
    # X is 40 MB, the file 50 MB; far less than what copies per cluster or per row would take.
    assert peak < 900_000
    # Generous: a machine may be busy.  It is an order of magnitude more than it takes.
    assert seconds < 60


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(large_file, tmp_path, sign, code):
    outputs = ["-o", "out.csv", "--model", "model.npz", "--plot", "picture.png"]
    process = subprocess.Popen(
        [COMMAND, "fit", large_file, "-k", "300", "-z", "1%", *outputs],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # After two seconds it tells what it is doing.
    assert "…" in process.stderr.readline()
    process.send_signal(sign)
    sent = time.monotonic()
    _, messages = process.communicate(timeout=60)
    assert process.returncode == code, messages
    assert "Traceback" not in messages
    assert time.monotonic() - sent < 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay", [0.1, 1.0, 2.0])
def test_an_early_interrupt_shows_no_traceback(tmp_path, delay):
    np.save(tmp_path / "rows.npy", np.random.RandomState(0).standard_normal((300, 3)))
    process = subprocess.Popen(
        [COMMAND, "compare", "rows.npy", "-k", "4", "-z", "9", "--runs", "500"],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    # Python itself needs a moment to start: from then on it is ours to handle.
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    if delay > 0.1:
        assert process.returncode == 130
        assert "Traceback" not in messages
    else:
        assert process.returncode in (130, -signal.SIGINT)
