"""Correlations from sums over rows, and the jackknife against what is known of means."""

import numpy as np
import pytest

from manifoldry.evaluation._metrics._shepard import correlation, correlation_of_sums, correlation_sums, jackknife_error


def test_sums_of_blocks_add_up_and_infinite_values_are_left_out():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 20, 30)) + 1e6
    a[0, :7] = np.inf
    known = np.isfinite(a)
    expected = np.corrcoef(a[known], b[known])[0, 1]
    assert correlation_of_sums(correlation_sums(a, b).sum(axis=0)) == pytest.approx(expected, abs=1e-9)
    parts = [correlation_sums(a[lo : lo + 5], b[lo : lo + 5], about=(1e6, 1e6)) for lo in range(0, 20, 5)]
    assert correlation_of_sums(np.concatenate(parts).sum(axis=0)) == pytest.approx(expected, abs=1e-9)


def test_a_constant():
    values = np.random.default_rng(2).normal(size=30)
    assert correlation(values, np.full(30, 0.1)) == 0.0
    assert np.isnan(correlation(np.full(30, 0.1), values))
    assert correlation(values, 3 * values - 7) == pytest.approx(1.0, abs=1e-12)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    """Exactly: the sample deviation over the root of m, times the root of 1 - m / n."""
    values = np.random.default_rng(3).normal(size=25)
    sums = np.column_stack([values, np.ones(25)])
    found = jackknife_error(lambda s: s[..., 0] / s[..., 1], sums, 100)
    assert found == pytest.approx(values.std(ddof=1) / 5 * np.sqrt(0.75), rel=1e-12)
    assert jackknife_error(lambda s: s[..., 0], sums, 25) == 0.0
    assert np.isnan(jackknife_error(lambda s: s[..., 0], sums[:1], 25))
