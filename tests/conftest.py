"""Fixtures that several modules of tests use."""

import pytest

from manifoldry.run import one_blas_thread as blas_limit


@pytest.fixture
def one_blas_thread():
    """Hold LAPACK to one thread: its threads wait long for each other on a busy machine."""
    with blas_limit():
        yield
