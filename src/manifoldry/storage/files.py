"""Saving and loading of models."""

from __future__ import annotations

import errno
import importlib
import importlib.metadata
import json
import os
import platform
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manifoldry.atomic import new_file
from manifoldry.blas import one_blas_thread
from manifoldry.storage.container import FORMAT_VERSION, ModelFile, write_container
from manifoldry.storage.decode import ModelDecoder
from manifoldry.storage.encode import Json, ModelEncoder
from manifoldry.storage.names import ESTIMATORS, class_name, is_estimator

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
