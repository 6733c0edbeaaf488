"""`corelet.fit(random=…)`: mixed models, whose random effects are integrated out and of which whole groups are chosen."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._build import _count, given, native
from ._fit import Round
from ._types import Execution
from .results import arviz as _arviz
from .results.verdict import Verdict, verdict_from


@dataclass(frozen=True, eq=False)
class MixedFit:
    """The posterior of a mixed model, of k groups with weights, judged on all groups.

    A weight is a factor of a group's log-likelihood *with its random effects integrated out*. As weights of rows, in a tool that
    samples the random effects, these numbers would mean something else.
    """

    verdict: Verdict
    """A: trusted. B: trusted after reweighting, which `draws` and `idata` already are. C: not certified."""
    draws: dict[str, NDArray[np.float64]]
    """Chains × draws of each parameter on the scale of the data: coefficients, what the likelihood has besides, `1|customer_sigma`, …,
    and `customer_corr`."""
    groups: list[str]
    """The labels of the chosen groups."""
    group_weights: NDArray[np.float64]
    """The weight of each."""
    rows: list[NDArray[np.int64]]
    """The rows of each."""
    n: int
    """Number of all rows."""
    n_groups: int
    """Number of all groups."""
    effects: str
    """The random effects: `1 + price | customer`."""
    nodes: int
    """Nodes of the quadrature along each random effect."""
    quadrature_bias: float
    """By how much they move the posterior, at most, in posterior standard deviations, in the worst direction."""
    rounds: list[Round]
    """What each round did, and why the next."""
    seconds: float
    """Seconds of everything."""
    notes: list[str] = field(default_factory=list)
    """What should not be overlooked."""
    lines: list[str] = field(default_factory=list)
    _native: Any = field(default=None, repr=False)

    @property
    def idata(self) -> Any:
        """The draws for ArviZ: a `DataTree`, or an `InferenceData` before ArviZ 1."""
        attributes = {"verdict": self.verdict.grade, "resampled": str(self.verdict.resampled)}
        return _arviz.inference_data({"posterior": self.draws}, attributes=attributes)

    def random_effects(self, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> dict[str, Any]:
        """The random effects of all groups, on the scale of the data: columns `group`, `effect`, `rows`, `mean`, `sd` and `q5`, …, an entry for
        every effect of every group; `pandas.DataFrame` takes it. They are integrated over the posterior of all other parameters."""
        table: dict[str, Any] = self._native.random_effects([float(q) for q in quantiles])
        return {**table, "group": np.asarray(table["group"]), "effect": np.asarray(table["effect"])}

    def __repr__(self) -> str:
        width = max(len(name) for name in self.draws)
        table = [
            f"  {'parameters' if at == 0 else '':<15}{name:<{width}}  {values.mean():.4g} ± {values.std(ddof=1):.2g}"
            for at, (name, values) in enumerate(self.draws.items())
        ]
        notes = [f"  note           {note}" for note in self.notes]
        return "\n".join([repr(self.verdict), *self.lines, *table, *notes, f"  {self.seconds:.1f} seconds in all"])

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


def fit_groups(
    X: Any,
    y: Any,
    asked: Mapping[str, Any],
    random: Union[str, Any],
    max_k: Optional[int],
    settings: Mapping[str, object],
    execution: Execution,
    began: float,
) -> MixedFit:
    """Groups with weights, more of them until they are certified; `random` is a text, or the group of each row."""
    if asked.get("groups") is not None:
        raise _lib.CoreletError("groups and random do not go together: random says which rows belong together")
    if asked["rest"] not in ("auto", "none"):
        raise _lib.CoreletError("rest and random do not go together")
    text = isinstance(random, str)
    given_asked = {**asked, "rest": "none", "groups": None if text else random}
    keywords = native({name: value for name, value in given_asked.items() if name != "format"})
    with given(X, y, given_asked, keywords) as data:
        keywords["random"] = random if text else f"1 | {keywords['groups']}"
        keywords["groups"] = None
        found = _lib.fit_mixed(data, keywords, _count("max_k", max_k), settings, execution)
    for warning in found["warnings"]:
        warnings.warn(warning, stacklevel=4)
    verdict = verdict_from(found["verdict"], found["names"])
    if found["resampled"]:
        verdict = verdict.resampled_by_weights()
    names = ["effects", "group_weights", "groups", "lines", "n", "n_groups", "nodes", "notes", "quadrature_bias", "rows"]
    return MixedFit(
        verdict=verdict,
        draws={name: found["draws"][:, :, at] for at, name in enumerate(found["names"])},
        rounds=[Round(**fields) for fields in found["rounds"]],
        seconds=time.perf_counter() - began,
        _native=found["native"],
        **{name: found[name] for name in names},
    )
