"""The real sets of the benchmarks are converted from files as their sources write them."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "obtain_data.py"
SPEC = importlib.util.spec_from_file_location("obtain_data", PATH)
OBTAIN = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(OBTAIN)


def test_faces_are_averaged_and_upright(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    rng = np.random.default_rng(0)
    upright = rng.integers(0, 256, (5, 64, 64)) / 255
    columns = upright.transpose(0, 2, 1).reshape(5, -1).T  # MATLAB writes column after column
    poses, lights = rng.normal(size=(2, 5)), rng.normal(size=(1, 5))
    scipy_io.savemat(tmp_path / "face_data.mat", {"images": columns, "poses": poses, "lights": lights})
    made = OBTAIN.SOURCES["isomap_faces32"].make(tmp_path)
    four = upright[:, ::2, ::2] + upright[:, 1::2, ::2] + upright[:, ::2, 1::2] + upright[:, 1::2, 1::2]
    np.testing.assert_allclose(made["X"].reshape(5, 32, 32) / 65280, four / 4, atol=0.5 / 65280)  # half a unit
    np.testing.assert_allclose(made["pose"].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.corrcoef(made["pose"][:, 1], poses[0])[0, 1], 1)


def test_cities_are_sorted_and_those_without_a_continent_left_out(tmp_path):
    countries = ["# a comment", "\t".join(["FR", *[""] * 7, "EU", "x"]), "\t".join(["JP", *[""] * 7, "AS", "x"])]
    (tmp_path / "countryInfo.txt").write_text("\n".join(countries), encoding="utf-8")

    def city(number, latitude, longitude, country):
        row = [str(number), 'a "name"', "", "", latitude, longitude, "", "", country, *[""] * 5, "900", "", "", "", ""]
        return "\t".join(row)

    rows = [city(7, "35.5", "139.25", "JP"), city(3, "48.85341", "2.3488", "FR"), city(5, "0", "0", "XX")]
    (tmp_path / "cities500.txt").write_text("\n".join(rows), encoding="utf-8")
    made = OBTAIN.SOURCES["cities"].make(tmp_path)
    assert made["X"].tolist() == [[4885341, 234880], [3550000, 13925000]]
    assert made["names"][made["y"]].tolist() == ["Europe", "Asia"]
    assert made["population"].tolist() == [900, 900]


def test_both_wines_are_joined_and_the_list_says_what_is_there(tmp_path, monkeypatch, capsys):
    for color, value in (("red", 1.5), ("white", 2.5)):
        text = ";".join(['"column"'] * 12) + "\n" + ";".join([str(value)] * 11 + ["6"]) + "\n"
        (tmp_path / f"winequality-{color}.csv").write_text(text, encoding="utf-8")
    folder = tmp_path / "sets"
    arguments = [str(folder), "--make", "wine_quality", "wine_type", "--downloads", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["obtain_data.py", *arguments])
    OBTAIN.main()
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert listed["wine_type"] == "complete"
    assert listed["wine_quality"].startswith("differs: (2, 11) float64")
    assert listed["mnist"].endswith("(--make mnist)")
    with np.load(folder / "wine_quality.npz") as stored:
        assert stored["X"][:, 0].tolist() == [1.5, 2.5]
        assert stored["y"].tolist() == [6, 6]
