"""What scikit-learn's decompositions leave behind beside their own attributes, so that all methods can be compared."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manifoldry import check
from manifoldry.base.look import keep_advice, repr_with_advice
from manifoldry.run import Run
from manifoldry.solve.spectrum import Suggestion, elbow
from manifoldry.values import FloatArray, Spectrum


class Wrapped(TransformerMixin):
    """Mixed into a class of scikit-learn: the same computation, and the fitted attributes of our contract."""

    embedding_: FloatArray
    diagnostics_: dict[str, Any]

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit as scikit-learn does and keep the coordinates of the rows in ``embedding_``."""
        began = time.perf_counter()
        super().fit(X)
        fitted = time.perf_counter()
        rows = X.tocsr() if issparse(X) else X  # some transforms slice rows, which not all sparse formats can
        self._keep(rows, self.transform(rows))
        self._look(rows, {"fit": fitted - began, "transform": time.perf_counter() - fitted})
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr_with_advice(super().__repr__(N_CHAR_MAX), self)

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Fit and return the coordinates of the rows, shape (n_samples, n_components)."""
        return self.fit(X, y).embedding_

    def _keep(self, X: Any, scores: Any) -> None:  # noqa: ARG002
        self.embedding_ = scores.toarray() if issparse(scores) else np.asarray(scores)
        self.diagnostics_ = {}

    def _look(self, X: Any, seconds: dict[str, float]) -> None:
        """Keep the seconds and what there is to say about the layout."""
        self.diagnostics_["seconds"] = seconds
        keep_advice(self, X.tocsr() if issparse(X) else np.asarray(X), Run(0))


class WrappedSpectral(Wrapped):
    """The same for principal components, whose eigenpairs are left in ``spectrum_``."""

    spectrum_: Spectrum
    components_: FloatArray
    mean_: FloatArray
    explained_variance_: FloatArray
    explained_variance_ratio_: FloatArray

    def suggest_n_components(self, max_components: int = 10) -> Suggestion:
        """Return the dimension at the elbow of the share of variance left out, and why.

        Parameters
        ----------
        max_components : int
            The largest dimension tried; no more than were fitted.
        """
        check_is_fitted(self, "spectrum_")
        shares = self.explained_variance_ratio_[: check.integer("max_components", max_components, 1)]
        return elbow(1.0 - np.cumsum(shares), "share of the variance left out")

    def _keep(self, X: Any, scores: Any) -> None:
        super()._keep(X, scores)
        rows = X if issparse(X) else np.asarray(X, dtype=np.float64)
        values = (len(self.embedding_) - 1) * self.explained_variance_.astype(np.float64)
        projected = rows @ self.components_.T - self.mean_ @ self.components_.T
        norms = np.linalg.norm(projected, axis=0)
        vectors = projected / np.where(norms > 0, norms, 1.0)
        # X_c X_c' v without the n x n matrix; the row of means carries the centering.
        back = rows.T @ vectors - np.outer(self.mean_, vectors.sum(axis=0))
        images = rows @ back - self.mean_ @ back
        self.spectrum_ = Spectrum(values, vectors, np.linalg.norm(images - values * vectors, axis=0), "largest")
