"""Saving and loading of models."""

from __future__ import annotations

import errno
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from manifoldry._core.files import new_file
from manifoldry._core.memory import available_memory
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import Array
from manifoldry.data._models.classes import ESTIMATORS, class_name, is_estimator
from manifoldry.data._models.decode import ModelDecoder, array_type
from manifoldry.data._models.encode import Json, ModelEncoder

UPGRADES: dict[int, Callable[[Json], Json]] = {}
"""For each older format the function that turns its document into one of the next; see docs/model_files.md."""
DAMAGES = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a file may raise that is not what it should be; errors of the system are told as they are."""


def save_model(model: Any, path: str | os.PathLike[str], *, metadata: Any = None, overwrite: bool = False) -> None:
    """Write a model to a file that `load_model` reads: arrays and JSON, no pickle.

    Parameters
    ----------
    model : estimator
        An estimator of this library, fitted or not; or a scikit-learn Pipeline of SimpleImputer, StandardScaler,
        RobustScaler, MinMaxScaler, Normalizer, FunctionTransformer (of a function of numpy such as ``log1p``), PCA or
        TruncatedSVD that ends with one.
    path : str or path
        Where the file shall be; the suffix is ``.mfy`` by custom.
    metadata : JSON, optional
        Anything that JSON can hold, to be kept beside the model: `read_metadata` returns it.
    overwrite : bool
        Whether a file that is there already may be replaced.

    Raises
    ------
    ValueError
        If the model has something that a file cannot hold: a Python function, say, as its metric. A ``callback`` and
        the cache of a pipeline are left out.
    FileExistsError
        If there is a file and it may not be replaced.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from manifoldry import Isomap, datasets, load, save
    >>> X = datasets.swiss_roll(200).X
    >>> model = Isomap(n_neighbors=8).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "roll.mfy"
    ...     save(model, path)
    ...     again = load(path)
    >>> bool((again.transform(X[:5]) == model.transform(X[:5])).all())
    True
    """
    _refuse_other_models(model)
    try:
        kept = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata must be what JSON can hold; {error}.") from None
    encoder = ModelEncoder()
    encoded = encoder.encode(model, type(model).__name__)
    document = {"format": FORMAT_VERSION, "versions": _versions(), "metadata": kept, "model": encoded}
    with new_file(path, overwrite=overwrite) as part:
        write_container(part, document, encoder.arrays)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file that `save_model` wrote.

    Nothing in the file is run, whoever wrote it. The model is as it was: new points get the same coordinates, to the
    last bit with the same versions of the libraries.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    ValueError
        If it is no model file, or damaged, or of a newer format: one sentence says which.
    OSError
        If the system cannot read it.
    """
    with _reading(path, whole=True) as file:
        document = upgraded(file.document(), file.version)
        with one_blas_thread(openmp=False):  # as in a fit: searches are built again, to the same bits
            model = ModelDecoder(file.array).decode(document["model"])
        if not is_estimator(class_name(type(model)) or ""):
            raise ValueError("it holds no estimator")
        return model


def read_metadata(path: str | os.PathLike[str]) -> Any:
    """Return the metadata that a model was saved with, None where there were none, without reading its arrays.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    ValueError, OSError
        As `load_model`; damages of the arrays are not seen.
    """
    with _reading(path, whole=False) as file:
        return upgraded(file.document(), file.version)["metadata"]


def save_estimator(self: Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the estimator to a file that `manifoldry.load` reads: arrays and JSON, no pickle.

    Parameters
    ----------
    path : str or path
        Where the file shall be; the suffix is ``.mfy`` by custom.
    overwrite : bool
        Whether a file that is there already may be replaced.
    """
    save_model(self, path, overwrite=overwrite)


def upgraded(document: Json, version: int) -> Json:
    """Return a document of an older format as one of today's."""
    for older in range(version, FORMAT_VERSION):
        document = UPGRADES[older](document)
    return document


@contextmanager
def _reading(path: str | os.PathLike[str], *, whole: bool) -> Iterator[ModelFile]:
    """Yield the file; what is wrong in it becomes one sentence with its name."""
    with Path(path).open("rb") as opened:
        try:
            yield ModelFile(opened, whole=whole)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise ValueError(f"{str(path)!r} cannot be loaded: its parts lie outside of it.") from None
        except DAMAGES as error:
            reason = (
                str(error).strip().rstrip(".") if isinstance(error, ValueError) else "its parts do not fit together"
            )
            raise ValueError(f"{str(path)!r} cannot be loaded: {reason}.") from None


def _refuse_other_models(model: Any) -> None:
    last = model.steps[-1][1] if class_name(type(model)) == "sklearn.Pipeline" else model
    if class_name(type(last)) not in ESTIMATORS:
        what = "Pipeline ending in a " if last is not model else ""
        raise ValueError(
            "A model file holds an estimator of manifoldry, or a Pipeline that ends with one; "
            f"got a {what}{type(last).__name__}."
        )


def _versions() -> dict[str, str]:
    ours = importlib.import_module("manifoldry").__version__
    others = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"manifoldry": ours, "python": platform.python_version(), **others}


