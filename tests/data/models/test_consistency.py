"""The table of arrays: every class is in it, and every entry can be read and refuses what it does not say."""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_array

import manifoldry
from helpers import bent_sheet
from manifoldry._core.run import Run
from manifoldry.data._models import classes as names
from manifoldry.data._models import load_model, save_model
from manifoldry.data._models.shapes import COUNTED, SHAPES, Consistency, declared
from manifoldry.graph._geodesics import geodesics_from_outside

PLAIN = ("Any", "bool", "dict", "float", "int", "str", "tuple", "Literal")


def test_every_class_that_a_file_may_hold_is_in_the_table():
    assert set(SHAPES) == set(names.CLASSES)
    assert set(COUNTED) <= set(SHAPES)
    for name in SHAPES:
        assert all(part["sizes"] or part["kind"] for part in declared(name))


@pytest.mark.parametrize("name", [name for group in names.STATE_CLASSES.values() for name in group])
def test_every_array_of_a_class_is_declared(name):
    cls = names.find_class(name)
    if not dataclasses.is_dataclass(cls) or hasattr(cls, "__setstate__"):
        return  # what is restored by its own method is declared by what that is given
    known = {part["name"].partition(".")[0] for part in declared(name)}
    arrays = {each.name for each in dataclasses.fields(cls) if "Array" in str(each.type)}
    assert arrays <= known


def checked(name, **state):
    """Return the sizes of an object with these attributes."""
    return Consistency().check(name, state)


def test_letters_are_the_same_number_everywhere():
    mean, matrix = np.zeros(4), np.zeros((2, 4))
    assert checked("LinearInverse", mean=mean, directions=matrix) == {"d": 4, "q": 2}
    for wrong in (matrix.T, matrix[:, :3], matrix[0], matrix[None], matrix.astype(int), matrix.astype(complex), "x", 3):
        with pytest.raises(ValueError, match="'directions' of a LinearInverse"):
            checked("LinearInverse", mean=mean, directions=wrong)
    with pytest.raises(ValueError, match="LinearInverse without 'mean'"):
        checked("LinearInverse", directions=matrix)


def test_indices_stay_inside():
    graph = {"indptr": np.array([0, 1, 2]), "indices": np.array([1, 0]), "lengths": np.ones(2)}
    assert checked("NeighborGraph", **graph)["n"] == 2
    for wrong in ([2, 0], [1, -1]):
        with pytest.raises(ValueError, match="'indices' of a NeighborGraph refers to"):
            checked("NeighborGraph", **{**graph, "indices": np.array(wrong)})


def test_rows_are_finite_and_not_too_large():
    X = bent_sheet(5)
    assert checked("Brute", X=X) == checked("Brute", X=csr_array(X)) == {"n": 5, "d": 4}
    for entry in (np.nan, np.inf, -1e200):
        wrong = X.copy()
        wrong[3, 1] = entry
        for rows in (wrong, csr_array(wrong)):
            with pytest.raises(ValueError, match="not finite, or too large"):
                checked("Brute", X=rows)


def test_objects_that_hold_each_other_have_the_same_sizes(tmp_path):
    """An index of more points than the graph, whose paths would begin outside of it."""
    model = manifoldry.Isomap(n_neighbors=6).fit(bent_sheet(40))
    larger = manifoldry.Isomap(n_neighbors=6).fit(bent_sheet(60))
    index = larger._extension.index
    model._extension = dataclasses.replace(model._extension, index=index)
    save_model(model, tmp_path / "model.mfy")
    with pytest.raises(ValueError, match=r"cannot be loaded: 'graph' of a GeodesicNystrom has the size 40 where .* 60"):
        load_model(tmp_path / "model.mfy")
    with pytest.raises(ValueError, match="has no point 40"):
        geodesics_from_outside(model.graph_, np.array([[3, 40]]), np.ones((1, 2)), Run(0))


def test_extreme_scales_come_back(tmp_path):
    """Rows at both ends of what a fit takes."""
    for scale in (1e-55, 1e55):
        X = bent_sheet(40) * scale
        for model in (manifoldry.Isomap(n_neighbors=6), manifoldry.KernelPCA(), manifoldry.MDS(max_iter=5)):
            save_model(model.fit(X), tmp_path / "model.mfy", overwrite=True)
            again = load_model(tmp_path / "model.mfy")
            assert again.transform(X[:3]).tobytes() == model.transform(X[:3]).tobytes()
