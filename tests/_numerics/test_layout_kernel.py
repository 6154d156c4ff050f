"""Layout kernels: value, attraction and value minus one against each other."""

import numpy as np
import pytest

from manifoldry._numerics.repulsion import LayoutKernel

KERNELS = (LayoutKernel(0.5), LayoutKernel(), LayoutKernel(3.0), LayoutKernel(dof=None))


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_agree_with_each_other(kernel):
    s, h = np.linspace(0.01, 20, 50), 1e-5
    assert kernel.value(np.zeros(1)) == 1
    log_slope = (np.log(kernel.value(s + h)) - np.log(kernel.value(s - h))) / (2 * h)
    # Central differences: rounding EPS ln w / h below 1e-9, curvature h^2 below 1e-9 (w''' is at most about 60).
    np.testing.assert_allclose(kernel.attraction(s), -log_slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(kernel.value_minus_one(s), kernel.value(s) - 1, rtol=1e-12)
    # To first order w = 1 - attraction(0) s; the next order is of relative size 2 s.
    tiny = np.array([1e-30, 1e-12])
    np.testing.assert_allclose(kernel.value_minus_one(tiny), -kernel.attraction(np.zeros(2)) * tiny, rtol=1e-11)


def test_kernels_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match="dof must be above 0"):
        LayoutKernel(0.0)
