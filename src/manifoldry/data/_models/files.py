"""Saving and loading of models. A file is a zip archive of one JSON document and arrays, sealed by a checksum.

Nothing in a file is trusted: names of members are fixed and never become paths, their sizes are checked before anything
is unpacked, and the header of an array must match the type and shape in the document.
"""

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
from manifoldry._core.run import one_blas_thread
from manifoldry._core.values import Array
from manifoldry.data._models.classes import ESTIMATORS, is_estimator, tag_of
from manifoldry.data._models.codec import Json, ModelDecoder, ModelEncoder, array_type

UPGRADES: dict[int, Callable[[Json], Json]] = {}
"""For each older format, the function that converts its document to the next (docs/reference/model_files.md)."""
DAMAGES = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError, RuntimeError),
    *(TypeError, ValueError, struct.error, zipfile.BadZipFile, zlib.error),
)
"""What reading a damaged file may raise. Errors of the operating system are passed on."""


def save_model(model: Any, path: str | os.PathLike[str], *, metadata: Any = None, overwrite: bool = False) -> None:
    """Write a model to a file that `load_model` reads: arrays and JSON, no pickle.

    Parameters
    ----------
    model : estimator
        An estimator of this library, fitted or not; or a scikit-learn Pipeline of SimpleImputer, StandardScaler,
        RobustScaler, MinMaxScaler, Normalizer, FunctionTransformer (of a function of numpy such as ``log1p``), PCA or
        TruncatedSVD that ends with one.
    path : str or path
        The file to write, by convention with the suffix ``.mfy``.
    metadata : JSON, optional
        Anything that JSON can hold, stored with the model: `read_metadata` returns it.
    overwrite : bool
        Whether an existing file may be replaced.

    Raises
    ------
    ValueError
        If the model contains something that a file cannot hold, such as a Python function as its metric. A
        ``callback`` and the cache of a pipeline are left out.
    FileExistsError
        If the file exists and may not be replaced.

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
    last = model.steps[-1][1] if tag_of(type(model)) == "sklearn.Pipeline" else model
    if tag_of(type(last)) not in ESTIMATORS:
        what = "Pipeline ending in a " if last is not model else ""
        raise ValueError(
            "A model file holds an estimator of manifoldry, or a Pipeline that ends with one; "
            f"got a {what}{type(last).__name__}."
        )
    try:
        stored = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata must be what JSON can hold; {error}.") from None
    encoder = ModelEncoder()
    encoded = encoder.encode(model, type(model).__name__)
    versions = {
        "manifoldry": importlib.import_module("manifoldry").__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }
    document = {"format": FORMAT_VERSION, "versions": versions, "metadata": stored, "model": encoded}
    with new_file(path, overwrite=overwrite) as part:
        write_container(part, document, encoder.arrays)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file that `save_model` wrote.

    Nothing in the file is run, whoever wrote it. The loaded model gives new points the same coordinates, bit-identical
    with the same versions of the libraries.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    ValueError
        If it is not a model file, is damaged, or has a newer format; the message says which.
    OSError
        If the operating system cannot read it.
    """
    with _reading(path, checksum=True) as file:
        document = upgraded(file.document(), file.version)
        with one_blas_thread(openmp=False):  # as in a fit, so that the rebuilt searches are bit-identical
            model = ModelDecoder(file.array).decode(document["model"])
        if not is_estimator(tag_of(type(model)) or ""):
            raise ValueError("it contains no estimator")
        return model


def read_metadata(path: str | os.PathLike[str]) -> Any:
    """Return the metadata that a model was saved with, None if there is none, without reading its arrays.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    ValueError, OSError
        As `load_model`, except that damaged arrays are not detected.
    """
    with _reading(path, checksum=False) as file:
        return upgraded(file.document(), file.version)["metadata"]


def upgraded(document: Json, version: int) -> Json:
    """Return a document of an older format in the current format."""
    for older in range(version, FORMAT_VERSION):
        document = UPGRADES[older](document)
    return document


