"""Which way to a field is taken, and which are refused."""

import pytest

from manifoldry.solve.fields import Profile, choose_field


def test_which_way_is_taken():
    student = Profile.student()
    for n, d, accuracy, name in [
        (1000, 2, None, "exact"),
        (1001, 2, None, "grid"),
        (1001, 1, None, "grid"),
        (1500, 3, None, "exact"),
        (1501, 3, None, "tree"),
        (10**6, 4, None, "exact"),
        (5000, 2, 1e-4, "grid"),
        (5000, 2, 1e-6, "tree"),
    ]:
        assert choose_field(student, n, d, accuracy=accuracy).name == name
    fine, usual = (choose_field(student, 10, 3, forces="tree", accuracy=accuracy) for accuracy in (1e-4, None))
    assert fine.angle < usual.angle
    assert choose_field(student, 10**6, 2, forces="exact").exact
    assert not choose_field(student, 10, 2, forces="grid").exact


@pytest.mark.parametrize(
    ("d", "given", "said"),
    [
        (3, {"forces": "grid"}, "up to 2 dimensions; got 3"),
        (4, {"forces": "tree"}, "up to 3 dimensions; got 4"),
        (2, {"forces": "fft"}, "forces must be one of"),
        (2, {"accuracy": 0.0}, "accuracy must be above 0"),
        (2, {"forces": "grid", "accuracy": 1e-7}, "try forces='tree'"),
    ],
)
def test_what_no_way_can_do_is_refused(d, given, said):
    with pytest.raises(ValueError, match=said):
        choose_field(Profile.student(), 5000, d, **given)