# The file around a model: a zip archive of one JSON document and arrays, sealed by a checksum of all its bytes.
#
# The archive's comment says "manifoldry model 1 sha256 ..." with the version of the format and the checksum of every
# byte before it. Members are read by our own rules: their names are known beforehand and never become paths, their
# sizes are checked against the file and the memory before anything is unpacked, and the head of an array must be, byte
# by byte, that of the type and shape that the document says.

FORMAT_VERSION = 1
"""Raised with every change that an older version of this library could not read; see `UPGRADES`."""
DOCUMENT = "manifoldry.json"
SEAL = re.compile(rb"PK\x05\x06.{16}(..)(manifoldry model (\d{1,6}) sha256 )([0-9a-f]{64})\Z", re.DOTALL)
"""End of every model file: the zip archive's end record, whose comment has the version and the checksum."""
MAX_TAIL, DIGEST_LENGTH = 128, 64
"""Bytes at the end that hold the seal, and those of them that the checksum itself takes."""
MAX_EXPANSION = 100
"""Bytes that a byte of the file may stand for. Saved models are written so, without compression where it would pack
them tighter; what claims more is made to fill the memory."""
MAX_DOCUMENT_BYTES = 32 * 2**20
"""Largest JSON document: that of a model has kilobytes, with the names of 100,000 columns 3 MB."""
MAX_PARTS = 400_000
"""Most lists and dictionaries in the document, counted by their brackets: fitted models have some hundreds. At this
limit the slowest document takes 3 seconds, one of empty lists 0.8."""
COMPRESSION_LEVEL, N_TRIED_BYTES, MIN_GAIN = 1, 2**18, 1.15
"""zlib's fastest level, and the gain on the first bytes of an array from which it is compressed: random digits take
seconds per 100 MB and become 5 percent smaller."""
CHUNK_BYTES = 2**20
MAX_AXES = 16
MADE_ELSEWHERE = {
    b"\x80": "a pickle, which would run code when it is loaded",
    b"x": "a compressed pickle of joblib, which would run code when it is loaded",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "an array in numpy's format",
    b"\x89HDF": "an HDF5 file",
    b"PAR1": "a Parquet file",
    b"PK": "a zip archive of something else",
}
"""First bytes of files that come instead of a model, and what they are."""


def write_container(path: Path, document: Json, arrays: list[Array]) -> None:
    """Write a document and arrays; the same ones give the same bytes."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ValueError(
            f"The model's description takes {len(text) / 1e6:,.0f} MB, and a model file has room for "
            f"{MAX_DOCUMENT_BYTES / 1e6:,.0f} MB: keep the metadata small."
        )
    if _n_parts(text) > MAX_PARTS:
        raise ValueError(
            f"The model's description has {_n_parts(text):,} parts, and a model file has room for {MAX_PARTS:,}: keep "
            "the metadata small, or fit fewer components and patches."
        )
    whole = len(text) + sum(array.nbytes for array in arrays)
    _write_members(path, text, arrays, compressed=True)
    if whole > MAX_EXPANSION * path.stat().st_size:
        _write_members(path, text, arrays, compressed=False)


def _write_members(path: Path, text: bytes, arrays: list[Array], *, compressed: bool) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        _write_member(archive, DOCUMENT, [text], compressed)
        for number, array in enumerate(arrays):
            parts = [array_head(array.dtype.str, list(array.shape)), array.reshape(-1).view(np.uint8).data]
            _write_member(archive, member_name(number), parts, compressed)
        archive.comment = f"manifoldry model {FORMAT_VERSION} sha256 {'0' * DIGEST_LENGTH}".encode()
    with path.open("r+b") as file:
        digest = _digest(file)
        file.seek(-DIGEST_LENGTH, os.SEEK_END)
        file.write(digest)


def _write_member(archive: zipfile.ZipFile, name: str, parts: list[Any], compressed: bool) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, 0o644 << 16  # the same on every system
    info.file_size = sum(len(part) for part in parts)
    tried = bytes(parts[-1][:N_TRIED_BYTES])
    if compressed and len(tried) > MIN_GAIN * len(zlib.compress(tried, COMPRESSION_LEVEL)):
        info.compress_type = zipfile.ZIP_DEFLATED
        info._compresslevel = COMPRESSION_LEVEL  # type: ignore[attr-defined]  # an open member takes no argument for it
    with archive.open(info, "w") as member:
        for part in parts:
            for lo in range(0, len(part), CHUNK_BYTES):
                member.write(part[lo : lo + CHUNK_BYTES])


def member_name(number: int) -> str:
    """Return the name of an array in the archive."""
    return f"arrays/{number}.npy"


def array_head(dtype: str, shape: list[int]) -> bytes:
    """Return the head of an array in numpy's format 1.0: rows in C order, type and shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    padded = text + " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def _digest(file: BinaryIO) -> bytes:
    """Return the checksum of a file without its last bytes, which hold it."""
    left = file.seek(0, os.SEEK_END) - DIGEST_LENGTH
    file.seek(0)
    found = hashlib.sha256()
    while left > 0:
        block = file.read(min(left, CHUNK_BYTES))
        if not block:
            break
        found.update(block)
        left -= len(block)
    return found.hexdigest().encode()


