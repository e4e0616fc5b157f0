"""Scaling of columns: exact where it can be, and not moved by outliers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import RobustScaler, StandardScaler

from robust_kmeans import scaling as module
from robust_kmeans.scaling import SCALINGS, Scaling, fit_scaling

ROWS = np.random.RandomState(0).normal([5.0, -300.0, 0.01], [2.0, 90.0, 0.001], size=(500, 3))

tables = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.floats(-(2.0**20), 2.0**20, width=32),
)


@pytest.mark.parametrize(
    ("method", "reference"), [("standard", StandardScaler()), ("robust", RobustScaler())]
)
def test_scaling_is_that_of_scikit_learn(method, reference):
    np.testing.assert_allclose(
        fit_scaling(ROWS, method).apply(ROWS), reference.fit_transform(ROWS), rtol=1e-9, atol=1e-9
    )


@given(rows=tables, method=st.sampled_from(SCALINGS))
def test_undo_reverses_apply(rows, method):
    scaling = fit_scaling(rows, method)
    scaled = scaling.apply(rows)
    back = scaling.undo(scaled)
    assert scaled.dtype == back.dtype == rows.dtype
    eps = np.finfo(rows.dtype).eps
    size = np.abs(rows).max() + np.abs(scaling.offset).max()
    np.testing.assert_allclose(back, rows, rtol=4 * eps, atol=8 * eps * size)


@given(rows=tables, method=st.sampled_from(SCALINGS), block=st.integers(1, 40))
def test_blocks_do_not_change_the_scaling(rows, method, block):
    whole = fit_scaling(rows, method)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_VALUES", block)
        parts = fit_scaling(rows, method)
        applied = whole.apply(rows)
    np.testing.assert_allclose(parts.offset, whole.offset, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(parts.factor, whole.factor, rtol=1e-6)
    np.testing.assert_array_equal(applied, whole.apply(rows))


@pytest.mark.parametrize("method", ["standard", "robust"])
def test_digits_survive_a_large_offset(method):
    near = fit_scaling(ROWS[:, :1], method)
    far = fit_scaling(ROWS[:, :1] + 2.0**30, method)
    np.testing.assert_allclose(far.factor, near.factor, rtol=1e-6)
    np.testing.assert_allclose(far.offset - 2.0**30, near.offset, rtol=1e-6)


def test_digits_survive_a_first_row_far_out():
    rows = np.r_[[[1e9]], ROWS[:, :1]]
    scaling = fit_scaling(rows, "standard")
    np.testing.assert_allclose(scaling.offset, np.mean(rows.astype(np.longdouble)), rtol=1e-14)
    np.testing.assert_allclose(scaling.factor, np.std(rows.astype(np.longdouble)), rtol=1e-14)


def test_one_outlier_does_not_change_the_robust_scaling():
    clean = fit_scaling(ROWS, "robust")
    spoilt = fit_scaling(np.r_[ROWS, np.full((1, 3), 1e12)], "robust")
    assert (np.abs(spoilt.offset - clean.offset) < 0.02 * clean.factor).all()
    np.testing.assert_allclose(spoilt.factor, clean.factor, rtol=0.02)
    assert (fit_scaling(np.r_[ROWS, np.full((1, 3), 1e12)], "standard").factor > 1e9).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["standard", "robust"])
def test_columns_without_spread_are_shifted_only(method, dtype):
    # The mean of many 0.1 is not 0.1 in floating point.
    rows = np.column_stack([np.full(1000, 0.1), np.arange(1000.0), np.full(1000, -1e9)])
    scaling = fit_scaling(rows.astype(dtype), method)
    assert scaling.constant_columns == (0, 2)
    assert scaling.factor[[0, 2]].tolist() == [1, 1]
    assert not scaling.apply(rows.astype(dtype))[:, [0, 2]].any()


def test_none_returns_the_rows_themselves():
    scaling = fit_scaling(ROWS, "none")
    assert scaling.apply(ROWS) is ROWS
    assert scaling.undo(ROWS) is ROWS
    assert scaling.offset.tolist() == [0, 0, 0]
    assert scaling.factor.tolist() == [1, 1, 1]
    assert scaling.constant_columns == ()


@pytest.mark.parametrize("method", ["standard", "robust"])
def test_rows_are_not_changed(method):
    rows = ROWS.copy()
    scaling = fit_scaling(rows, method)
    scaling.undo(scaling.apply(rows))
    np.testing.assert_array_equal(rows, ROWS)


def test_offset_and_factor_cannot_be_changed():
    offset = np.zeros(2)
    scaling = Scaling("standard", offset, np.ones(2))
    offset[0] = 7
    assert scaling.offset[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        scaling.factor[0] = 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("minmax", [0], [1]), "'minmax' is not a scaling; expected one of 'none', 'standard'"),
        (("standard", [0], [0]), r"factor\[0\]=0 must be above 0; use 1"),
        (("standard", [0, 0], [1, -2]), r"factor\[1\]=-2 must be above 0"),
        (("standard", [0], [np.nan]), r"factor\[0\]=nan must be finite"),
        (("standard", [0], [np.inf]), r"factor\[0\]=inf must be finite"),
        (("standard", [np.inf], [1]), r"offset\[0\]=inf must be finite"),
        (("standard", [0, 0], [1]), "offset has 2 values and factor 1"),
        (("standard", [[0]], [1]), r"offset has shape \(1, 1\); expected one value per column"),
        (("standard", [], []), r"offset has shape \(0,\)"),
        (("standard", ["a"], [1]), "offset must be numbers, one per column"),
        (("none", [1], [1]), "method='none' leaves rows as they are"),
        (("none", [0], [2]), "method='none' leaves rows as they are"),
        (("robust", [0], [1], (1,)), r"constant_columns=\(1,\) must be column numbers below 1"),
    ],
)
def test_senseless_scalings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Scaling(*arguments)


def test_unknown_methods_are_refused():
    with pytest.raises(ValueError, match="'log' is not a scaling; expected one of"):
        fit_scaling(ROWS, "log")


@pytest.mark.parametrize("method", ["standard", "robust"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_by_column(method, value):
    rows = ROWS.copy()
    rows[:400, 1] = value
    with pytest.raises(ValueError, match=r"NaN, infinite or extremely large values in column 1"):
        fit_scaling(rows, method)


def test_other_columns_than_those_of_the_fit_are_refused():
    scaling = fit_scaling(ROWS, "robust")
    with pytest.raises(ValueError, match="X has 2 columns; the scaling is for 3"):
        scaling.apply(ROWS[:, :2])
    with pytest.raises(ValueError, match="X has 2 columns; the scaling is for 3"):
        fit_scaling(ROWS, "none").undo(ROWS[:, :2])


def test_values_that_leave_the_range_of_the_dtype_are_refused():
    scaling = Scaling("robust", [0.0, 0.0], [1.0, 1e-30])
    with pytest.raises(ValueError, match=r"column 1 that leave the range of float32 when scaled"):
        scaling.apply(np.array([[1.0, 1e12]], dtype=np.float32))
    # What came as NaN is left for the estimator to refuse.
    assert np.isnan(scaling.apply(np.array([[np.nan, 1.0]]))[0, 0])
