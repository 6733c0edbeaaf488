"""Formulas, `"late ~ carrier*origin + bs(hour, df=5)"`: a data frame as features and target, and new rows like the old ones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .. import _lib
from .columns import order_of

INTERCEPT = "Intercept"

BAR = re.compile(r"\(([^()|]*)(\|{1,2})([^()|]*)\)")
"""A term of random effects: `(1 | g)`, `(1 + x || g)`."""


@dataclass
class Design:
    """What a formula makes of a data frame: levels, knots and centres are those of the rows it was made of."""

    formula: str
    """As it was given."""
    intercept: bool
    """Whether there is one; it is no column of the features."""
    target: str
    """What stands left of `~`."""
    spec: Any
    """The specification of `formulaic`, with all that it learnt of the data."""
    beside: tuple[str, ...] = ()
    """Columns of the data that are no term, but name an exposure, groups, trials, an event, weights or an offset."""

    @staticmethod
    def of(formula: str, data: Any, beside: tuple[str, ...] = ()) -> tuple[Design, Any]:
        """The design of a formula and the features of these rows."""
        try:
            from formulaic import Formula
        except ImportError as error:
            raise ImportError("a formula needs the package formulaic: pip install 'corelet[formula]'") from error
        target, bar, right = formula.partition("~")
        target = target.strip()
        if not target or not bar or not right.strip():
            raise _lib.CoreletError(f"the formula '{formula}' must be 'target ~ terms'")
        if not hasattr(data, "columns"):
            raise _lib.CoreletError("a formula needs a data frame beside it: build('y ~ x', frame)")
        try:
            matrix = Formula(right.strip()).get_model_matrix(data, na_action="ignore")
        except Exception as error:
            raise _lib.CoreletError(f"the formula '{formula}' cannot be used: {error}") from error
        design = Design(formula, INTERCEPT in matrix.columns, target, matrix.model_spec, beside)
        return design, design._features(matrix)

    def features(self, data: Any) -> Any:
        """The features of new rows, coded as those it was made of; a level that these did not have is an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # An unknown level is a warning to formulaic, and a row of the reference level.
            try:
                matrix = self.spec.get_model_matrix(data, na_action="ignore")
            except Exception as error:
                raise _lib.CoreletError(f"these rows do not suit the formula '{self.formula}': {error}") from error
        return self._features(matrix)

    def target_of(self, data: Any) -> Any:
        """The column on the left, as it is, or what the expression there makes of the data."""
        if self.target in data.columns:
            return data[self.target]
        from formulaic import Formula

        try:
            values = Formula(f"{self.target} - 1").get_model_matrix(data, na_action="ignore")
        except Exception as error:
            raise _lib.CoreletError(f"'{self.target}' is no column of the data, and cannot be computed: {error}") from error
        if values.shape[1] != 1:
            raise _lib.CoreletError(f"'{self.target}' must be one column, but makes {values.shape[1]}")
        return values.iloc[:, 0].rename(self.target)

    def table(self, data: Any, features: Any = None, given: Optional[Mapping[str, Any]] = None) -> dict[str, Any]:
        """The features of these rows, and what stands beside them: in columns of the data, or given; None is left out."""
        features = self.features(data) if features is None else features
        given = given or {}
        for name in self.beside:
            if name not in given and name not in data.columns:
                raise _lib.CoreletError(f"'{name}' is no column of the data")
        columns = {str(name): features[name] for name in features.columns}
        beside = {name: given[name] if name in given else data[name] for name in self.beside}
        return columns | {name: values for name, values in beside.items() if values is not None}

    def _features(self, matrix: Any) -> Any:
        features = matrix.drop(columns=INTERCEPT) if self.intercept else matrix
        if not features.shape[1]:
            raise _lib.CoreletError(f"the formula '{self.formula}' has no term")
        return features


def resolved(X: Any, y: Any, keywords: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any], Optional[Design]]:
    """Data, target and what else is asked for: as they are, or of a formula and its data frame.

    A string without anything beside it is the path of a file, whatever is in its name.
    """
    asked = dict(keywords)
    if not isinstance(X, str) or "~" not in X or y is None:
        return X, y, _with_levels(X, y, asked), None
    X, effects = without_random(X)
    if effects is not None:
        if "random" not in asked:
            raise _lib.CoreletError(f"the random effects ({effects}) of a formula are for corelet.fit, which integrates them out")
        if asked["random"] is not None:
            raise _lib.CoreletError(f"random effects are given twice: ({effects}) in the formula, and by random")
        asked["random"] = effects
    for name in ("target", "features", "exclude", "categories"):
        if asked.get(name):
            raise _lib.CoreletError(f"{name} cannot be given beside a formula, which says what is predicted from what")
    if asked.get("intercept") is False:
        raise _lib.CoreletError("with a formula the intercept is left out by '- 1' in it")
    named = (asked.get(name) for name in ("exposure", "groups", "trials", "event", "weights", "offset"))
    beside = [name for name in named if isinstance(name, str)]
    if isinstance(asked.get("random"), str):
        beside += groupings_of(asked["random"])
    design, features = Design.of(X, y, tuple(beside))
    if isinstance(asked.get("random"), str) and design.target in groupings_of(asked["random"]):
        raise _lib.CoreletError(
            f"column '{design.target}' is the target, which cannot say of which group a row is; name another column"
        )
    asked["intercept"] = design.intercept
    target = design.target_of(y)
    return design.table(y, features), target, _with_levels(X, target, asked), design


def without_random(formula: str) -> tuple[str, Optional[str]]:
    """A formula without its terms of random effects, `(1 + x | g)`, and these as `random` takes them."""
    terms = BAR.findall(formula)
    if not terms:
        if "|" in formula:
            raise _lib.CoreletError(
                f"the formula '{formula}' has a bar that belongs to no term of random effects: write (1 | g), (1 + x | g), (0 + x | g) "
                "or (1 + x || g)"
            )
        return formula, None
    rest = BAR.sub("", formula)
    target, tilde, right = rest.partition("~")
    parts = [part for part in (part.strip() for part in right.split("+")) if part]
    effects = [f"{left.strip()} {bar} {group.strip()}" for left, bar, group in terms]
    random = effects[0] if len(effects) == 1 else " + ".join(f"({effect})" for effect in effects)
    return f"{target.strip()} {tilde} {' + '.join(parts) or '1'}", random


def groupings_of(random: str) -> list[str]:
    """The columns of groups that a text of random effects names: `g`, `g: 1 + x`, `1 + x | g`, `1 | a/b`, `(1 | a) + (1 | b)`."""
    terms = ["|" + group for _, _, group in BAR.findall(random)] or [random]
    columns: list[str] = []
    for term in terms:
        inner = term.strip().removeprefix("(").removesuffix(")")
        group = inner.rpartition("|")[2] if "|" in inner else inner.partition(": ")[0]
        columns += [name.strip() for name in re.split("[/:]", group)]
    return list(dict.fromkeys(columns))


def _with_levels(X: Any, y: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """With the levels of an ordered target, where its column knows their order and nobody says another."""
    if asked.get("model") != "ordinal" or asked.get("levels") is not None:
        return asked
    target = asked.get("target")
    if y is None and target is not None and hasattr(X, "columns") and target in X.columns:
        y = X[target]
    return {**asked, "levels": order_of(y)}