class ModelFile:
    """A model file open for reading; what is wrong with it is a ValueError that ends in the middle of a sentence."""

    def __init__(self, file: BinaryIO, *, whole: bool) -> None:
        """Check the seal, with ``whole`` the checksum too, and the sizes of all members."""
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        self.size = file.seek(0, os.SEEK_END)
        self._read: set[int] = set()
        self.version = self._check_seal(file, whole)
        self._archive = zipfile.ZipFile(file)
        members = self._archive.infolist()
        self._members = {info.filename: info for info in members}
        if len(self._members) < len(members):
            raise ValueError("two of its members have the same name")
        names = {DOCUMENT, *(member_name(number) for number in range(len(members) - 1))}
        if set(self._members) != names:
            raise ValueError("it has other members than a model has")
        for info in members:
            if info.flag_bits or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("a member is packed in an unknown way")
        self._check_sizes(members)

    def _check_seal(self, file: BinaryIO, whole: bool) -> int:
        file.seek(0)
        head = file.read(64)
        file.seek(max(0, self.size - MAX_TAIL))
        seal = SEAL.search(file.read(MAX_TAIL))
        began = head[:4] == b"PK\x03\x04" and head[30:].startswith(DOCUMENT.encode())
        if not began or seal is None or int.from_bytes(seal[1], "little") != len(seal[2]) + DIGEST_LENGTH:
            raise ValueError(_what_else(head))
        version = int(seal[3])
        if not 1 <= version <= FORMAT_VERSION:
            raise ValueError(
                f"it has format {version}, and this version of manifoldry reads formats up to {FORMAT_VERSION}: "
                "install a newer one"
            )
        if whole and _digest(file) != seal[4]:
            raise ValueError("its checksum does not match its bytes: it was damaged or changed; save the model again")
        return version

    def _check_sizes(self, members: list[zipfile.ZipInfo]) -> None:
        total = sum(info.file_size for info in members)
        if total > MAX_EXPANSION * self.size:
            raise ValueError(f"its {self.size:,} bytes claim to hold {total:,}, more than any saved model does")
        if self._members[DOCUMENT].file_size > MAX_DOCUMENT_BYTES:
            raise ValueError(f"its JSON document is longer than {MAX_DOCUMENT_BYTES:,} bytes")
        left = available_memory()
        if total > left:
            raise ValueError(f"it takes {total / 1e6:,.0f} MB of memory, and {left / 1e6:,.0f} MB are available")

    def document(self) -> Json:
        """Return the JSON document."""
        with self._archive.open(self._members[DOCUMENT]) as member:
            text = member.read()
        if _n_parts(text) > MAX_PARTS:
            raise ValueError(f"its JSON document has {_n_parts(text):,} parts, more than any saved model has")
        document = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
        if not isinstance(document, dict) or document.get("format") != self.version:
            raise ValueError("its document is none of a model, or of another format than the file says")
        return document

    def array(self, number: int, dtype: str, shape: list[int]) -> Array:
        """Return an array of this type and shape, which the head of the member must have too."""
        kind = array_type(dtype)
        if not isinstance(shape, list) or len(shape) > MAX_AXES:
            raise ValueError("it has an array of an impossible shape")
        if not all(type(size) is int and 0 <= size <= self.size * MAX_EXPANSION for size in [*shape, number]):
            raise ValueError("it has an array of an impossible shape")
        if number in self._read:  # what is shared is stored once and named by its id
            raise ValueError(f"array {number} stands for two values")
        self._read.add(number)
        info, head = self._members[member_name(number)], array_head(dtype, shape)
        if info.file_size != len(head) + int(np.prod(shape, dtype=object)) * kind.itemsize:
            raise ValueError(f"array {number} has another size than its shape says")
        array = np.empty(shape, dtype=np.dtype(dtype))
        entries = array.reshape(-1).view(np.uint8)
        with self._archive.open(info) as member:
            if member.read(len(head)) != head:
                raise ValueError(f"array {number} has another head than its type and shape say")
            for lo in range(0, len(entries), CHUNK_BYTES):
                chunk = member.read(min(CHUNK_BYTES, len(entries) - lo))
                entries[lo : lo + CHUNK_BYTES] = np.frombuffer(chunk, np.uint8)
            if member.read(1):
                raise ValueError(f"array {number} has more bytes than it says")
        if kind.kind == "b" and entries.size and entries.max() > 1:
            raise ValueError(f"array {number} has truth values other than true and false")
        return array.astype(kind, copy=False)


def _what_else(head: bytes) -> str:
    """Return what a file is that is no whole model file."""
    if not head:
        return "it is empty"
    if DOCUMENT.encode() in head:
        return "its end is missing: it was cut off or damaged; save or copy the model again"
    for start, name in MADE_ELSEWHERE.items():
        if head.startswith(start):
            return f"it is {name}"
    return "it is no model file of manifoldry"


def _n_parts(text: bytes) -> int:
    """Return an upper bound on the number of lists and dictionaries in a JSON document."""
    return text.count(b"[") + text.count(b"{")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"its document has {name} for a number")
