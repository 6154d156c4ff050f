"""Embeddings over time: data sets with shared rows, laid out in one descent in which shared rows attract each other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from manifoldry._core.arrays import check_in_memory
from manifoldry._core.parameters import Described, PositiveInt, Range, check_parameters, parameter
from manifoldry._core.registry import METHODS
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import FloatArray, IntArray, Trace
from manifoldry._core.warnings import collecting, issue
from manifoldry._numerics.descent.alignment import AlignmentTerm, joined, merged_start
from manifoldry.methods._base._estimator import BaseEstimator, Estimator, estimator, fitted
from manifoldry.methods.neighbor._update import LayoutProblem, UpdateMixin

INITS = ("auto", "spectral", "pca", "random")


@estimator
class AlignedEmbedding(BaseEstimator):
    r"""Embed a sequence of data sets with shared rows, so that shared rows stay close from one map to the next.

    The layouts :math:`Y^1, \dots, Y^T` of all data sets move together. They minimize

    .. math:: \sum_t n_t\, C_t(Y^t) + \frac{\lambda}{2} \sum_{s < t \le s + w} e^{s - t + 1} \sum_{i \sim j}
        \|y^s_i - y^t_j\|^2 ,

    where :math:`C_t` is the objective per point of the estimator for data set t, and :math:`i \sim j` are the rows of
    two data sets that are the same. Each step of the estimator's descent is followed by a proximal step of the second
    sum, which is exact for any weight. All layouts begin at a joint start, with shared rows at the same position.

    Attributes
    ----------
    embeddings_ : list of ndarray of shape (n_samples_t, n_components)
        The layout of each data set, all in one frame.
    models_ : list of estimators
        The fitted estimator of each data set. Each embeds new rows with ``transform`` or ``update``.
    identities_ : list of ndarray of shape (n_samples_t,)
        A number for each row; rows of several data sets that are the same have the same number.
    trace_ : Trace
        The objective per point, and why the descent ended.

    See Also
    --------
    UMAP.update : insert new rows into one layout.

    Notes
    -----
    The alignment is not a test for changes: with a large weight, rows that have moved in the data hardly move in the
    layouts. Compare with a smaller weight, and look at the trustworthiness of each layout.

    References: dadu2023.

    Examples
    --------
    >>> from manifoldry import UMAP, AlignedEmbedding, datasets
    >>> X = datasets.gaussian_clusters(300, random_state=0).X
    >>> sets = [X[:200], X[50:250], X[100:]]
    >>> relations = [{i: i - 50 for i in range(50, 200)}] * 2
    >>> model = AlignedEmbedding(UMAP(n_epochs=50)).fit(sets, relations=relations)
    >>> [Y.shape for Y in model.embeddings_]
    [(200, 2), (200, 2), (200, 2)]
    """

    estimator: Annotated[Any, Described("a UMAP, TSNE, SymmetricSNE or SNE")] | None = parameter(
        "The method and its parameters, `UMAP`, `TSNE`, `SymmetricSNE` or `SNE`, fitted to rows on the CPU; None is "
        '``UMAP()``. Its ``init`` is "auto", "spectral", "pca" or "random".',
        default=None,
        kw_only=False,
    )
    alignment_weight: Annotated[float, Range(0, 1e6)] | Literal["auto"] = parameter(
        r"Weight :math:`\lambda` of the alignment. With 0 every data set is fitted by itself; with a very large weight "
        'shared rows coincide. "auto" is 0.1 for UMAP and 0.01 for the others, which have weaker forces and wider '
        "layouts.",
        default="auto",
    )
    window: PositiveInt = parameter(
        "Number w of following data sets with which each one is aligned.",
        default=3,
    )

    models_: list[Any] = fitted()
    identities_: list[IntArray] = fitted()
    trace_: Trace = fitted()

    @property
    def embeddings_(self) -> list[FloatArray]:
        """The layout of each data set."""
        if "models_" not in vars(self):
            raise AttributeError("AlignedEmbedding has no embeddings_ before it is fitted.")
        return [model.embedding_ for model in self.models_]

    def fit(self, X: Sequence[Any], y: Any = None, *, relations: Sequence[Any] | None = None) -> Self:  # noqa: ARG002
        """Embed the data sets.

        Parameters
        ----------
        X : list of arrays, data frames or sparse matrices of shape (n_samples_t, n_features)
            Two or more data sets with the same columns, in the order of time.
        y : ignored
            For pipelines.
        relations : list of dicts or arrays, optional
            For each data set but the last, which of its rows are rows of the next one: a dict of row numbers, or an
            array of length n_samples_t with the row number in the next data set, -1 for none. Data frames of pandas
            need none: rows with the same name in the index are the same.

        Returns
        -------
        self : estimator
            With ``embeddings_`` and ``models_``. After an error it is unchanged.
        """
        check_parameters(self)
        template = self._template()
        sets = _listed(X)
        models = [clone(template) for _ in sets]
        points = [_validated(model, table, t) for t, (model, table) in enumerate(zip(models, sets, strict=True))]
        _check_columns(models, points)
        identities = _identities(sets, [rows.shape[0] for rows in points], relations)
        for model, rows in zip(models, points, strict=True):
            model._check_parameters(rows.shape[0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trace = self._fit_models(models, points, identities)
        self.models_, self.identities_ = models, identities
        self.__dict__.pop("trace_", None)
        if trace is not None:
            self.trace_ = trace
        if caught:
            others = f" ({len(caught) - 1} more in the diagnostics_ of models_)" if len(caught) > 1 else ""
            issue(f"{caught[0].message}{others}", caught[0].category)
        return self

    def fit_transform(self, X: Sequence[Any], y: Any = None, *, relations: Sequence[Any] | None = None) -> Any:
        """Embed the data sets and return the list of their layouts; parameters are those of `fit`."""
        return self.fit(X, y, relations=relations).embeddings_

    save = Estimator.save

    def _template(self) -> Any:
        """Return the estimator to fit; raise an error if it cannot be aligned."""
        template: Any = import_module(METHODS["UMAP"]).UMAP() if self.estimator is None else self.estimator
        if not isinstance(template, UpdateMixin):
            raise ValueError(f"estimator must be a UMAP, TSNE, SymmetricSNE or SNE; got {self.estimator!r}.")
        given: Any = template
        given._check_declared()
        if given._pairwise:
            raise ValueError(f"AlignedEmbedding needs rows of features; the estimator has metric={given.metric!r}.")
        if not (isinstance(given.init, str) and given.init in INITS):
            raise ValueError(f"init of an aligned estimator must be one of {', '.join(INITS)}; got {given.init!r}.")
        if getattr(given, "device", "cpu") == "cuda":
            raise ValueError("AlignedEmbedding runs on the CPU: use an estimator with device='cpu'.")
        return given

    def _fit_models(self, models: list[Any], points: list[Any], identities: list[IntArray]) -> Trace | None:
        """Fit the estimators to validated data sets."""
        run = Run(models[0].random_state, models[0].n_jobs, models[0].verbose, models[0].callback)
        if self.alignment_weight == 0:
            for model, rows in zip(models, points, strict=True):
                model.random_state = run.seed
                model.fit(rows)
            return None
        n_largest = max(rows.shape[0] for rows in points)
        with one_blas_thread(openmp=False):
            problems: list[LayoutProblem] = [
                model._problem(rows, n_largest, run) for model, rows in zip(models, points, strict=True)
            ]
            layouts, trace, init = self._aligned_layouts(models[0], problems, points, identities, run)
            for model, rows, problem, layout in zip(models, points, problems, layouts, strict=True):
                with collecting(model):
                    model._finish(rows, problem.embedding(layout, trace, init), run)
        return trace

    def _aligned_layouts(
        self, model: Any, problems: list[LayoutProblem], points: list[Any], identities: list[IntArray], run: Run
    ) -> tuple[list[FloatArray], Trace, str]:
        """Return the layouts of all data sets, the trace of their descent, and the kind of start."""
        init = problems[0].otherwise if model.init == "auto" else model.init
        weights = [problem.weights for problem in problems]
        start = merged_start(init, points, weights, identities, model.n_components, run)
        initial = problems[0].initial(start)
        descents = [problem.descent(initial[ids]) for problem, ids in zip(problems, identities, strict=True)]
        ordered = [ids[descent.order] for ids, descent in zip(identities, descents, strict=True)]
        weight = problems[0].alignment_weight if self.alignment_weight == "auto" else float(self.alignment_weight)
        term = AlignmentTerm(ordered, weight, self.window)
        with run.stage("descent"):
            layout, trace = joined(descents, term).run(run)
        if problems[0].centered:
            layout -= layout.mean(axis=0)
        ends = np.cumsum([rows.shape[0] for rows in points])[:-1]
        return np.split(layout, ends), trace, init


def _listed(X: Any) -> list[Any]:
    """Return the data sets as a list."""
    if not isinstance(X, (list, tuple)) or len(X) < 2 or any(np.ndim(table) == 1 for table in X if not issparse(table)):
        given = f"{len(X)} of them" if isinstance(X, (list, tuple)) else type(X).__name__
        raise ValueError(f"AlignedEmbedding needs a list of two or more data sets, each one a table; got {given}.")
    for t, table in enumerate(X):
        check_in_memory(table, f"data set {t}")
    return list(X)


def _validated(model: Any, table: Any, t: int) -> Any:
    try:
        return model._validated(table, reset=True)
    except ValueError as error:
        raise ValueError(f"Data set {t}: {error}") from None


def _check_columns(models: list[Any], points: list[Any]) -> None:
    """Raise an error if the data sets do not have the same columns."""
    for t, (model, rows) in enumerate(zip(models, points, strict=True)):
        if rows.shape[1] != points[0].shape[1]:
            raise ValueError(
                f"All data sets need the same columns: data set 0 has {points[0].shape[1]} and data set {t} has "
                f"{rows.shape[1]}."
            )
        names, first = (list(getattr(each, "feature_names_in_", [])) for each in (model, models[0]))
        if names != first:
            raise ValueError(
                f"All data sets need the same columns in the same order: data set 0 has {first[:5]} and data set {t} "
                f"has {names[:5]}."
            )
        if issparse(rows) != issparse(points[0]):
            raise ValueError("Either all data sets are sparse matrices or none is; got both: use toarray().")


def _identities(sets: list[Any], lengths: list[int], relations: Any) -> list[IntArray]:
    """Return a number for each row of each data set, the same for rows that are the same."""
    if relations is None:
        identity = _identities_by_name(sets)
    else:
        identity = _identities_by_relations(lengths, relations)
    for t, (before, after) in enumerate(pairwise(identity)):
        if not np.isin(before, after).any():
            raise ValueError(
                f"Data sets {t} and {t + 1} share no rows, so their maps cannot be aligned: check the relations (or "
                "the names in the index), or fit the data sets on both sides of this gap separately."
            )
    _, numbers = np.unique(np.concatenate(identity), return_inverse=True)
    return np.split(numbers, np.cumsum(lengths)[:-1])


def _identities_by_name(sets: list[Any]) -> list[IntArray]:
    indexes = [getattr(table, "index", None) for table in sets]
    if not all(hasattr(index, "factorize") for index in indexes):
        raise ValueError(
            "relations are needed for arrays: a list of dicts {row of a data set: row of the next one}. Without them "
            "all data sets must be data frames of pandas, whose index names the rows."
        )
    if all(type(index).__name__ == "RangeIndex" and index.start == 0 for index in indexes):  # type: ignore[union-attr]
        raise ValueError(
            "The data frames have no row names, only the default index 0, 1, ...: use relations, or "
            "table.set_index(column) with a column that identifies the rows."
        )
    for t, index in enumerate(indexes):
        if index.has_duplicates or index.hasnans:  # type: ignore[union-attr]
            raise ValueError(f"The index of data set {t} has duplicate or missing row names: each row needs its own.")
    first: Any = indexes[0]
    numbers = first.append(indexes[1:]).factorize()[0]
    return np.split(numbers, np.cumsum([len(table) for table in sets])[:-1])


def _identities_by_relations(lengths: list[int], relations: Any) -> list[IntArray]:
    if not isinstance(relations, (list, tuple)) or len(relations) != len(lengths) - 1:
        given = f"a list of {len(relations)}" if isinstance(relations, (list, tuple)) else type(relations).__name__
        raise ValueError(
            f"relations must be a list with one entry less than the {len(lengths)} data sets, {len(lengths) - 1}; got "
            f"{given}."
        )
    ends = np.cumsum([0, *lengths])
    identity = [np.arange(lo, hi) for lo, hi in pairwise(ends)]
    for t, relation in enumerate(relations):
        rows, of_next = _pairs(relation, t, lengths[t])
        for name, numbers, n in (("row", rows, lengths[t]), ("row of the next data set", of_next, lengths[t + 1])):
            if len(outside := numbers[(numbers < 0) | (numbers >= n)]):
                raise ValueError(f"relations[{t}] has {outside[0]} as a {name}, which is not between 0 and {n - 1}.")
        values, counts = np.unique(of_next, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"relations[{t}] assigns {counts.max()} rows to row {values[counts.argmax()]} of the next data set: "
                "at most one is possible."
            )
        identity[t + 1][of_next] = identity[t][rows]
    return identity


def _pairs(relation: Any, t: int, n: int) -> tuple[IntArray, IntArray]:
    """Return the rows of a data set and those of the next one that are the same."""
    if isinstance(relation, Mapping):
        pairs = np.array([*relation.items()]) if len(relation) else np.empty((0, 2), dtype=np.int64)
    else:
        of_next = np.asarray(relation)
        if of_next.shape != (n,):
            raise ValueError(
                f"relations[{t}] must be a dict, or an array with one entry for each of the {n} rows of data set {t}; "
                f"got shape {of_next.shape}."
            )
        pairs = np.column_stack([np.arange(n), of_next])
        pairs = pairs[of_next != -1]
    if pairs.ndim != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"relations[{t}] must map row numbers, which are integers; got {pairs.dtype}.")
    return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
