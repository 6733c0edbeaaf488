"""`corelet.fit(random=…)`: mixed models, with random effects integrated out and coresets of whole groups."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._build import _count, given, native
from ._fit import Round
from ._types import Execution
from ._warn import warn
from .frames.formula import Design
from .results import arviz as _arviz
from .results.marginal import StanMarginal, numpyro_model
from .results.predict import Prediction, exposure_of, new_rows, prediction_of
from .results.verdict import Verdict, verdict_from


@dataclass(frozen=True, eq=False)
class MixedFit:
    """The posterior of a mixed model from k weighted groups, certified on all groups.

    A weight multiplies a group's log-likelihood *with its random effects integrated out*. Do not use it as a weight of rows in a tool that
    samples the random effects.
    """

    verdict: Verdict
    """A: trusted. B: trusted after reweighting; `draws` and `idata` are already reweighted. C: not certified."""
    draws: dict[str, NDArray[np.float64]]
    """Chains × draws of each parameter on the scale of the data: coefficients, other parameters of the likelihood, `1|customer_sigma`, …,
    and `customer_corr`."""
    groups: list[str]
    """The labels of the chosen groups."""
    group_weights: NDArray[np.float64]
    """The weight of each chosen group."""
    rows: list[NDArray[np.int64]]
    """The rows of each chosen group."""
    n: int
    """Number of rows in the data."""
    n_groups: int
    """Number of groups in the data."""
    effects: str
    """The random effects: `1 + price | customer`."""
    nodes: int
    """Number of quadrature nodes along each random effect."""
    quadrature_bias: float
    """The largest shift of the posterior that the quadrature causes, in posterior standard deviations, in the worst direction."""
    rounds: list[Round]
    """Each round, and the reason for the next."""
    seconds: float
    """Total seconds."""
    notes: list[str] = field(default_factory=list)
    """Remarks that you should read."""
    lines: list[str] = field(default_factory=list)
    _native: Any = field(default=None, repr=False)
    _design: Optional[Design] = field(default=None, repr=False)
    _columns: tuple[str, ...] = field(default=(), repr=False)
    _options: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def idata(self) -> Any:
        """The draws for ArviZ: a `DataTree`, or an `InferenceData` before ArviZ 1."""
        attributes = {"verdict": self.verdict.grade, "resampled": str(self.verdict.resampled)}
        return _arviz.inference_data({"posterior": self.draws}, attributes=attributes)

    def random_effects(self, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> dict[str, Any]:
        """The random effects of all groups on the scale of the data, averaged over the posterior of all other parameters: columns `group`,
        `effect`, `rows`, `mean`, `sd` and `q5`, …, with an entry for every effect of every group. Pass the result to `pandas.DataFrame`."""
        table: dict[str, Any] = self._native.random_effects([float(q) for q in quantiles])
        return {**table, "group": np.asarray(table["group"]), "effect": np.asarray(table["effect"])}

    def predict(
        self,
        new: Any,
        *,
        effects: str = "own",
        kind: str = "mean",
        groups: Any = None,
        exposure: Any = None,
        offset: Any = None,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        seed: int = 0,
        unseen: str = "error",
        unseen_groups: str = "error",
    ) -> Prediction:
        """Predict new rows from the posterior.

        Parameters
        ----------
        new
            The rows, in the form in which `corelet.fit` read its data; after a fit by formula, a data frame. The target is ignored.
        effects
            `own`: use the random effects of each row's group, given the rows of that group in the data. `new`: treat each row as one of a
            new group, and draw its effects from their distribution. `population`: set the effects to 0.
        kind
            `mean`: the distribution of E[y], a probability or a rate; `outcome`: that of y.
        groups, exposure, offset
            The group, exposure and offset of each new row, if they are not columns of the table.
        quantiles, seed
            The quantiles to return; the random seed.
        unseen
            The policy for unseen levels of categorical features: `error`, or `baseline`, which uses the base level of their column.
        unseen_groups
            The policy for unseen groups with `effects="own"`: `error`, `new` or `population`.
        """
        for name, value, words in (
            ("effects", effects, ("own", "new", "population")),
            ("kind", kind, ("mean", "outcome")),
            ("unseen", unseen, ("error", "baseline")),
            ("unseen_groups", unseen_groups, ("error", "new", "population")),
        ):
            if value not in words:
                raise _lib.CoreletError(f"{name} is '{value}', but it must be one of {', '.join(words)}")
        levels = tuple(float(level) for level in quantiles)
        if not all(0 <= level <= 1 for level in levels):
            raise _lib.CoreletError(f"quantiles are {list(levels)}, but they must be between 0 and 1")
        if groups is not None and len(self._columns) > 1:
            raise _lib.CoreletError(f"groups is for one column of groups, but there are {', '.join(self._columns)}: they must be columns")
        needless = [str(self._options.get("weights")), *(() if effects == "own" else self._columns)]
        data = new_rows(self._design, self._options, new, {"offset": offset, "groups": groups}, needless)
        given = None if exposure is None else exposure_of(data, exposure)
        made = self._native.predict(data, given, (kind, levels, seed, unseen == "baseline", effects, unseen_groups))
        return prediction_of(made, kind, levels)

    def stan(self) -> StanMarginal:
        """The marginal model of the chosen groups as a Stan program with its data: `target += w[g] * log_sum_exp(…)` for each group."""
        program, data, _ = self._native.marginal()
        return StanMarginal(program, json.loads(data))

    def numpyro(self) -> Callable[[], None]:
        """The marginal model as a NumPyro model, for `NUTS(fit.numpyro())`. The vector `theta` refers to the standardised features;
        `coefficients` are on the scale of the data."""
        return numpyro_model(json.loads(self._native.marginal()[2]))

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
    design: Optional[Design] = None,
) -> MixedFit:
    """Chooses weighted groups, and more of them until they are certified; `random` is a text, or the group of each row."""
    if asked.get("groups") is not None:
        raise _lib.CoreletError("groups and random do not go together: random says which rows belong together")
    if asked["rest"] not in ("auto", "none"):
        raise _lib.CoreletError("rest and random do not go together")
    text = isinstance(random, str)
    given_asked = {**asked, "rest": "none", "groups": None if text else random}
    keywords = native({name: value for name, value in given_asked.items() if name != "format"})
    keywords["random"] = random if text else None
    with given(X, y, given_asked, keywords) as data:
        keywords["random"] = random if text else f"1 | {keywords['groups']}"
        keywords["groups"] = None
        found = _lib.fit_mixed(data, keywords, _count("max_k", max_k), settings, execution)
    warn(*found["warnings"])
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
        _design=design,
        _columns=tuple(found["columns"]),
        _options={**keywords, "groups": found["columns"][0]},
        **{name: found[name] for name in names},
    )
