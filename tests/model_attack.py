"""An attack on model files: every array cut, extended, permuted, retyped, filled with wrong values; other numbers.

Run as a script (``python model_attack.py folder``), it attacks all files of a folder and writes one line per case. The
line is begun before the case is tried, so that the one that ends the process is known.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

MAX_SECONDS, MAX_BYTES = 20, 6 * 2**30
"""Processor time of one case, and address space of the process: more counts as an explosion."""
INSIDE_WORDS = ("broadcast", "operand", "bounds", "mismatch", "axis", "aligned", "ambiguous", "subscript", "reshape")
"""Words of numpy's and scipy's errors; a sentence of ours has none of them."""
JOURNAL = "journal.txt"


def cut_and_extended(a):
    """Yield arrays of other shapes with the same entries: (name, array)."""
    yield "no rows", a[:0]
    if a.ndim:
        n = len(a)
        yield "one row less", a[:-1]
        yield "one row more", np.concatenate([a, a[-1:]])
        yield "three times as many rows", np.concatenate([a, a, a])
        if n > 2:
            yield "half of the rows", a[: n // 2]
    if a.ndim > 1:
        yield "one column less", a[..., :-1]
        yield "one column", a[..., :1]
        yield "one column more", np.concatenate([a, a[..., -1:]], axis=-1)
        yield "no columns", a[..., :0]
    if a.ndim > 2:
        yield "middle axis cut", a[:, :-1]
    if a.ndim > 1:
        yield "transposed", a.T
        yield "flat", a.reshape(-1)
    yield "one axis more", a[None]
    yield "last axis more", a[..., None]
    if a.size:
        yield "a number", a.reshape(-1)[0]


def other_types(a):
    """Yield arrays of the same shape and other types."""
    for kind in "b1", "i1", "i4", "i8", "u8", "f4", "f8", "c16", "U3":
        if a.dtype.str[1:] != kind:
            yield f"as {kind}", np.nan_to_num(a).astype(kind) if a.dtype.kind == "f" else a.astype(kind)


def other_values(a, rng):
    """Yield arrays of the same shape and type with other values."""
    if a.size > 1:
        yield "shuffled", rng.permutation(a.reshape(-1)).reshape(a.shape)
        yield "rows in reverse", a[::-1]
    if a.dtype.kind in "iuf":
        info = np.iinfo(a.dtype) if a.dtype.kind in "iu" else np.finfo(a.dtype)
        values = {"zeros": 0, "negative": -1, "large": 10**6, "largest": info.max, "least": info.min}
        for name, value in values.items():
            if value >= info.min and a.size:
                yield name, np.full_like(a, value)
                yield f"last {name}", with_last(a, value)
    if a.dtype.kind == "f" and a.size:
        yield "nan", np.full_like(a, np.nan)
        yield "last nan", with_last(a, np.nan)
        yield "infinite", np.full_like(a, np.inf)


def with_last(a, value):
    """Return a copy with another last entry."""
    changed = a.copy()
    changed.reshape(-1)[-1] = value
    return changed


SOME = ("no rows", "one row less", "one row more", "three times as many rows", "one column", "flat", "as c16")
SOME += ("shuffled", "large", "last negative", "last largest")
"""Changes that the tests of every day make: those that found something."""
NUMBERS = (0, -1, 1, 10**9, -(10**18), 2.5, 1e300, {"float": "nan"}, {"float": "inf"}, "text")
"""Numbers, and a text, that take the place of the numbers of objects."""
UNUSED = (".diagnostics_", ".trace_", ".graph_", ".spectrum_", ".affinity_matrix_", ".comparison_", "certificate_")
"""Parts of a model that no map uses; the tests of every day leave them alone."""
MOST_MODELS = 2
"""Models in which the tests of every day change the same array of the same part, such as the rows of an engine."""


def changes(a, some, seed):
    """Return all changes of an array, or those of every day."""
    rng = np.random.default_rng(seed)
    found = [*cut_and_extended(a), *other_types(a), *other_values(a, rng)]
    return [(name, np.ascontiguousarray(b)) for name, b in found if not some or name in SOME]


def array_nodes(document):
    """Return the descriptions of arrays in a document, with the path to each."""
    found, left = [], [("", document["model"])]
    while left:
        path, node = left.pop()
        if isinstance(node, dict):
            if "array" in node and "shape" in node:
                found.append((path, node))
            inner = {"state": "", "dict": "", "list": "", "tuple": ""}
            left += [(path if key in inner else f"{path}.{key}", value) for key, value in node.items()]
        elif isinstance(node, list):
            left += [(f"{path}[{number}]", value) for number, value in enumerate(node)]
    return found


def number_places(document):
    """Return the numbers in the objects of a model but the parameters of the model itself: (path, holder, key)."""
    found, left = [], [("", document["model"])]
    while left:
        path, node = left.pop()
        if isinstance(node, dict):
            state = node.get("state") if path else None
            holders = [(path, state)] if "object" in node and state else []
            holders += [(path, node["tuple"])] if path and isinstance(node.get("tuple"), list) else []
            for where, holder in holders:
                for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
                    if type(value) in (int, float):
                        found.append((f"{where}.{key}", holder, key))
            left += [(path if key == "state" else f"{path}.{key}", value) for key, value in node.items()]
        elif isinstance(node, list):
            left += [(f"{path}[{number}]", value) for number, value in enumerate(node)]
    return [place for place in found if not any(part in place[0] for part in UNUSED)]


def renumbered(members, document):
    """Yield (name of the case, bytes of the file) for other numbers in the objects of a model."""
    from model_files import sealed_archive

    for path, holder, key in number_places(document):
        kept = holder[key]
        for value in NUMBERS:
            holder[key] = value
            parts = {**members, "manifoldry.json": json.dumps(document).encode()}
            yield f"{path}: {value}", sealed_archive(parts, compression=zipfile.ZIP_STORED)
        holder[key] = kept


def npy_bytes(array):
    """Return an array in numpy's format, as a member of a model file has it."""
    from manifoldry.data._models.files import array_head

    return array_head(array.dtype.str, list(array.shape)) + array.tobytes()


