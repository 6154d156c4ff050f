"""What a type checker says about a user's file, and whether it knows every attribute that a fit leaves behind."""

import inspect
import os
import re
import shutil
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import manifoldry
from helpers import among, bent_sheet, make
from manifoldry._core.registry import list_clusterings, list_methods

USER = Path(__file__).with_name("user.py")
OURS = [card for card in (*list_methods(), *list_clusterings()) if not card.wrapped or card in list_clusterings()]
SOURCE = Path(manifoldry.__file__).parent.parent


def test_a_strict_checker_finds_the_mistakes_of_a_user_and_nothing_else(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    shutil.copy(USER, tmp_path / "user.py")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n[mypy-sklearn.*]\nignore_missing_imports = True\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", str(SOURCE))
    # Silent: an installed package is not checked itself, a source tree would be.
    told, trouble, _ = api.run(
        ["--config-file", "mypy.ini", "--follow-imports", "silent", "--cache-dir", os.devnull, "user.py"]
    )
    assert not trouble
    errors = dict(re.findall(r"^user\.py:(\d+): error: (.*)$", told, re.MULTILINE))
    lines = USER.read_text(encoding="utf-8").splitlines()
    marked = {str(i): line.split("# E: ")[1] for i, line in enumerate(lines, 1) if "# E: " in line}
    assert len(marked) == 13
    assert set(errors) == set(marked), told
    for line, start in marked.items():
        assert errors[line].startswith(start), (errors[line], start)


@among(OURS)
def test_every_attribute_of_a_fit_is_declared_with_its_type(card):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(card).fit(bent_sheet(60))
    left = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    source = "".join(
        Path(inspect.getsourcefile(cls)).read_text("utf-8")
        for cls in card.cls.__mro__
        if cls.__module__.startswith("manifoldry.")
    )
    declared = {field.name for field in fields(card.cls) if not field.init}
    declared |= {name for name in left if isinstance(getattr(card.cls, name, None), property)}
    by_assignment = set(re.findall(r"self\.(\w+_)(?:: [^=]+)? = ", source))
    assert left <= declared | by_assignment | {"n_features_in_", "feature_names_in_"}
    assert not declared & set(model.get_params())


def test_an_attribute_of_a_fit_is_absent_before_and_no_parameter():
    model = manifoldry.UMAP()
    assert not hasattr(model, "a_")
    assert not hasattr(model, "spectrum_")
    with pytest.raises(TypeError, match="has no parameter 'a_'"):
        manifoldry.UMAP(a_=1.0)
    model.fit(bent_sheet(60))
    assert isinstance(model.a_, float)
    assert model.embedding_.dtype == np.float64
