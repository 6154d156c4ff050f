"""Which summation of the repulsion is taken, and which are refused."""

import pytest

from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion


def test_which_way_is_taken():
    student = LayoutKernel()
    for n, d, accuracy, name in [
        (2000, 2, None, "exact"),
        (2001, 2, None, "fft"),
        (1001, 1, None, "fft"),
        (1500, 3, None, "exact"),
        (1501, 3, None, "barnes_hut"),
        (10**6, 4, None, "exact"),
        (5000, 2, 1e-4, "fft"),
        (5000, 2, 1e-6, "barnes_hut"),
    ]:
        assert choose_repulsion(student, n, d, accuracy=accuracy).name == name
    assert [choose_repulsion(LayoutKernel(dof), 1001, 2).name for dof in (None, 2.0)] == ["fft", "fft"]
    fine, usual = (
        choose_repulsion(student, 10, 3, repulsion="barnes_hut", accuracy=accuracy) for accuracy in (1e-4, None)
    )
    assert fine.angle < usual.angle
    assert choose_repulsion(student, 10**6, 2, repulsion="exact").exact
    assert not choose_repulsion(student, 10, 2, repulsion="fft").exact


@pytest.mark.parametrize(
    ("d", "given", "said"),
    [
        (3, {"repulsion": "fft"}, "up to 2 dimensions; got 3"),
        (4, {"repulsion": "barnes_hut"}, "up to 3 dimensions; got 4"),
        (2, {"repulsion": "tree"}, "repulsion must be one of"),
        (2, {"accuracy": 0.0}, "accuracy must be above 0"),
        (2, {"repulsion": "fft", "accuracy": 1e-7}, "try repulsion='barnes_hut'"),
    ],
)
def test_what_no_way_can_do_is_refused(d, given, said):
    with pytest.raises(ValueError, match=said):
        choose_repulsion(LayoutKernel(), 5000, d, **given)