def attacked(content, some, counts):
    """Yield (name of the case, bytes of the file) for all changes of all arrays of a model file.

    ``counts`` says in how many files an array was changed, by the end of its path.
    """
    from model_files import sealed_archive

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["manifoldry.json"])
    for path, node in array_nodes(document):
        counts[(end := ".".join(path.split(".")[-2:]))] += 1
        if some and (counts[end] > MOST_MODELS or any(part in path for part in UNUSED)):
            continue
        member, kept = f"arrays/{node['array']}.npy", dict(node)
        array = np.load(io.BytesIO(members[member]))
        for name, changed in changes(array, some, node["array"]):
            node.clear()
            node.update({key: kept[key] for key in ("array", "id") if key in kept})
            node.update(dtype=changed.dtype.str, shape=list(changed.shape))
            if changed.shape == array.shape:
                node.update({key: kept[key] for key in ("axes", "flipped", "spacing") if key in kept})
            parts = {**members, "manifoldry.json": json.dumps(document).encode(), member: npy_bytes(changed)}
            yield f"{path or 'model'}: {name}", sealed_archive(parts, compression=zipfile.ZIP_STORED)
        if array.ndim > 1:  # the same entries with the columns one after the other
            turned = np.ascontiguousarray(array.T)
            node.update(shape=list(turned.shape), dtype=array.dtype.str, axes=list(range(array.ndim))[::-1])
            parts = {**members, "manifoldry.json": json.dumps(document).encode(), member: npy_bytes(turned)}
            yield f"{path or 'model'}: axes in reverse", sealed_archive(parts, compression=zipfile.ZIP_STORED)
        node.clear()
        node.update(kept)
    if not some:
        yield from renumbered(members, document)