@contextmanager
def _reading(path: str | os.PathLike[str], *, checksum: bool) -> Iterator[ModelFile]:
    """Yield the file; any damage becomes one error with its name."""
    with Path(path).open("rb") as opened:
        try:
            yield ModelFile(opened, checksum=checksum)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise ValueError(f"{str(path)!r} cannot be loaded: its parts lie outside it.") from None
        except DAMAGES as error:
            reason = (
                str(error).strip().rstrip(".") if isinstance(error, ValueError) else "its parts do not fit together"
            )
            raise ValueError(f"{str(path)!r} cannot be loaded: {reason}.") from None


FORMAT_VERSION = 1  # incremented with every change that an older version of this library could not read; see `UPGRADES`
DOCUMENT = "manifoldry.json"
SEAL = re.compile(rb"PK\x05\x06.{16}(..)(manifoldry model (\d{1,6}) sha256 )([0-9a-f]{64})\Z", re.DOTALL)
"""End of every model file: the end record of the archive, whose comment has the version and the checksum."""
MAX_TAIL, DIGEST_LENGTH = 128, 64  # bytes at the end that hold the seal, and bytes of the checksum in it
MAX_EXPANSION = 100  # maximum ratio of unpacked to stored bytes; `write_container` does not compress beyond it
MAX_DOCUMENT_BYTES = 32 * 2**20  # maximum size of the document: 3 MB with the names of 100,000 columns
MAX_PARTS = 400_000  # maximum number of lists and dictionaries, which take 3 seconds; models have a few hundred
COMPRESSION_LEVEL, N_TRIED_BYTES, MIN_GAIN = 1, 2**18, 1.15
"""zlib's fastest level, and the gain on the first bytes above which an array is compressed: random digits take seconds
per 100 MB and become 5 percent smaller."""
CHUNK_BYTES = 2**20
MAX_AXES = 16
OTHER_FILES = {
    b"\x80": "a pickle, which would run code when it is loaded",
    b"x": "a compressed pickle of joblib, which would run code when it is loaded",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "an array in numpy's format",
    b"\x89HDF": "an HDF5 file",
    b"PAR1": "a Parquet file",
    b"PK": "a zip archive with other contents",
}
"""First bytes of other kinds of files, and what these are."""


def write_container(path: Path, document: Json, arrays: list[Array]) -> None:
    """Write a document and arrays; equal ones give equal bytes."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ValueError(
            f"The model's description takes {len(text) / 1e6:,.0f} MB; a model file has room for "
            f"{MAX_DOCUMENT_BYTES / 1e6:,.0f} MB: keep the metadata small."
        )
    if _n_parts(text) > MAX_PARTS:
        raise ValueError(
            f"The model's description has {_n_parts(text):,} parts; a model file has room for {MAX_PARTS:,}: keep "
            "the metadata small, or fit fewer components and patches."
        )
    n_bytes = len(text) + sum(array.nbytes for array in arrays)
    _write_members(path, text, arrays, compressed=True)
    if n_bytes > MAX_EXPANSION * path.stat().st_size:
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
    info.create_system, info.external_attr = 3, 0o644 << 16  # identical on every system
    info.file_size = sum(len(part) for part in parts)
    tried = bytes(parts[-1][:N_TRIED_BYTES])
    if compressed and len(tried) > MIN_GAIN * len(zlib.compress(tried, COMPRESSION_LEVEL)):
        info.compress_type = zipfile.ZIP_DEFLATED
        info._compresslevel = COMPRESSION_LEVEL  # type: ignore[attr-defined]  # `open` has no argument for it
    with archive.open(info, "w") as member:
        for part in parts:
            for lo in range(0, len(part), CHUNK_BYTES):
                member.write(part[lo : lo + CHUNK_BYTES])


def member_name(number: int) -> str:
    """Return the name of an array in the archive."""
    return f"arrays/{number}.npy"


def array_head(dtype: str, shape: list[int]) -> bytes:
    """Return the header of an array in numpy's format 1.0: type, C order and shape."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    padded = text + " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def _digest(file: BinaryIO) -> bytes:
    """Return the checksum of a file without its last bytes, which hold the checksum."""
    left = file.seek(0, os.SEEK_END) - DIGEST_LENGTH
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
            break
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()


