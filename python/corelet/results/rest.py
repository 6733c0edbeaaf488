"""The Gaussian factor of a coreset: a quadratic function of the parameters, and the line to add in other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _lib

Numbers = NDArray[np.float64]

REST = "corelet.rest"
"""Its key in the metadata of a coreset file."""


class StanRest(NamedTuple):
    """The code and data that a Stan program needs for the Gaussian factor."""

    data: str
    """Declarations for the `data` block."""
    model: str
    """The statement for the `model` block."""
    values: dict[str, Any]
    """The numbers of these declarations."""


@dataclass(frozen=True, eq=False)
class Rest:
    """The Gaussian factor of a coreset, which represents the quadratic part of the log-likelihood: bᵀ(θ − c) + ½(θ − c)ᵀA(θ − c).

    Add it to the weighted log-likelihood of the rows in any tool that samples them; do not use the rows without it. A has no
    positive eigenvalue, so the posterior is proper if the model's posterior is.
    """

    centre: Numbers
    """c, one number per parameter."""
    gradient: Numbers
    """b."""
    curvature: Numbers
    """A, parameters × parameters."""
    names: list[str]
    """The name of each parameter."""
    scale: str
    """`standardised`: coefficients of standardised features; `original`: coefficients on the scale of the data; `unconstrained`: the
    unconstrained parameters of a model of another tool."""
    _affine: Optional[tuple[Numbers, Numbers]] = None

    @classmethod
    def of(cls, metadata: Mapping[str, str], sampling: Mapping[str, Any]) -> Optional[Rest]:
        """The factor of a coreset with these metadata, if it has one."""
        if REST not in metadata:
            return None
        written = json.loads(metadata[REST])
        dim = len(written["centre"])
        lower = np.zeros((dim, dim))
        lower[np.tril_indices(dim)] = written["curvature"]
        curvature = lower + np.tril(lower, -1).T
        affine, scale = None, "unconstrained"
        if sampling:
            scale = "standardised"
            corners = np.vstack([np.zeros(dim), np.eye(dim)])
            there = _lib.original_scale(sampling["model"], sampling["standardisation"], corners)
            affine = (there[0], (there[1:] - there[0]).T)
        vectors = [np.asarray(written[name], dtype=np.float64) for name in ("centre", "gradient")]
        return cls(vectors[0], vectors[1], curvature, list(written["names"]), scale, affine)

    @property
    def original(self) -> Rest:
        """The same factor as a function of the coefficients on the scale of the data."""
        if self.scale == "original":
            return self
        if self._affine is None:
            raise _lib.CoreletError("this Gaussian is on the unconstrained scale of a model of another tool, and has no original scale")
        shift, matrix = self._affine
        gradient: Numbers = np.linalg.solve(matrix.T, self.gradient).astype(np.float64)
        curvature: Numbers = np.linalg.solve(matrix.T, np.linalg.solve(matrix.T, self.curvature).T).astype(np.float64)
        centre = shift + matrix @ self.centre
        return Rest(centre, gradient, 0.5 * (curvature + curvature.T), self.names, "original")

    def logp(self, theta: ArrayLike) -> Any:
        """Its value at θ, in the order of `names`; for several θ, one per line, one value each."""
        given = np.asarray(theta, dtype=np.float64)
        if given.shape[-1:] != self.centre.shape:
            raise _lib.CoreletError(
                f"theta has shape {given.shape}; its last axis must have the {len(self.names)} parameters of `names`"
            )
        return self._term(given)

    def _term(self, theta: Any) -> Any:
        """The value, for arrays of NumPy, JAX and PyTensor."""
        shift = theta - self.centre
        return shift @ self.gradient + 0.5 * ((shift @ self.curvature) * shift).sum(-1)

    def pymc(self, theta: Any, name: str = "rest") -> Any:
        """Add it to the current PyMC model as a `pm.Potential` of the vector θ, in the order of `names`."""
        import pymc

        return pymc.Potential(name, self._term(theta))

    def numpyro(self, theta: Any, name: str = "rest") -> None:
        """Add it to a NumPyro model as a `numpyro.factor` of the vector θ, in the order of `names`."""
        import jax.numpy
        import numpyro

        numpyro.factor(name, self._term(jax.numpy.asarray(theta)))

    def stan(self, theta: str = "theta") -> StanRest:
        """The code and data for a Stan program, in which the vector `theta` has the order of `names`."""
        data = (
            "  int<lower=1> rest_size;\n  vector[rest_size] rest_centre;\n  vector[rest_size] rest_gradient;\n"
            "  matrix[rest_size, rest_size] rest_curvature;\n"
        )
        shift = f"({theta} - rest_centre)"
        model = f"  target += dot_product(rest_gradient, {shift}) + 0.5 * quad_form(rest_curvature, {shift});\n"
        values = {
            "rest_size": len(self.names),
            "rest_centre": self.centre.tolist(),
            "rest_gradient": self.gradient.tolist(),
            "rest_curvature": self.curvature.tolist(),
        }
        return StanRest(data, model, values)

    def __repr__(self) -> str:
        return f"<corelet.Rest: a Gaussian over {len(self.names)} parameters, {self.scale}>"
