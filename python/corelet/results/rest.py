"""The Gaussian part of a coreset: a quadratic function of the parameters, and the line to add in other tools."""

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
"""Where the metadata of a coreset file have it."""


class StanRest(NamedTuple):
    """What a Stan program needs for the Gaussian part."""

    data: str
    """Declarations for the `data` block."""
    model: str
    """The statement for the `model` block."""
    values: dict[str, Any]
    """The numbers of these declarations."""


@dataclass(frozen=True, eq=False)
class Rest:
    """The part of the log-likelihood that the weighted rows of a coreset do not carry: bᵀ(θ − c) + ½(θ − c)ᵀA(θ − c).

    Add it to the weighted log-likelihood of the rows in whatever tool samples them; the rows are not to be used without it. A has no
    positive eigenvalue, so that the posterior is proper wherever the model's is.
    """

    centre: Numbers
    """c, one number a parameter."""
    gradient: Numbers
    """b."""
    curvature: Numbers
    """A, parameters × parameters."""
    names: list[str]
    """The name of each parameter."""
    scale: str
    """`standardised`, the coefficients of standardised features; `original`, those of the data as they are; or `unconstrained`, of a model of
    another tool, on the scale of that tool's transformations."""
    _affine: Optional[tuple[Numbers, Numbers]] = None

    @classmethod
    def of(cls, metadata: Mapping[str, str], sampling: Mapping[str, Any]) -> Optional[Rest]:
        """That of a coreset with these metadata, if it has one."""
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
        """The same as a function of the coefficients of the data as they are."""
        if self.scale == "original":
            return self
        if self._affine is None:
            raise _lib.CoreletError("this Gaussian is over unconstrained numbers of a model of another tool, which have no other scale here")
        shift, matrix = self._affine
        gradient: Numbers = np.linalg.solve(matrix.T, self.gradient).astype(np.float64)
        curvature: Numbers = np.linalg.solve(matrix.T, np.linalg.solve(matrix.T, self.curvature).T).astype(np.float64)
        centre = shift + matrix @ self.centre
        return Rest(centre, gradient, 0.5 * (curvature + curvature.T), self.names, "original")

    def logp(self, theta: ArrayLike) -> Any:
        """Its value at θ, in the order of `names`; of several θ, one a line, a value each."""
        given = np.asarray(theta, dtype=np.float64)
        if given.shape[-1:] != self.centre.shape:
            raise _lib.CoreletError(
                f"theta has shape {given.shape}; its last axis must have the {len(self.names)} parameters of `names`"
            )
        return self._term(given)

    def _term(self, theta: Any) -> Any:
        """For arrays of numpy, JAX and PyTensor alike."""
        shift = theta - self.centre
        return shift @ self.gradient + 0.5 * ((shift @ self.curvature) * shift).sum(-1)

    def pymc(self, theta: Any, name: str = "rest") -> Any:
        """Adds it to the PyMC model of the context as a `pm.Potential` of the vector θ, in the order of `names`."""
        import pymc

        return pymc.Potential(name, self._term(theta))

    def numpyro(self, theta: Any, name: str = "rest") -> None:
        """Adds it to a NumPyro model as a `numpyro.factor` of the vector θ, in the order of `names`."""
        import jax.numpy
        import numpyro

        numpyro.factor(name, self._term(jax.numpy.asarray(theta)))

    def stan(self, theta: str = "theta") -> StanRest:
        """What a Stan program needs for it, in which the vector `theta` is in the order of `names`."""
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
