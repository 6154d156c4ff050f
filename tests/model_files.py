"""Model files for tests: comparison of two models, what an interpreter does, any members under a valid seal."""

import enum
import hashlib
import importlib
import io
import json
import sys
import zipfile
from contextlib import contextmanager
from dataclasses import fields, is_dataclass

import numpy as np
from scipy.sparse import issparse

from manifoldry.data._models import classes as names
from manifoldry.data._models.files import DIGEST_LENGTH, DOCUMENT

SILENT_EVENTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "exec", "compile", "marshal.loads")
"""Events of the interpreter that no load may cause: programs started, code compiled, read or run."""
OWN_MODULES = ("manifoldry", "numpy", "scipy", "sklearn", "encodings", "zlib")
_heard: list[str] | None = None


def _hear(event, arguments):
    if _heard is None:
        return
    if event in SILENT_EVENTS or event.startswith(("pickle.", "socket.", "shutil.", "os.remove", "os.rename")):
        _heard.append(f"{event} {arguments!r:.80}")
    if event == "import" and not str(arguments[0]).startswith(OWN_MODULES):
        _heard.append(f"import {arguments[0]}")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        _heard.append(f"open {arguments[0]} {arguments[1]}")


for known in names.CLASSES:  # so that no module is compiled or read while a load is watched
    names.find_class(known)
importlib.import_module("encodings.cp437")  # how old archives spell names
sys.addaudithook(_hear)


@contextmanager
def tripwire():
    """Yield a list that gets an entry for everything that happens inside and that loading must not do."""
    global _heard
    _heard = found = []
    try:
        yield found
    finally:
        _heard = None


def members_of(path):
    """Return the members of a file by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_sealed(path, members, version=1, compression=zipfile.ZIP_DEFLATED):
    """Write members, (name, bytes) or (ZipInfo, bytes), under the seal that a model file of this version has."""
    path.write_bytes(sealed_archive(members, version, compression))


def sealed_archive(members, version=1, compression=zipfile.ZIP_DEFLATED):
    """Return the bytes of a file with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(name, content)
        archive.comment = f"manifoldry model {version} sha256 {'0' * DIGEST_LENGTH}".encode()
    return sealed(buffer.getvalue())


def sealed(content):
    """Return the bytes of a file with the checksum that belongs to them."""
    body = content[:-DIGEST_LENGTH]
    return body + hashlib.sha256(body).hexdigest().encode()


def edited(path, edit, version=1):
    """Rewrite a file with its document changed in place by ``edit``, under a valid seal."""
    members = members_of(path)
    document = json.loads(members[DOCUMENT])
    edit(document)
    members[DOCUMENT] = json.dumps(document).encode()
    write_sealed(path, members, version)


def nodes_of(document):
    """Return all dictionaries of a document."""
    found, left = [], [document]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            found.append(node)
            left += node.values()
        elif isinstance(node, list):
            left += node
    return found


def assert_same_array(was, now, place):
    """Compare type, shape, bits and memory layout of two arrays."""
    assert (was.dtype, was.shape) == (now.dtype, now.shape), place
    steps = [[step for step, size in zip(a.strides, a.shape, strict=True) if size > 1] for a in (was, now)]
    assert 0 in was.strides or steps[0] == steps[1], place  # one entry shown many times is stored as often
    assert was.tobytes() == now.tobytes() if was.dtype != object else was.tolist() == now.tolist(), place


def assert_same(was, now, place="model"):
    """Compare two objects in depth: classes, attributes, bits and memory layout of arrays."""
    assert type(was) is type(now), place
    if isinstance(was, np.ndarray):
        assert_same_array(was, now, place)
    elif issparse(was):
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(was, name), getattr(now, name), err_msg=place)
        assert was.shape == now.shape
    elif isinstance(was, (list, tuple)):
        assert len(was) == len(now), place
        for number, pair in enumerate(zip(was, now, strict=True)):
            assert_same(*pair, f"{place}[{number}]")
    elif isinstance(was, dict):
        assert list(was) == list(now), place
        for key in was:
            assert_same(was[key], now[key], f"{place}[{key!r}]")
    elif isinstance(was, (np.random.Generator, np.random.RandomState)):
        assert_same(random_state_of(was), random_state_of(now), place)
    elif isinstance(was, enum.Enum) or not hasattr(was, "__dict__"):
        assert was == now or (was != was and now != now), place
    else:
        assert_same(state_of(was), state_of(now), f"{place}:{type(was).__name__}")


def random_state_of(value):
    """Return the state of a random generator, old or new."""
    return value.bit_generator.state if isinstance(value, np.random.Generator) else value.get_state(legacy=False)


def state_of(value):
    """Return what makes up an object."""
    if hasattr(value, "get_params"):
        return {name: entry for name, entry in vars(value).items() if name != "callback"}
    if is_dataclass(value) and not hasattr(value, "__setstate__"):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return dict(value.__getstate__() or {})
