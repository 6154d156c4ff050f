"""Files that are damaged, foreign or made to do harm: always one sentence, never code, never the whole memory."""

import json
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manifoldry
from helpers import bent_sheet
from manifoldry import KNeighborsTransformer
from manifoldry.data._models import classes as names
from manifoldry.data._models import files, load_model, read_metadata, save_model
from manifoldry.data._models import files as container
from manifoldry.data._models.files import DOCUMENT, member_name
from manifoldry.graph import _search as search
from model_files import edited, members_of, nodes_of, sealed, tripwire, write_sealed

MAX_PEAK_BYTES = 60_000_000
"""What reading a hostile file of some kilobytes may take, the JSON of the largest document not counted."""
EVIL_NAMES = [
    "os.system",
    "builtins.eval",
    "manifoldry.cli._main.main",
    "sklearn.utils._joblib.Memory",
    "sklearn.pipeline.Pipeline",
    "sklearn.os",
    "__class__",
    "Embedder",
    "subprocess.Popen",
    "",
    "../../PCA",
    7,
    None,
    ["PCA"],
]
same_path = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def fitted_models(folder):
    """Return files of small models, one of each kind of state: graph, search, layout, pipeline, random state."""
    X = bent_sheet(24)
    made = {
        "pipeline": make_pipeline(StandardScaler(), manifoldry.Isomap(n_neighbors=6)),
        "layout": manifoldry.TSNE(max_iter=3, perplexity=4, random_state=np.random.RandomState(0)),
        "umap": manifoldry.UMAP(n_neighbors=5, n_epochs=2, random_state=np.random.default_rng(0)),
        "patches": manifoldry.IPA(n_components=2, random_state=np.random.Generator(np.random.Philox(1))),
        "clusters": manifoldry.VQPCA(n_clusters=2, n_components=1),
    }
    for name, model in made.items():
        save_model(model.fit(X), folder / f"{name}.mfy", metadata={"name": name})
    return {name: folder / f"{name}.mfy" for name in made}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return {name: path.read_bytes() for name, path in fitted_models(tmp_path_factory.mktemp("models")).items()}


def message_of(path, load=load_model):
    """Return the sentence with which a file is refused."""
    tracemalloc.start()
    with tripwire() as heard, pytest.raises(ValueError, match="cannot be loaded: ") as refused:
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    sentence = str(refused.value)
    assert heard == []
    assert peak < MAX_PEAK_BYTES
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert str(path) in sentence
    return sentence


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return eval, ("__import__('os').getpid()",)


def test_the_tripwire_hears_what_a_pickle_does():
    with tripwire() as heard:
        pickle.loads(pickle.dumps(Evil()))
    assert any(event.startswith("pickle.find_class") for event in heard)
    assert any(event.startswith(("exec", "compile")) for event in heard)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (pickle.dumps(Evil()), "a pickle, which would run code"),
        (b"x\x9c" + bytes(50), "pickle of joblib"),
        (b"\x1f\x8b" + bytes(50), "gzip"),
        (b"\x93NUMPY\x01\x00" + bytes(90), "numpy"),
        (b"a,b\n1,2\n", "not a manifoldry model file"),
        (b"PK\x05\x06" + bytes(18), "zip archive with other contents"),
    ],
)
def test_files_of_others_are_named(content, words, tmp_path):
    path = tmp_path / "model.mfy"
    path.write_bytes(content)
    assert words in message_of(path)
    assert words in message_of(path, read_metadata)


def test_archives_of_others_are_named(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.eye(3))
    assert "zip archive with other contents" in message_of(tmp_path / "arrays.npz")


def test_what_the_system_says_is_told_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none.mfy")
    with pytest.raises(IsADirectoryError):
        load_model(tmp_path)


@same_path
@given(data=st.data())
def test_any_changed_byte_is_found(saved, tmp_path, data):
    content = bytearray(saved[data.draw(st.sampled_from(sorted(saved)))])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "model.mfy"
    path.write_bytes(content)
    if bytes(content) not in saved.values():
        message_of(path)


@same_path
@given(data=st.data())
def test_metadata_of_a_changed_file_are_whole_or_refused(saved, tmp_path, data):
    name = data.draw(st.sampled_from(sorted(saved)))
    content = bytearray(saved[name])
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "model.mfy"
    path.write_bytes(content)
    try:
        assert read_metadata(path) == {"name": name}
    except ValueError:
        message_of(path, read_metadata)


