"""Random arguments: a sentence or a result, never a traceback."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from manifoldry._core.registry import METHODS
from manifoldry.cli import _commands as cli
from manifoldry.cli._main import COMMANDS, program

QUICK = [name for name in COMMANDS if name not in ("demo", "explore")]
"""Commands that answer at once of files that are broken, missing or tiny."""
FILES = ["missing.csv", "broken.npz", "broken.csv", "tiny.csv", "tiny.npy", "record.json", "swiss-rol", "."]
WORDS = ["isomap", "pca", "none", "auto", "0", "-1", "1e9", "nan", "a", "a,b", "kind", "show", "bash", "tab", "out.csv"]


def _options():
    with program.make_context("manifoldry", ["cite"]) as context:
        commands = [program.get_command(context, name) for name in QUICK]
        return sorted({option for command in commands for param in command.params for option in param.opts})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzz")
    (place / "broken.npz").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    (place / "broken.csv").write_bytes(b'a,b\n1,"2\n\xff\xfe,\n')
    (place / "tiny.csv").write_text("name,a,b,kind\nx,1,2,u\ny,3,5,v\nz,0,1,u\n")
    np.save(place / "tiny.npy", np.arange(12.0).reshape(6, 2))
    (place / "record.json").write_text(json.dumps({"format": "other"}))
    return place


options = st.sampled_from([*_options(), "--n-neighbors", "--perplexity", "--help", "-h", "--", "-"])
values = st.sampled_from([*FILES, *WORDS, *METHODS]) | st.text(max_size=8)
arguments = st.tuples(
    st.lists(st.sampled_from(QUICK), min_size=1, max_size=1) | st.lists(st.text(max_size=6), max_size=1),
    st.lists(values, max_size=2),
    st.lists(options | values | st.tuples(options, values), max_size=5),
)


@given(arguments)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_arguments_give_a_sentence_or_a_result(folder, capsys, monkeypatch, given_arguments):
    monkeypatch.chdir(folder)
    command, names, rest = given_arguments
    flat = [word for each in rest for word in (each if isinstance(each, tuple) else (each,))]
    code = cli.main([*command, *names, *flat])
    out, err = capsys.readouterr()
    assert code in (0, 1, 2), err
    assert "Traceback" not in err
    assert "defect" not in err, err
    assert code == 0 or err.startswith("manifoldry: "), err
    if code == 0 and "--json" in flat and "--help" not in flat and "-h" not in flat and "--" not in flat:
        json.loads(out)
