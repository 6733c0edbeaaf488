"""The ways in which a PyMC model is fitted: by whole groups with a latent variable integrated out, or by rows and a Gaussian in their place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Optional

from .._fit import Fit, FitProgressOption, Plan, run_rounds
from .._lib import CoreletError, gaussian_first
from ..frames.units import Units
from ..results.draws import Draws
from .integrated import fit_integrated, groups_of
from .marginal import Marginal
from .pymc_marginal import Alternative, Faster, integrated
from .pymc_model import Sampler

NOTHING_SMALLER = "no Gaussian stands for all rows, and to integrate was expected to be faster than to sample all of them"


@dataclass
class Asked:
    """What a call asks for."""

    tool: Sampler
    units: Units
    plan: Plan
    k: Optional[int]
    max_k: Optional[int]
    given: Any
    """Draws to begin with, where there are any."""
    progress: FitProgressOption
    rest: str
    marginalise: str

    def fit(self, may_integrate: bool, sampler: Optional[str]) -> Fit:
        """By groups where that is asked for or pays; else by rows, and by groups in place of all rows where that is expected to be faster."""
        tool = self.tool
        marginal = integrated(tool, self.marginalise, sampler) if may_integrate else None
        found = None if marginal is None else self._by_groups(marginal)
        if found is not None:
            return found
        if marginal is None and may_integrate and self.marginalise == "auto" and sampler is None:
            tool.before_all_rows = Alternative(tool)
        if gaussian_first(self.rest, tool.dimension, self.plan.k):
            tool.find_effects()
        else:
            tool.compile()
        try:
            return self._by_rows()
        except Faster as faster:
            try:
                found = self._by_groups(faster.marginal)
            except CoreletError as error:
                tool.notes.append(f"{faster.marginal.model.name} was not integrated out: {error}")
        if found is not None and found.verdict.grade != "C":
            found.notes.insert(0, NOTHING_SMALLER)
            return found
        tool.before_all_rows = None
        return self._by_rows()

    def _by_rows(self) -> Fit:
        tool = self.tool
        start = None if self.given is None else Draws.of(self.given).only(tool.free.names)
        found = run_rounds(tool, self.plan, self.units, start, self.progress, tool.inference_data, rest=self.rest)
        found.notes.extend(tool.notes)
        return found

    def _by_groups(self, marginal: Marginal) -> Optional[Fit]:
        """None where `auto` finds that the latent variable has several modes."""
        k = groups_of(self.k, marginal.dimension, marginal.n)
        few = replace(self.plan, k=k, max_k=4 * k if self.max_k is None else self.max_k)
        begin = None if self.given is None else marginal.model.only_left(Draws.of(self.given))
        found = fit_integrated(marginal, few, begin, self.progress, self.rest, self.marginalise)
        if found is None:
            self.tool.notes.append(f"{marginal.model.name} was not integrated out: given its rows, it has several modes in some groups")
        else:
            found.notes.extend(self.tool.notes)
        return found