@same_path
@given(data=st.data())
def test_cut_extended_and_random_files_are_refused(saved, tmp_path, data):
    content = saved["pipeline"]
    cut = data.draw(st.integers(0, len(content) - 1))
    some = data.draw(st.binary(min_size=1, max_size=200))
    path = tmp_path / "model.mfy"
    for damaged in (content[:cut], content + some, some + content, some + content[-110:]):
        path.write_bytes(damaged)
        message_of(path)
        with pytest.raises(ValueError, match="cannot be loaded"):
            read_metadata(path)


@same_path
@given(data=st.data())
def test_bytes_changed_under_a_valid_seal_never_run_code(saved, tmp_path, data):
    content = bytearray(saved[data.draw(st.sampled_from(sorted(saved)))])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 65))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "model.mfy"
    path.write_bytes(sealed(bytes(content)))
    tried(path)


def tried(path):
    """Load and use a file that may be anything: a model or a sentence, and no event of the interpreter."""
    with tripwire() as heard:
        try:
            model = load_model(path)
        except ValueError:
            model = None
    assert heard == []
    if model is not None:
        with suppress(Exception):  # any error of Python will do, and no other end
            model.transform(bent_sheet(3, seed=1))
    return model


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_edited_documents_never_run_code(saved, tmp_path, data):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved[data.draw(st.sampled_from(sorted(saved)))])

    def edit(document):
        nodes = [node for node in nodes_of(document) if node]
        for _ in range(data.draw(st.integers(1, 2))):
            node = data.draw(st.sampled_from(nodes))
            key = data.draw(st.sampled_from(sorted(node)))
            other = data.draw(st.sampled_from(nodes))
            node[key] = data.draw(
                json_values | st.sampled_from([*names.CLASSES, *EVIL_NAMES]) | st.just(json.loads(json.dumps(other)))
            )

    edited(path, edit)
    tried(path)


@pytest.mark.parametrize("name", EVIL_NAMES)
@pytest.mark.parametrize("tag", ["object", "enum", "function", "sparse", "random"])
def test_classes_and_functions_outside_of_the_tables_are_refused(saved, tmp_path, name, tag):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])
    evil = {tag: name, "state": {"bit_generator": name}, "name": "x", "shape": [1, 1]}
    edited(path, lambda document: document.update(model=evil))
    message_of(path)


@pytest.mark.parametrize(
    "value", [3, "PCA", {"dict": {}}, {"function": "log1p"}, {"object": "SinglePointExtension", "state": {"width": 2}}]
)
def test_what_is_no_estimator_is_no_model(saved, tmp_path, value):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])
    edited(path, lambda document: document.update(model=value))
    assert "no estimator" in message_of(path)


def objects(document, name):
    return [node for node in nodes_of(document) if node.get("object") == name]


def test_a_pipeline_gets_no_cache_and_an_estimator_no_callback(saved, tmp_path):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])

    def edit(document):
        objects(document, "sklearn.Pipeline")[0]["state"]["memory"] = str(tmp_path)
        objects(document, "Isomap")[0]["state"]["callback"] = {"function": "log1p"}

    edited(path, edit)
    model = load_model(path)
    assert model.memory is None
    assert model[-1].callback is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": [10**9, 10**9]}, "shape"),
        ({"shape": [1000, 1000]}, "size"),
        ({"shape": [-1]}, "shape"),
        ({"shape": [True]}, "shape"),
        ({"shape": [1] * 40}, "shape"),
        ({"shape": "24"}, "shape"),
        ({"dtype": "|O"}, "type"),
        ({"dtype": "O"}, "type"),
        ({"dtype": "<U99999999999"}, "type"),
        ({"dtype": "<f8,<f8"}, "type"),
        ({"dtype": ["<f8"]}, "type"),
        ({"dtype": "<i8"}, "head"),
        ({"array": 10**6}, ""),
        ({"array": "../../x"}, "shape"),
        ({"spacing": [10**9, 10**9]}, "gaps"),
        ({"spacing": [0, 0]}, "gaps"),
        ({"axes": [0, 1, 2]}, ""),
        ({"flipped": [9]}, ""),
    ],
)
def test_arrays_are_what_they_say_or_are_refused(saved, tmp_path, change, words):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])

    def edit(document):
        arrays = [node for node in nodes_of(document) if "array" in node and node["dtype"] == "<f8"]
        next(node for node in arrays if len(node["shape"]) == 2 and node["shape"][0] > 1).update(change)

    edited(path, edit)
    assert words in message_of(path)


