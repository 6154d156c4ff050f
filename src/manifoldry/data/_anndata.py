"""Embeddings of AnnData objects, stored under the names that scanpy's tools and plots expect."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from manifoldry._core.run import Run
from manifoldry._numerics.geometry.neighbor_affinity import fuzzy_simplicial_set

DEFAULT_REPRESENTATION = "X_pca"  # the entry of ``obsm`` that is embedded by default, if it exists: that of scanpy


def embed_anndata(  # noqa: PLR0913
    adata: Any,
    estimator: Any,
    *,
    use_rep: str | None = None,
    layer: str | None = None,
    y: Any = None,
    key_added: str | None = None,
    overwrite: bool = False,
    copy: bool = False,
) -> Any:
    """Fit an estimator to an AnnData object and store the embedding where scanpy's plots find it.

    Parameters
    ----------
    adata : AnnData
        Cells in rows.
    estimator : estimator or pipeline
        Any method of this library, or a scikit-learn pipeline that ends with one; it is fitted.
    use_rep : str, optional
        The entry of ``obsm`` to embed, or "X"; by default "X_pca" if it exists, otherwise ``X``.
    layer : str, optional
        The layer to embed instead.
    y : str or array, optional
        Targets of a supervised fit: the name of a column of ``obs``, or one value for each cell. Cells without one (-1,
        NaN, None) are unknown; a word such as "unassigned" is an ordinary class. `UMAP` and `ColoredMVU` always use
        targets, some methods with a ``target_weight`` above 0; most methods ignore them.
    key_added : str, optional
        Name in ``obsm``; by default "X_umap" for `UMAP`, "X_isomap" for `Isomap`, and so on.
    overwrite : bool
        Whether to replace results of other programs under the same names, such as those of ``sc.tl.umap``; earlier
        results of this function are replaced in any case.
    copy : bool
        Whether to leave ``adata`` as it is and return a copy with the results.

    Returns
    -------
    AnnData or None
        The copy, if requested. The results are ``obsm["X_umap"]`` (coordinates); ``uns["umap"]`` (parameters, scores
        and advice); and for methods with a neighbor graph ``obsp["umap_distances"]``, ``obsp["umap_connectivities"]``
        and ``uns["umap_neighbors"]``, so that ``sc.tl.leiden(adata, neighbors_key="umap_neighbors")`` uses the graph.

    Notes
    -----
    Connectivities are the affinities of the method if it has any, otherwise the fuzzy simplicial set of its graph, as
    in ``sc.pp.neighbors``. `transform_anndata` maps the cells of another object to the same coordinates.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from manifoldry import Isomap, embed_anndata
    >>> adata = anndata.AnnData(np.random.default_rng(0).normal(size=(60, 5)))
    >>> embed_anndata(adata, Isomap(n_neighbors=8))
    >>> adata.obsm["X_isomap"].shape, sorted(adata.obsp)
    ((60, 2), ['isomap_connectivities', 'isomap_distances'])
    """
    _check_anndata(adata)
    where = _source(adata, use_rep, layer)
    model = _last_step(estimator)
    key = _key(model, key_added)
    metric = getattr(model, "metric", "euclidean")
    if isinstance(metric, str) and metric in ("precomputed", "gram", "affinity"):
        raise ValueError(f"embed_anndata embeds rows; metric={metric!r} needs pairs: call fit_transform with obsp.")
    if where == ("obsm", key):
        raise ValueError(f"The result would overwrite what is embedded, obsm[{key!r}]; use another key_added.")
    _check_replacing(adata, key, overwrite=overwrite)
    rows, targets = _rows(adata, where), _targets(adata, y)
    adata = adata.copy() if copy else adata
    adata.obsm[key] = np.asarray(estimator.fit_transform(rows, targets))
    name = key.removeprefix("X_")
    parameters = _parameters(model, where)
    if targets is not None:
        parameters["targets"] = f"obs/{y}" if isinstance(y, str) else "given"
    adata.uns[name] = {"params": parameters, **_diagnostics(model)}
    _store_graph(adata, model, name, where)
    return adata if copy else None


def transform_anndata(
    adata: Any,
    estimator: Any,
    reference: Any,
    *,
    key_added: str | None = None,
    overwrite: bool = False,
    copy: bool = False,
) -> Any:
    """Map the cells of another AnnData object to the coordinates that `embed_anndata` computed for a reference.

    Parameters
    ----------
    adata : AnnData
        New cells, with the same genes in the same order, or with the same representation (as ``sc.tl.ingest`` computes
        "X_pca" from the reference's components).
    estimator : fitted estimator or pipeline
        The estimator that `embed_anndata` fitted.
    reference : AnnData
        The object that it was fitted to, in which `embed_anndata` recorded its input.
    key_added : str, optional
        Name in ``obsm`` of both objects.
    overwrite : bool
        Whether to replace results of other programs under the same names; earlier results of this library are replaced
        in any case.
    copy : bool
        Whether to leave ``adata`` as it is and return a copy with the results.

    Returns
    -------
    AnnData or None
        The copy, if requested; ``obsm`` holds the coordinates under the same name as in the reference, and ``uns`` the
        parameters.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from manifoldry import Isomap, embed_anndata, transform_anndata
    >>> cells = anndata.AnnData(np.random.default_rng(0).normal(size=(60, 5)))
    >>> model = Isomap(n_neighbors=8)
    >>> embed_anndata(cells, model)
    >>> transform_anndata(cells[:7], model, cells, copy=True).obsm["X_isomap"].shape
    (7, 2)
    """
    _check_anndata(adata)
    _check_anndata(reference)
    key = _key(_last_step(estimator), key_added)
    stored = reference.uns.get(key.removeprefix("X_"), {})
    if key not in reference.obsm or "params" not in stored or "embedded" not in stored["params"]:
        raise ValueError(f"The reference has no embedding {key!r} by embed_anndata; call that first.")
    slot, _, name_in_slot = str(stored["params"]["embedded"]).partition("/")
    where = (slot, name_in_slot)
    if where[0] != "obsm" and list(adata.var_names) != list(reference.var_names):
        raise ValueError(
            "adata has other genes than the reference, or the same in another order: pass "
            "adata[:, reference.var_names], or embed a representation that exists in both."
        )
    _check_replacing(adata, key, overwrite=overwrite)
    adata = adata.copy() if copy else adata
    adata.obsm[key] = np.asarray(estimator.transform(_rows(adata, where)))
    name = key.removeprefix("X_")
    if not _is_ours(adata, name):
        adata.uns[name] = {"params": dict(stored["params"])}
    return adata if copy else None


def _check_anndata(adata: Any) -> None:
    if not all(hasattr(adata, name) for name in ("obsm", "obsp", "uns", "layers", "n_obs")):
        raise ValueError(f"An AnnData object is needed; got a {type(adata).__name__}: for a table call fit_transform.")


def _check_replacing(adata: Any, key: str, *, overwrite: bool) -> None:
    """Raise an error, before any work, if results of other programs would be replaced."""
    name = key.removeprefix("X_")
    if overwrite or _is_ours(adata, name):
        return
    written = {
        "obsm": (key,),
        "uns": (name, f"{name}_neighbors"),
        "obsp": (f"{name}_distances", f"{name}_connectivities"),
    }
    existing = [
        f"{slot}[{each!r}]" for slot, names in written.items() for each in names if each in getattr(adata, slot)
    ]
    if existing:
        raise ValueError(
            f"adata has results of another program in {', '.join(existing)}, which would be overwritten; give another "
            f"name (key_added={key + '_manifoldry'!r}), or pass overwrite=True."
        )


def _is_ours(adata: Any, name: str) -> bool:
    """Tell whether the results under a name come from `embed_anndata`, which records its input."""
    stored = adata.uns.get(name)
    parameters = stored.get("params") if isinstance(stored, Mapping) else None
    return isinstance(parameters, Mapping) and "embedded" in parameters


def _source(adata: Any, use_rep: str | None, layer: str | None) -> tuple[str, str]:
    """Return what is embedded: ("X", ""), ("obsm", key) or ("layers", key)."""
    if layer is not None:
        if use_rep not in (None, "X"):
            raise ValueError(f"use_rep={use_rep!r} and layer={layer!r} cannot both be embedded; give one of them.")
        return _existing(adata, "layers", layer)
    if use_rep is None:
        use_rep = DEFAULT_REPRESENTATION if DEFAULT_REPRESENTATION in adata.obsm else "X"
    return ("X", "") if use_rep == "X" else _existing(adata, "obsm", use_rep)


def _targets(adata: Any, y: Any) -> Any:
    """Return the targets of a fit: a column of ``obs`` by its name, or the given values."""
    if not isinstance(y, str):
        return y
    if y not in adata.obs:
        raise ValueError(f"obs has no column {y!r}; it has {', '.join(map(repr, adata.obs)) or 'none'}.")
    return adata.obs[y]


def _existing(adata: Any, slot: str, key: str) -> tuple[str, str]:
    keys = list(getattr(adata, slot))
    if key not in keys:
        raise ValueError(f"{slot} has no {key!r}; it has {', '.join(map(repr, keys)) or 'nothing'}.")
    return slot, key


def _rows(adata: Any, where: tuple[str, str]) -> Any:
    slot, key = where
    if slot != "X":
        return getattr(adata, slot)[_existing(adata, slot, key)[1]]
    if getattr(adata, "isbacked", False):
        raise ValueError("X of this AnnData is in its file; load it first: adata.to_memory().")
    if adata.X is None:
        raise ValueError("This AnnData has no X; name an entry of obsm with use_rep, or a layer.")
    return adata.X


def _last_step(estimator: Any) -> Any:
    """Return the method: the last step of a pipeline, or the estimator itself."""
    steps = getattr(estimator, "steps", None)
    model = steps[-1][1] if isinstance(steps, list) and steps else estimator
    if isinstance(model, type) or not hasattr(model, "fit_transform"):
        advice = " A clustering goes into obs: adata.obs[name] = model.fit_predict(adata.obsm['X_pca'])."
        advice = advice if hasattr(model, "fit_predict") else ""
        raise ValueError(f"estimator must be an embedder such as UMAP(); got {model!r}.{advice}")
    return model


def _key(model: Any, key_added: str | None) -> str:
    return f"X_{type(model).__name__.lower()}" if key_added is None else str(key_added)


def _parameters(model: Any, where: tuple[str, str]) -> dict[str, Any]:
    """Return the method, its input, and its parameters in types that an h5ad file can hold."""
    parameters = model.get_params(deep=False)
    return {
        "method": type(model).__name__,
        "embedded": "/".join(filter(None, where)),
        **{name: _writable(value) for name, value in parameters.items() if value is not None and not callable(value)},
    }


def _diagnostics(model: Any) -> dict[str, Any]:
    """Return advice, scores and seconds of a fit."""
    diagnostics = getattr(model, "diagnostics_", {})
    stored: dict[str, Any] = {"advice": np.array(diagnostics.get("advice", ()), dtype=object).astype(str)}
    if "figures" in diagnostics:
        scores = dict(diagnostics["figures"])
        stored["pca_figures"] = scores.pop("pca", {})
        stored["figures"] = scores
    stored["seconds"] = float(sum(diagnostics.get("seconds", {}).values()))
    return stored


def _writable(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_, numbers.Integral, numbers.Real, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return value
    return repr(value)


def _store_graph(adata: Any, model: Any, name: str, where: tuple[str, str]) -> None:
    """Store the neighbor graph of all cells, if the method has one, as ``sc.pp.neighbors`` does."""
    graph = getattr(model, "graph_", None)
    if graph is None or graph.n_points != adata.n_obs:
        return
    weights = getattr(model, "affinity_matrix_", None)
    if weights is None or weights.shape != (adata.n_obs, adata.n_obs):
        weights = fuzzy_simplicial_set(graph, Run(0))
    keys = {"distances_key": f"{name}_distances", "connectivities_key": f"{name}_connectivities"}
    # scanpy's tools multiply with *, which is elementwise for a sparse array.
    adata.obsp[keys["distances_key"]] = csr_matrix(graph.to_sparse())
    adata.obsp[keys["connectivities_key"]] = csr_matrix(weights)
    params = {
        "method": "manifoldry",
        "n_neighbors": int(np.median(graph.degrees)),
        "metric": _writable(getattr(model, "metric", "euclidean")),
        "use_rep": where[1] if where[0] == "obsm" else "X",
    }
    adata.uns[f"{name}_neighbors"] = {**keys, "params": params}
