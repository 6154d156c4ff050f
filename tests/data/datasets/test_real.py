import numpy as np
import pytest
import sklearn.datasets

from manifoldry.data.datasets import available, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MANIFOLDRY_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["iris", "digits", "wine", "breast_cancer"])
def test_built_in_sets_are_those_of_scikit_learn(name, monkeypatch):
    monkeypatch.delenv("MANIFOLDRY_DATA", raising=False)
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    data = load(name)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.labels, y)
    assert len(data.extras["names"]) == len(np.unique(y))
    assert len(data.extras["features"]) == X.shape[1]


def test_available_follows_the_folder(folder, monkeypatch):
    np.savez(folder / "tiny.npz", X=np.zeros((2, 2)))
    (folder / "notes.txt").write_text("not data")
    assert available() == ("breast_cancer", "digits", "iris", "tiny", "wine")
    monkeypatch.delenv("MANIFOLDRY_DATA")
    assert available() == ("breast_cancer", "digits", "iris", "wine")
    monkeypatch.setenv("MANIFOLDRY_DATA", str(folder / "missing"))
    assert "tiny" not in available()


def test_any_archive_gives_points_labels_and_the_rest(folder):
    X, y = np.arange(12, dtype=np.uint8).reshape(4, 3), np.array([0, 1, 1, 0])
    np.savez(folder / "tiny.npz", X=X, y=y, names=np.array(["a", "b"]))
    data = load("tiny")
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.labels, y)
    assert list(data.extras) == ["names"]
    np.savez(folder / "bare.npz", X=X)
    assert load("bare").labels is None


@pytest.mark.parametrize(("name", "unit"), [("coil20_32", 4080), ("mammoth", 1000), ("proteins", 1000)])
def test_integers_are_divided_by_their_unit(folder, name, unit):
    X = np.array([[0, unit, -3 * unit], [unit // 2, 1, 7]], dtype=np.int32)
    np.savez(folder / f"{name}.npz", X=X, y=np.array([0, 1]))
    np.testing.assert_array_equal(load(name).X, X / unit)


def test_cities_lie_on_the_unit_sphere(folder):
    degrees = np.array([[0, 0], [90, 0], [0, 90], [-30, 180]])
    np.savez(folder / "cities.npz", X=(degrees * 100_000).astype(np.int32), y=np.arange(4))
    data = load("cities")
    half = np.sqrt(3) / 2
    # One rounding of an angle and one of its sine or cosine.
    expected = [[1, 0, 0], [0, 0, 1], [0, 1, 0], [-half, 0, -0.5]]
    np.testing.assert_allclose(data.X, expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.rad2deg(data.parameters), degrees, rtol=1e-15)
    assert data.intrinsic_dim == 2


def test_etopo_is_its_coarse_grid_on_the_sphere(folder):
    elevation = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(
        folder / "etopo.npz",
        elevation60=elevation,
        lat60=np.array([-90.0, 0.0]),
        lon60=np.array([0.0, 90, 180]),
    )
    data = load("etopo")
    np.testing.assert_array_equal(data.color, np.arange(6))
    expected = [[0, 0, -1]] * 3 + [[1, 0, 0], [0, 1, 0], [-1, 0, 0]]
    np.testing.assert_allclose(data.X, expected, rtol=0, atol=1e-15)


def test_columns_are_chosen(folder):
    X = np.tile(np.arange(54, dtype=np.int16), (3, 1))
    np.savez(folder / "covertype.npz", X=X, y=np.ones(3, dtype=np.uint8))
    np.savez(folder / "flow_cytometry.npz", X=X[:, :18].astype(np.float32), y=np.zeros(3, dtype=np.uint8))
    np.testing.assert_array_equal(load("covertype").X[0], np.arange(10))
    np.testing.assert_array_equal(load("flow_cytometry").X[0], [8, 11, 13, 14, 15, 16, 17])


def test_counts_become_logarithms_of_shares(folder):
    np.savez(folder / "citeseq_cbmc.npz", X=np.array([[1, 3], [0, 2]], dtype=np.uint16), y=np.zeros(2))
    expected = np.log([[251, 751], [1, 1001]])
    np.testing.assert_allclose(load("citeseq_cbmc").X, expected, rtol=1e-15)


def test_faces_carry_their_pose(folder):
    pose = np.arange(6.0).reshape(2, 3)
    np.savez(folder / "isomap_faces32.npz", X=np.array([[0, 65280], [32640, 1]], dtype=np.uint16), pose=pose)
    data = load("isomap_faces32")
    np.testing.assert_array_equal(data.X, [[0, 1], [0.5, 1 / 65280]])
    np.testing.assert_array_equal(data.parameters, pose)


def test_a_missing_variable_or_file_is_named(folder, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"MANIFOLDRY_DATA.*mnist\.npz does not exist"):
        load("mnist")
    monkeypatch.delenv("MANIFOLDRY_DATA")
    with pytest.raises(FileNotFoundError, match=r"mnist\.npz.*MANIFOLDRY_DATA.*not set"):
        load("mnist")


def test_an_archive_without_its_arrays_is_refused(folder):
    np.savez(folder / "tiny.npz", points=np.zeros((2, 2)))
    np.savez(folder / "etopo.npz", X=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"tiny\.npz must hold an array 'X'; it holds points"):
        load("tiny")
    with pytest.raises(ValueError, match=r"etopo\.npz must hold an array 'lat60'"):
        load("etopo")


@pytest.mark.parametrize("name", ["../tiny", "folder/tiny", ""])
def test_names_are_not_paths(folder, name):
    with pytest.raises(ValueError, match="name without folders"):
        load(name)