@pytest.mark.parametrize("nested", ["[" * 200_000, '{"list":[' * 3000 + "]}" * 3000, '{"model":' * 100_000])
def test_deep_documents_are_refused(tmp_path, nested):
    path = tmp_path / "model.mfy"
    text = f'{{"format":1,"metadata":null,"model":{nested}}}' if nested.endswith("}") else nested
    write_sealed(path, {DOCUMENT: text.encode()})
    message_of(path)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"format":1', b'{"format":1,"model":NaN}', b'{"format":2}']
)
def test_documents_of_something_else_are_refused(tmp_path, text):
    path = tmp_path / "model.mfy"
    write_sealed(path, {DOCUMENT: text})
    message_of(path)


def test_bombs_are_refused_before_they_are_unpacked(saved, tmp_path):
    path = tmp_path / "model.mfy"
    small = json.dumps(
        {"format": 1, "metadata": None, "model": {"array": 0, "dtype": "|u1", "shape": [10**8]}}
    ).encode()
    write_sealed(path, {DOCUMENT: small, member_name(0): bytes(10**8)})
    assert path.stat().st_size < 10**6
    assert "more than any saved model" in message_of(path)
    write_sealed(path, {DOCUMENT: b" " * (container.MAX_DOCUMENT_BYTES + 1)})
    assert "more than any saved model" in message_of(path, read_metadata)
    write_sealed(
        path,
        {DOCUMENT: b" " * (container.MAX_DOCUMENT_BYTES + 1), member_name(0): np.random.default_rng(0).bytes(10**6)},
    )
    assert "JSON document is longer" in message_of(path, read_metadata)


def test_an_array_stands_for_one_value(saved, tmp_path):
    """Each mention would be read anew: a small file would fill the memory."""
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])

    def edit(document):
        node = next(node for node in nodes_of(document) if "array" in node)
        objects(document, "Isomap")[0]["state"]["more_"] = {"list": [dict(node) for _ in range(5)]}

    edited(path, edit)
    assert "stands for two values" in message_of(path)


@pytest.mark.parametrize("part", [{"list": []}, {"dict": {}}, [], {"scalar": "f8", "value": 1.0}])
def test_documents_of_very_many_parts_are_refused_before_they_are_parsed(saved, tmp_path, monkeypatch, part):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])
    members = members_of(path)
    document = json.loads(members[DOCUMENT])
    document["model"]["state"]["more_"] = {"list": [part] * container.MAX_PARTS}
    write_sealed(path, {**members, DOCUMENT: json.dumps(document).encode()}, compression=zipfile.ZIP_STORED)
    monkeypatch.setattr(container.json, "loads", lambda *_, **__: pytest.fail("The document was parsed."))
    assert "parts, more than any saved model has" in message_of(path)


def test_a_model_of_very_many_parts_is_not_saved(tmp_path):
    model = manifoldry.PCA()
    model.extra_ = [[] for _ in range(container.MAX_PARTS)]
    with pytest.raises(ValueError, match="room for 400,000"):
        save_model(model, tmp_path / "model.mfy")


def test_sizes_that_lie_are_found(saved, tmp_path):
    """The directory of the archive says that an array is larger, or smaller, than it is."""
    content, path = saved["pipeline"], tmp_path / "model.mfy"
    entry = content.rindex(member_name(0).encode()) - 46
    assert content[entry : entry + 4] == b"PK\x01\x02"
    size = struct.unpack_from("<I", content, entry + 24)[0]
    for false in (size - 8, size + 8, 2**32 - 2):
        changed = bytearray(content)
        struct.pack_into("<I", changed, entry + 24, false)
        path.write_bytes(sealed(bytes(changed)))
        message_of(path)


