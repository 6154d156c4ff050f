"""Block Davidson: the lowest pairs of a symmetric problem, with or without an approximate inverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.run import Run
from manifoldry.solve.eigen.pencil import BlockOperator, Pencil, require_sound
from manifoldry.values import FloatArray

MAX_BASIS_BLOCKS = 10
"""Maximum number of blocks in the basis before a restart."""

MAX_STALLED_STEPS = 3
"""Steps without progress after which an accepted residual is taken for converged."""

MAX_HALVING_STEPS = 100
"""Maximum number of steps in which the residual must have halved for the iteration to go on."""


@dataclass(frozen=True)
class Tolerance:
    """When a residual, relative to the norm of H, is small enough.

    Iterate until ``aim``; ``accept`` is required of an answer. ``angle`` is the wanted error residual / gap of the span
    of the vectors, where ``rounding`` allows it. ``tolerable`` is returned with a warning where nothing better was
    found; 0 for never.
    """

    aim: float
    accept: float
    angle: float
    rounding: float
    tolerable: float = 0.0

    @classmethod
    def of(cls, tol: float | None, eps: float) -> Tolerance:
        """Return the user's tolerance, or one proportional to the rounding unit (1e-14 and 1e-12 in double)."""
        if tol is None:
            return cls(45 * eps, 4500 * eps, 1e-8, eps)
        if not tol > 0:
            raise ValueError(f"tol must be positive; got {tol}.")
        return cls(tol, tol, np.inf, min(tol, eps))


@dataclass(frozen=True)
class Ritz:
    """Approximate lowest pairs of H, ascending: Rayleigh quotients and orthonormal vectors.

    ``residuals`` are ``|H u - theta u|``, the known vectors projected out; ``norm`` is an estimate of that of H;
    ``settled`` says whether the iteration converged before its maximum number of steps.
    """

    values: FloatArray
    vectors: FloatArray
    residuals: FloatArray
    norm: float
    settled: bool = False

    def error(self, k: int) -> float:
        """Return the largest residual of the first k pairs, relative to the norm; infinite if there are fewer."""
        if len(self.values) < k:
            return np.inf
        worst = float(self.residuals[:k].max(initial=0.0))
        return worst / self.norm if self.norm > 0 else worst

    def needed(self, k: int, tolerance: Tolerance) -> float:
        """Return the relative residual that gives the first k vectors the wanted angle to the rest."""
        if len(self.values) <= k or self.norm == 0 or np.isinf(tolerance.angle):
            return tolerance.aim
        gap = float(self.values[k] - self.values[k - 1]) / self.norm
        return max(tolerance.rounding, min(tolerance.aim, tolerance.angle * gap))


class Basis:
    """An orthonormal basis V, its image H V and the projection V' H V, growing by blocks."""

    def __init__(self, pencil: Pencil, start: Ritz, capacity: int) -> None:
        self.pencil = pencil
        self.norm = start.norm
        self._v = np.empty((pencil.n, capacity), order="F")
        self._hv = np.empty((pencil.n, capacity), order="F")
        self._projection = np.empty((0, 0))
        self._theta = np.empty(0)
        self._rotation = np.empty((0, 0))
        self.size = 0
        self.add(start.vectors)

    @property
    def vectors(self) -> FloatArray:
        """V."""
        return self._v[:, : self.size]

    @property
    def images(self) -> FloatArray:
        """H V."""
        return self._hv[:, : self.size]

    def add(self, block: FloatArray) -> None:
        """Append the part of a block that is orthogonal to the basis and to the known vectors."""
        new = orthonormal(block, self.pencil.known, self.vectors)
        image = self.pencil.apply(new)
        corner = new.T @ image
        require_sound(corner, image, self.norm, self.pencil.eps)
        side = self.vectors.T @ image
        self._projection = np.block([[self._projection, side], [side.T, (corner + corner.T) / 2]])
        end = self.size + new.shape[1]
        self._v[:, self.size : end] = new
        self._hv[:, self.size : end] = image
        self.size = end

    def ritz(self, width: int) -> tuple[Ritz, FloatArray]:
        """Return the lowest ``width`` Ritz pairs and their residual vectors."""
        self._theta, self._rotation = np.linalg.eigh(self._projection)
        self.norm = max(self.norm, float(np.abs(self._theta).max()))
        values, Y = self._theta[:width], self._rotation[:, :width]
        vectors = self.vectors @ Y
        defects = self.images @ Y - vectors * values
        defects -= self.pencil.known @ (self.pencil.known.T @ defects)
        return Ritz(values, vectors, np.linalg.norm(defects, axis=0), self.norm), defects

    def condense(self, keep: int) -> None:
        """Restart with the lowest ``keep`` Ritz vectors."""
        Y = self._rotation[:, :keep]
        self._v[:, :keep], self._hv[:, :keep] = self.vectors @ Y, self.images @ Y
        self._projection = np.diag(self._theta[:keep])
        self.size = keep