class ModelFile:
    """A model file open for reading. Its errors complete the message "NAME cannot be loaded: ..."."""

    def __init__(self, file: BinaryIO, *, checksum: bool) -> None:
        """Check the seal, the sizes of all members, and with ``checksum`` the checksum."""
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        self.size = file.seek(0, os.SEEK_END)
        self._read: set[int] = set()
        self.version = self._check_seal(file, checksum)
        self._archive = zipfile.ZipFile(file)
        members = self._archive.infolist()
        self._members = {info.filename: info for info in members}
        if len(self._members) < len(members):
            raise ValueError("two of its members have the same name")
        names = {DOCUMENT, *(member_name(number) for number in range(len(members) - 1))}
        if set(self._members) != names:
            raise ValueError("it has other members than a model")
        for info in members:
            if info.flag_bits or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("a member is compressed in an unknown way")
        self._check_sizes(members)

    def _check_seal(self, file: BinaryIO, checksum: bool) -> int:
        file.seek(0)
        head = file.read(64)
        file.seek(max(0, self.size - MAX_TAIL))
        seal = SEAL.search(file.read(MAX_TAIL))
        began = head[:4] == b"PK\x03\x04" and head[30:].startswith(DOCUMENT.encode())
        if not began or seal is None or int.from_bytes(seal[1], "little") != len(seal[2]) + DIGEST_LENGTH:
            raise ValueError(_identify(head))
        version = int(seal[3])
        if not 1 <= version <= FORMAT_VERSION:
            raise ValueError(
                f"it has format {version}, and this version of manifoldry reads formats up to {FORMAT_VERSION}: "
                "install a newer one"
            )
        if checksum and _digest(file) != seal[4]:
            raise ValueError("its checksum does not match its bytes: it was damaged or changed; save the model again")
        return version

    def _check_sizes(self, members: list[zipfile.ZipInfo]) -> None:
        total = sum(info.file_size for info in members)
        if total > MAX_EXPANSION * self.size:
            raise ValueError(f"its {self.size:,} bytes claim to hold {total:,}, more than any saved model")
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
        document = json.loads(text.decode("utf-8"), parse_constant=_reject_constant)
        if not isinstance(document, dict) or document.get("format") != self.version:
            raise ValueError("its document does not describe a model, or has another format than the file states")
        return document

    def array(self, number: int, dtype: str, shape: list[int]) -> Array:
        """Return an array of this type and shape, which the header of the member must match."""
        kind = array_type(dtype)
        if not isinstance(shape, list) or len(shape) > MAX_AXES:
            raise ValueError("it has an array of an impossible shape")
        if not all(type(size) is int and 0 <= size <= self.size * MAX_EXPANSION for size in [*shape, number]):
            raise ValueError("it has an array of an impossible shape")
        if number in self._read:  # shared arrays are stored once and referred to by id
            raise ValueError(f"array {number} stands for two values")
        self._read.add(number)
        info, head = self._members[member_name(number)], array_head(dtype, shape)
        if info.file_size != len(head) + int(np.prod(shape, dtype=object)) * kind.itemsize:
            raise ValueError(f"array {number} has another size than its shape states")
        array = np.empty(shape, dtype=np.dtype(dtype))
        entries = array.reshape(-1).view(np.uint8)
        with self._archive.open(info) as member:
            if member.read(len(head)) != head:
                raise ValueError(f"array {number} has another header than its type and shape state")
            for lo in range(0, len(entries), CHUNK_BYTES):
                chunk = member.read(min(CHUNK_BYTES, len(entries) - lo))
                entries[lo : lo + CHUNK_BYTES] = np.frombuffer(chunk, np.uint8)
            if member.read(1):
                raise ValueError(f"array {number} has more bytes than it states")
        if kind.kind == "b" and entries.size and entries.max() > 1:
            raise ValueError(f"array {number} has booleans other than true and false")
        return array.astype(kind, copy=False)


def _identify(head: bytes) -> str:
    """Return what a file is that is not a complete model file."""
    if not head:
        return "it is empty"
    if DOCUMENT.encode() in head:
        return "its end is missing: it was cut off or damaged; save or copy the model again"
    for start, name in OTHER_FILES.items():
        if head.startswith(start):
            return f"it is {name}"
    return "it is not a manifoldry model file"


def _n_parts(text: bytes) -> int:
    """Return an upper bound on the number of lists and dictionaries in a JSON document."""
    return text.count(b"[") + text.count(b"{")


def _reject_constant(name: str) -> None:
    raise ValueError(f"its document has {name} for a number")
