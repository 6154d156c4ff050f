"""Profiles: weight, pull and drop against each other, and the numbers that kernels know them by."""

import numpy as np
import pytest

from manifoldry.solve.fields import GAUSSIAN, STUDENT, Profile

PROFILES = (Profile.student(0.5), Profile.student(), Profile.student(3.0), Profile.gaussian())


def test_kernels_and_profiles_number_the_kinds_alike():
    from manifoldry.compiled import attraction, profiles

    assert (profiles.STUDENT, profiles.GAUSSIAN) == (STUDENT, GAUSSIAN)
    assert attraction.GAUSSIAN == GAUSSIAN


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_agree_with_each_other(profile):
    s, h = np.linspace(0.01, 20, 50), 1e-5
    assert profile.weight(np.zeros(1)) == 1
    log_slope = (np.log(profile.weight(s + h)) - np.log(profile.weight(s - h))) / (2 * h)
    # Central differences: rounding EPS ln w / h below 1e-9, curvature h^2 below 1e-9 (w''' is at most about 60).
    np.testing.assert_allclose(profile.pull(s), -log_slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(profile.drop(s), profile.weight(s) - 1, rtol=1e-12)
    # To first order w = 1 - pull(0) s; the next order is of relative size 2 s.
    tiny = np.array([1e-30, 1e-12])
    np.testing.assert_allclose(profile.drop(tiny), -profile.pull(np.zeros(2)) * tiny, rtol=1e-11)


def test_profiles_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match="STUDENT or GAUSSIAN"):
        Profile(7)
    with pytest.raises(ValueError, match="dof must be above 0"):
        Profile.student(0.0)