def test_more_than_the_memory_is_refused(saved, tmp_path, monkeypatch):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])
    monkeypatch.setattr(container, "available_memory", lambda: 1000)
    assert "available" in message_of(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_other_names_are_refused(saved, tmp_path):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])
    members = members_of(path)
    for name in ("../../evil.npy", "/etc/passwd", "arrays/0x1.npy", "evil.pkl", f"arrays/{len(members)}.npy"):
        write_sealed(path, {**members, name: b"x"})
        assert "other members" in message_of(path)
    write_sealed(path, [*members.items(), (member_name(0), b"x")])
    assert "same name" in message_of(path)
    write_sealed(path, {name: content for name, content in members.items() if name != DOCUMENT})
    message_of(path)
    write_sealed(path, members, compression=zipfile.ZIP_BZIP2)
    assert "unknown way" in message_of(path)


def test_swapped_arrays_are_refused_or_loaded_without_harm(saved, tmp_path):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["umap"])
    members = members_of(path)
    arrays = sorted(set(members) - {DOCUMENT})
    for first, second in pairwise(arrays):
        write_sealed(path, {**members, first: members[second], second: members[first]})
        tried(path)


@pytest.mark.parametrize("name", ["pipeline", "umap"])
def test_indices_that_compiled_loops_would_follow_are_checked(saved, tmp_path, name):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved[name])
    members, found = members_of(path), 0
    for member, content in members.items():
        if member != DOCUMENT and b"'<i" in content[:80]:
            head, entries = (
                content[:128],
                np.frombuffer(content[128:], dtype=content[content.index(b"<") :][:3].decode()),
            )
            write_sealed(path, {**members, member: head + (entries + 10**6).tobytes()})
            found += tried(path) is None
    assert found >= 2  # the indices and the ends of the rows of a graph; other lists are numpy's to check


def test_searches_with_lists_of_other_points_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.random((400, 3)) @ rng.standard_normal((3, 12))
    model = KNeighborsTransformer(n_neighbors=5, search="approximate").fit(X)
    engine = model._index.engine
    assert engine.name == "nn_descent"
    path, tree = tmp_path / "model.mfy", engine.search_trees[0]
    for owner, attribute in [
        *((engine, attribute) for attribute in ("order", "lists", "search_graph")),
        *((tree, attribute) for attribute in ("nodes", "starts", "members")),
    ]:
        kept = getattr(owner, attribute)
        wrong = kept.copy()
        wrong.flat[-1] += 1000
        vars(owner)[attribute] = wrong
        save_model(model, path, overwrite=True)
        message_of(path)
        vars(owner)[attribute] = kept
    save_model(model, path, overwrite=True)
    load_model(path)


@pytest.mark.parametrize("position", [625, -1, 10**9])
def test_positions_of_random_generators_are_checked(saved, tmp_path, position):
    path = tmp_path / "model.mfy"
    for name, key in (("layout", "pos"), ("patches", "buffer_pos")):
        path.write_bytes(saved[name])
        edited(path, lambda document, key=key: next(n for n in nodes_of(document) if key in n).update({key: position}))
        assert "random generator" in message_of(path)


def test_newer_formats_are_told_and_older_ones_are_upgraded(saved, tmp_path, monkeypatch):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])
    edited(path, lambda document: document.update(format=2), version=2)
    assert "install a newer one" in message_of(path)
    path.write_bytes(saved["pipeline"])
    monkeypatch.setattr(container, "FORMAT_VERSION", 2)
    monkeypatch.setattr(files, "FORMAT_VERSION", 2)
    monkeypatch.setitem(files.UPGRADES, 1, lambda document: {**document, "metadata": "upgraded"})
    assert read_metadata(path) == "upgraded"
    assert load_model(path)[-1].n_neighbors == 6


def test_parameters_that_an_older_version_did_not_have_get_their_defaults(saved, tmp_path):
    path = tmp_path / "model.mfy"
    path.write_bytes(saved["pipeline"])

    def edit(document):
        objects(document, "Isomap")[0]["state"].pop("n_jobs")
        objects(document, "NeighborRule")[0]["state"].pop("automatic")

    edited(path, edit)
    model = load_model(path)
    assert model[-1].n_jobs is None
    assert model.transform(bent_sheet(3)).shape == (3, 2)
    edited(path, lambda document: objects(document, "NeighborGraph")[0]["state"].pop("lengths"))
    assert "NeighborGraph without 'lengths'" in message_of(path)