def new_points(path):
    """Return the new points that belong to a model file: next to it, dense or sparse."""
    from scipy.sparse import csr_array

    Q = np.load(path.with_suffix(".npy"))
    return csr_array(Q) if path.stem.startswith("sparse") else Q


def outcome(path, Q):
    """Load and use a file; return what happened in a word, and in full."""
    from manifoldry.data._models import load_model

    try:
        model = load_model(path)
    except ValueError as error:
        return ("inside words" if spoken_inside(error) else "refused"), str(error).partition("cannot be loaded: ")[2]
    try:
        used(model, Q)
    except ValueError as error:
        return ("inside words" if spoken_inside(error) else "refused in use"), str(error)
    return "used", ""


def used(model, Q):
    """Call all maps of a model."""
    for name in ("transform", "predict"):
        if hasattr(model, name):
            getattr(model, name)(Q)
    if hasattr(model, "inverse_transform") and not hasattr(model, "steps"):  # scikit-learn's steps check less
        model.inverse_transform(model.transform(Q))
    if getattr(model, "_growth", None) is not None or type(model).__name__ == "IncrementalPCA":
        model.partial_fit(Q)


def spoken_inside(error):
    """Tell whether an error has words of numpy's or scipy's; that a matrix is singular may be said."""
    return type(error) not in (ValueError, np.linalg.LinAlgError) or any(words in str(error) for words in INSIDE_WORDS)


def assert_bounds_checked():
    """Read beyond the end of an array in a compiled loop, which must raise an IndexError."""
    from manifoldry._core.kernel import kernel

    entry = kernel("float64(float64[::1], int64)")(lambda a, i: a[i])
    try:
        entry(np.zeros(3), 3)
    except IndexError:
        return
    raise AssertionError("the compiled loops do not check bounds")


def attack(folder, some):
    """Try all cases of all files of a folder that are not in its journal yet."""
    assert_bounds_checked()
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    warnings.simplefilter("ignore")
    done, counts = set(), Counter()
    for line in (folder / JOURNAL).read_text().splitlines() if (folder / JOURNAL).exists() else ():
        done.add(line.partition("\t")[0])
    with (folder / JOURNAL).open("a") as journal:
        for path in sorted(folder.glob("*.mfy")):
            Q, tried = new_points(path), folder / f"tried-{os.getpid()}.tmp"
            for name, content in attacked(path.read_bytes(), some, counts):
                case = f"{path.stem} {name}"
                if case in done:
                    continue
                tried.unlink(missing_ok=True)  # a file that is written again waits for the disk
                tried.write_bytes(content)
                journal.write(case)
                journal.flush()
                signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # its signal ends the process
                try:
                    what, why = outcome(tried, Q)
                except Exception as error:
                    what, why = f"raw {type(error).__name__}", str(error)
                signal.setitimer(signal.ITIMER_PROF, 0)
                journal.write(f"\t{what}\t{why[:200]!r}\n")
                journal.flush()


def outcomes(folder, *, some=False):
    """Attack the files of a folder in new processes; return the cases with what happened and why.

    Bounds checks are compiled into all loops, which then raise an IndexError. Without optimization the loops that the
    maps use compile in 10 seconds of processor time instead of 17.
    """
    command = [sys.executable, __file__, str(folder), *(["some"] if some else [])]
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(folder / "compiled")}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **checked}
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        assert (folder / JOURNAL).exists(), done.stderr  # or it failed before the first case
        with (folder / JOURNAL).open("a") as journal:
            journal.write(f"\tdied {done.returncode}\t{done.stderr[-300:]!r}\n")
    return [line.split("\t") for line in (folder / JOURNAL).read_text().splitlines()]


def counted(cases):
    """Return how often each outcome was had."""
    return Counter(what for _, what, _ in cases)


if __name__ == "__main__":
    attack(Path(sys.argv[1]), sys.argv[2:] == ["some"])
