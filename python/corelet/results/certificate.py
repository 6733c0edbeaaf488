"""The certificate that `corelet.certify` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draws import BARE, Draws
from .verdict import Verdict, verdict_from


@dataclass(frozen=True, eq=False)
class Certificate:
    """Whether given draws are draws of the posterior of all rows, and how far each parameter is off."""

    verdict: Verdict
    """The verdict. Its `log_weights` refer to the tested draws, `looked_at`."""
    names: list[str]
    """The parameters, in the order of the arrays below."""
    mean: NDArray[np.float64]
    """The mean of the draws."""
    sd: NDArray[np.float64]
    """The standard deviation of the draws."""
    shift: NDArray[np.float64]
    """The mean of the draws minus that of the posterior, in standard deviations of the posterior; NaN if unknown."""
    shift_error: NDArray[np.float64]
    """The standard error of `shift`."""
    scale: NDArray[np.float64]
    """The standard deviation of the draws divided by that of the posterior."""
    scale_error: NDArray[np.float64]
    """The standard error of `scale`."""
    has_density: bool
    """Whether the log density of the draws was given, so that importance weights can correct them."""
    looked_at: Any = field(repr=False)
    """The tested draws: a mapping of names to chains × draws × …, or an array."""

    @property
    def grade(self) -> str:
        """A: trusted. B: trusted after reweighting, or with a reservation. C: not certified."""
        return self.verdict.grade

    @property
    def certified(self) -> bool:
        """Whether the grade is A or B."""
        return self.verdict.certified

    @property
    def log_evidence(self) -> float:
        """log ∫ likelihood × prior, if the log densities of the model and of the draws include all constants; NaN without a density."""
        return self.verdict.log_evidence_ratio if self.has_density else float("nan")

    def reweighted(self) -> Any:
        """The draws `looked_at`, resampled by their importance weights to the same number: one chain, in the same form."""
        weights = np.exp(self.verdict.log_weights)
        points = (np.arange(len(weights)) + 0.5) / len(weights)
        chosen = np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), points), len(weights) - 1)

        def take(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(-1, *values.shape[2:])[chosen][None]

        draws = self.looked_at
        return {name: take(values) for name, values in draws.items()} if isinstance(draws, Mapping) else take(draws)

    def __repr__(self) -> str:
        return repr(self.verdict)

    def _repr_html_(self) -> str:
        return self.verdict._repr_html_()


def certificate_from(fields: dict[str, Any], looked_at: Draws) -> Certificate:
    """From what the native part returns."""
    fields.pop("warnings", None)
    verdict = verdict_from(fields.pop("verdict"), fields["names"])
    values = looked_at.values
    return Certificate(verdict=verdict, **fields, looked_at=values[BARE] if BARE in values else values)