def davidson(
    pencil: Pencil, start: Ritz, k: int, precondition: BlockOperator, steps: int, tolerance: Tolerance, run: Run
) -> Ritz:
    """Return the lowest Ritz pairs after at most ``steps`` expansions of the span of ``start.vectors``.

    Each step adds M r for the residuals r = H u - theta u of a block of Ritz vectors. With M = I this is
    block Lanczos, with M = (H - sigma)^-1 shift-and-invert block Lanczos, with a multigrid cycle a
    relative of LOBPCG. H itself does the Rayleigh-Ritz step, so the error of M costs steps, not accuracy.
    A block as wide as the number of wanted pairs finds them with their multiplicities.

    References: davidson1975, morgan1986
    """
    width = start.vectors.shape[1]
    capacity = min(MAX_BASIS_BLOCKS * width, pencil.n - pencil.known.shape[1])
    basis = Basis(pencil, start, capacity)
    errors: list[float] = []
    for step in range(steps + 1):
        ritz, defects = basis.ritz(width)
        errors.append(ritz.error(k))
        run.step(step, steps, f"residual {errors[-1]:.1e}")
        stalled = errors[-1] > 0.7 * min(errors[:-MAX_STALLED_STEPS], default=np.inf)
        if errors[-1] <= ritz.needed(k, tolerance) or (stalled and errors[-1] <= tolerance.accept):
            return rayleigh_ritz(pencil, ritz, settled=True)
        if step == steps or errors[-1] > 0.5 * min(errors[:-MAX_HALVING_STEPS], default=np.inf):
            break
        if basis.size + width > capacity:
            basis.condense(max(width, 2 * capacity // 5))
        active = ritz.residuals > tolerance.rounding * ritz.norm
        directions = precondition(defects[:, active])
        if not np.isfinite(directions).all():
            break
        basis.add(directions)
    return rayleigh_ritz(pencil, ritz, settled=False)


def rayleigh_ritz(pencil: Pencil, ritz: Ritz, *, settled: bool) -> Ritz:
    """Return the Ritz pairs of the span of ``ritz.vectors``, from fresh products with H.

    The projection onto the whole basis carries rounding of the size of eps |H|, because the basis holds
    rough vectors; between smooth vectors alone it is eps |H| / sqrt(n). On the alignment matrix of a roll
    of 50,000 points, whose wanted values are 5e-13 |H|, this took the error from 3e-5 to 5e-7.
    """
    fresh = Basis(pencil, ritz, ritz.vectors.shape[1])
    again, _ = fresh.ritz(fresh.size)
    return Ritz(again.values, again.vectors, again.residuals, again.norm, settled)


def orthonormal(block: FloatArray, *bases: FloatArray) -> FloatArray:
    """Return as many orthonormal columns as ``block`` has, spanning what of it is orthogonal to the bases.

    Columns that depend on the others become directions of rounding, which do no harm to the iteration.
    """
    for _ in range(3):
        lengths = np.linalg.norm(block, axis=0)
        block = block / np.where(lengths > 0, lengths, 1.0)
        for base in bases:
            block = block - base @ (base.T @ block)
        block = np.linalg.qr(block)[0]
        overlap = max(float(np.abs(base.T @ block).max(initial=0.0)) for base in bases)
        if overlap < 1e-14:
            break
    return block
