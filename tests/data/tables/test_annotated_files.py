"""AnnData files, in and out."""

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from manifoldry.data._tables import Table, read_table, write_coordinates

anndata = pytest.importorskip("anndata")

COUNTS = sparse.random(20, 7, 0.3, format="csr", dtype=np.float32, random_state=0)
PCA = np.random.default_rng(0).normal(size=(20, 3))


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Save 20 cells of 7 genes and return the path."""
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(["a", "b"] * 9 + ["a", None]),
            "total": np.arange(20.0),
            "ok": [True, False] * 10,
            "n": pd.array([1, None] * 10, dtype="Int64"),
        },
        index=[f"cell{i}" for i in range(20)],
    )
    data = anndata.AnnData(COUNTS, obs=obs, var=pd.DataFrame(index=[f"gene{j}" for j in range(7)]))
    data.obsm["X_pca"] = PCA
    data.obsm["frame"] = pd.DataFrame(PCA[:, :2], columns=["u", "v"], index=obs.index)
    data.layers["counts"] = COUNTS.tocsc() * 2
    data.layers["dense"] = COUNTS.toarray()
    path = tmp_path_factory.mktemp("cells") / "cells.h5ad"
    data.write_h5ad(path, compression="gzip")
    return path


def test_x_is_read_sparse_with_names_and_columns(cells):
    table = read_table(cells, label="kind")
    assert table.X.format == "csr"
    np.testing.assert_array_equal(table.X.toarray(), COUNTS.toarray())
    assert table.X.dtype == np.float32
    assert table.features == tuple(f"gene{j}" for j in range(7))
    assert (table.id_name, table.ids[3], table.label) == ("obs_names", "cell3", "kind")
    assert table.labels.tolist() == ["a", "b"] * 9 + ["a", ""]
    assert sorted(table.columns) == ["kind", "n", "ok", "total"]
    np.testing.assert_array_equal(table.columns["n"], [1, np.nan] * 10)
    np.testing.assert_array_equal(table.columns["ok"], [1, 0] * 10)
    assert any("key='obsm/X_pca'" in remark for remark in table.remarks)


def test_other_matrices_by_key(cells):
    components = read_table(cells, key="obsm/X_pca")
    np.testing.assert_array_equal(components.X, PCA)
    assert components.features == ("X_pca_0", "X_pca_1", "X_pca_2")
    assert components.remarks == ()
    assert read_table(cells, key="obsm/frame").features == ("u", "v")
    doubled = read_table(cells, key="layers/counts")
    np.testing.assert_array_equal(doubled.X.toarray(), 2 * COUNTS.toarray())
    assert doubled.features[0] == "gene0"
    np.testing.assert_array_equal(read_table(cells, key="layers/dense").X, COUNTS.toarray())
    with pytest.raises(ValueError, match=r"no matrix 'obsm/pca'; did you mean 'obsm/X_pca'\?"):
        read_table(cells, key="obsm/pca")


def test_genes_by_name(cells):
    table = read_table(cells, features=["gene3", "gene1"], color=["gene0"])
    np.testing.assert_array_equal(table.X.toarray(), COUNTS.toarray()[:, [3, 1]])
    np.testing.assert_array_equal(table.columns["gene0"], COUNTS.toarray()[:, 0])


def test_coordinates_go_into_a_copy(cells, tmp_path):
    before = cells.read_bytes()
    table = read_table(cells)
    Y = np.random.default_rng(1).normal(size=(20, 2))
    write_coordinates(tmp_path / "out.h5ad", Y, table, source=cells, key="X_ipa")
    written = anndata.read_h5ad(tmp_path / "out.h5ad")
    np.testing.assert_array_equal(written.obsm["X_ipa"], Y)
    np.testing.assert_array_equal(written.obsm["X_pca"], PCA)
    np.testing.assert_array_equal(written.X.toarray(), COUNTS.toarray())
    assert written.obs["kind"].dtype == "category"
    assert cells.read_bytes() == before
    with pytest.raises(ValueError, match="already has 'X_pca' in its obsm"):
        write_coordinates(tmp_path / "other.h5ad", Y, table, source=cells, key="X_pca")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5ad"]


def test_rows_that_were_left_out_have_no_coordinates(tmp_path):
    values = np.arange(12.0).reshape(4, 3)
    values[1, 1] = np.nan
    anndata.AnnData(values, obs=pd.DataFrame(index=[*"abcd"])).write_h5ad(tmp_path / "in.h5ad")
    table = read_table(tmp_path / "in.h5ad", missing="drop")
    write_coordinates(tmp_path / "out.h5ad", table.X[:, :2], table, source=tmp_path / "in.h5ad", key="X_a")
    expected = values[:, :2].copy()
    expected[1] = np.nan
    np.testing.assert_array_equal(anndata.read_h5ad(tmp_path / "out.h5ad").obsm["X_a"], expected)


def test_other_hdf5_files(tmp_path):
    with h5py.File(tmp_path / "data.h5ad", "w") as file:
        file["X"] = np.zeros((3, 2))
    with pytest.raises(ValueError, match="no group 'obs', so it is HDF5 but not an AnnData file"):
        read_table(tmp_path / "data.h5ad")


def test_declared_sizes_are_refused_before_they_are_read(tmp_path):
    anndata.AnnData(np.zeros((3, 2)), obs=pd.DataFrame(index=[*"abc"])).write_h5ad(tmp_path / "data.h5ad")
    with h5py.File(tmp_path / "data.h5ad", "r+") as file:
        attributes = dict(file["X"].attrs)
        del file["X"]
        file.create_dataset("X", shape=(10**6, 10**6), dtype="f8", chunks=(1000, 1000), compression="gzip")
        file["X"].attrs.update(attributes)
    assert (tmp_path / "data.h5ad").stat().st_size < 10**6
    with pytest.raises(ValueError, match=r"takes 16,000.0 GB once it is unpacked"):
        read_table(tmp_path / "data.h5ad")


SECRET = b"what nobody may read" * 100


def dataset_outside(file, where, folder):
    del file[where]
    file.create_dataset(where, shape=(20,), dtype="u1", external=[(str(folder / "secret.txt"), 0, 20)])


def matrix_outside(file, where, folder):
    del file[where]
    file.create_dataset(where, shape=(20, 3), dtype="u1", external=[(str(folder / "secret.txt"), 0, 60)])


def link_outside(file, where, folder):
    del file[where]
    file[where] = h5py.ExternalLink(str(folder / "other.h5ad"), where)


def virtual(file, where, folder):
    del file[where]
    layout = h5py.VirtualLayout(shape=(20, 3), dtype="f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5ad"), "obsm/X_pca", shape=(20, 3))
    file.create_virtual_dataset(where, layout)


def soft_through_link(file, where, folder):
    del file[where]
    file["through"] = h5py.ExternalLink(str(folder / "other.h5ad"), "/")
    file[where] = h5py.SoftLink(f"/through/{where}")


@pytest.mark.parametrize("spoil", [dataset_outside, matrix_outside, link_outside, virtual, soft_through_link])
@pytest.mark.parametrize("where", ["X", "layers/dense", "obsm/X_pca", "obs", "obs/total", "var", "var/_index", "uns/u"])
@pytest.mark.parametrize("key", [None, "obsm/X_pca"])
def test_data_in_other_files_is_never_read(cells, tmp_path, spoil, where, key, monkeypatch):
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "other.h5ad").write_bytes(cells.read_bytes())
    path = tmp_path / "odd.h5ad"
    path.write_bytes(cells.read_bytes())
    with h5py.File(path, "r+") as file:
        file["uns"]["u"] = np.arange(3)
        spoil(file, where, tmp_path)
    monkeypatch.setattr("anndata.io.read_elem", lambda *_: pytest.fail("something was read"))
    with pytest.raises(ValueError, match=r"odd.h5ad is not read: '/[\w/]+' lies in another file"):
        read_table(path, key=key)
    table = Table(np.zeros((20, 1)), ("a",), np.arange(20))
    with pytest.raises(ValueError, match="lies in another file"):
        write_coordinates(tmp_path / "out.h5ad", np.zeros((20, 2)), table, source=path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["odd.h5ad", "other.h5ad", "secret.txt"]
    assert (tmp_path / "other.h5ad").read_bytes() == cells.read_bytes()


def test_links_within_the_file_are_followed(cells, tmp_path):
    path = tmp_path / "linked.h5ad"
    path.write_bytes(cells.read_bytes())
    with h5py.File(path, "r+") as file:
        file["obsm"].move("X_pca", "kept")
        file["obsm/X_pca"] = h5py.SoftLink("/obsm/kept")
        file["uns/up"] = file["/"]  # a cycle
    np.testing.assert_array_equal(read_table(path, key="obsm/X_pca").X, PCA)
