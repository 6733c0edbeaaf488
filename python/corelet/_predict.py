"""`Coreset.predict`: what the posterior of a coreset says of new rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray

from ._columns import cells_of, column, length, parts_of
from ._lib import CoreletError

if TYPE_CHECKING:
    from ._coreset import Coreset

Floats = NDArray[np.float64]

BLOCK = 4_000_000
"""Predictions that are made at once."""


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution of each new row."""

    mean: Floats
    """The mean of each row; for two classes the probability of success, for `binomial` that of one trial."""
    sd: Floats
    """The standard deviation."""
    quantiles: Floats
    """Rows by quantiles."""
    levels: tuple[float, ...]
    """Which quantiles."""
    kind: str
    """`mean`: of E[y] given the coefficients, how well it is known. `outcome`: of y itself."""

    def __len__(self) -> int:
        return len(self.mean)


def predict(
    coreset: Coreset,
    new: Any,
    *,
    idata: Any = None,
    kind: str = "mean",
    exposure: Any = None,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    seed: int = 0,
) -> Prediction:
    """See `Coreset.predict`."""
    if kind not in ("mean", "outcome"):
        raise CoreletError(f"kind is '{kind}', but it must be one of mean, outcome")
    model = str(coreset.summary["model"])
    if model not in MODELS:
        raise CoreletError(f"the model '{model}' predicts nothing that corelet knows of")
    if not coreset.metadata:
        raise CoreletError("all rows, as fit(..., full=True) has them, predict nothing here: build a coreset of them")
    levels = tuple(float(level) for level in quantiles)
    if not all(0 <= level <= 1 for level in levels):
        raise CoreletError(f"quantiles are {list(levels)}, but they must be between 0 and 1")
    features = _features(coreset, new)
    scale = _exposure(coreset, new, exposure, len(features))
    theta = _draws(coreset, idata)
    count = int(coreset.summary["features"])
    beta = theta[:, :count]
    beyond = {name: theta[:, count + i] for i, name in enumerate(coreset.names[count:])}
    law = MODELS[model](coreset.options, beyond)
    rng = np.random.default_rng(seed)
    step = max(1, BLOCK // len(theta))
    blocks = [slice(first, first + step) for first in range(0, max(1, len(features)), step)]
    made = [_block(law, features[block] @ beta.T, scale[block, None], kind, levels, rng) for block in blocks]
    mean, sd, cuts = (np.concatenate(parts) for parts in zip(*made))
    return Prediction(mean, sd, cuts, levels, kind)


def _block(
    law: Law, eta: Floats, scale: Floats, kind: str, levels: tuple[float, ...], rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Mean, standard deviation and quantiles of some rows over all draws."""
    values = law.mean(eta, scale) if kind == "mean" else law.outcome(eta, scale, rng)
    if not np.isfinite(values).all():
        raise CoreletError("a prediction is not finite: the new rows are far from those that the model was fitted to")
    cuts = np.quantile(values, levels, axis=1).T.reshape(len(eta), len(levels))
    return values.mean(axis=1), values.std(axis=1), cuts


def _draws(coreset: Coreset, idata: Any) -> Floats:
    """Draws of the coefficients of the data as they are, all chains together."""
    if idata is None:
        verdict = coreset.quality.verdict
        idata = verdict.draws if verdict is not None and verdict.draws else coreset.sample()
    posterior = idata["posterior"] if isinstance(idata, Mapping) else idata.posterior
    values = np.asarray(posterior["original"], dtype=np.float64)
    if values.shape[-1] != len(coreset.names):
        have, need = values.shape[-1], len(coreset.names)
        raise CoreletError(f"the draws have {have} parameters, the coreset {need}: they are not of this coreset")
    return values.reshape(-1, values.shape[-1])


def _features(coreset: Coreset, new: Any) -> Floats:
    """New rows, encoded as the coreset's were."""
    if coreset.design is not None:
        new = coreset.design.features(new)
    parts = parts_of(new)
    rows = length(parts)
    cells = dict(cells_of(parts, np.arange(rows)))
    texts = {text["column"]: text for text in json.loads(coreset.metadata["corelet.levels"])}
    indicators = {f"{name}={level}": (name, level) for name, text in texts.items() for level in text["levels"]}
    names = coreset.names[: int(coreset.summary["features"])]
    intercept = json.loads(coreset.metadata["corelet.standardisation"])["intercept"]
    place = None if intercept is None else int(intercept[0])
    words = {name: _words(name, cells, text) for name, text in texts.items()}
    columns = []
    for at, name in enumerate(names):
        if at == place:
            columns.append(np.full(rows, float(intercept[1])))
        elif name in indicators and indicators[name][0] in words:
            text, level = indicators[name]
            columns.append((words[text] == level).astype(np.float64))
        else:
            columns.append(_numbers(name, cells))
    return np.column_stack(columns) if columns else np.empty((rows, 0))


def _cells(name: str, cells: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    if name not in cells:
        raise CoreletError(f"the new rows have no column '{name}', which the coreset was built on")
    return cells[name]


def _numbers(name: str, cells: Mapping[str, NDArray[Any]]) -> Floats:
    values = _cells(name, cells)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise CoreletError(f"column '{name}' of the new rows is not numeric") from error
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise CoreletError(f"column '{name}' of the new rows: row {row} is missing or not finite")
    return numbers


def _words(name: str, cells: Mapping[str, NDArray[Any]], text: Mapping[str, Any]) -> NDArray[Any]:
    """The levels of a column; one that the coreset has not seen is an error."""
    known = {text["base"], *text["levels"]}
    words = np.array([_word(cell) for cell in _cells(name, cells)], dtype=object)
    for row, word in enumerate(words):
        if word not in known:
            said = "is missing" if word is None else f"is '{word}'"
            levels = ", ".join(sorted(known)[:10])
            raise CoreletError(f"column '{name}' of the new rows: row {row} {said}; known are {levels}")
    return words


def _word(cell: Any) -> Optional[str]:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def _exposure(coreset: Coreset, new: Any, exposure: Any, rows: int) -> Floats:
    """The exposure of each new row: an array, a column, or 1 where the model has none."""
    name = coreset.options.get("exposure")
    if exposure is None and name is None:
        return np.ones(rows)
    if exposure is None or isinstance(exposure, str):
        wanted = str(name if exposure is None else exposure)
        parts = parts_of(new)
        values = _numbers(wanted, dict(cells_of(parts, np.arange(length(parts)))))
    else:
        values = _numbers("exposure", dict(cells_of([column("exposure", exposure)], np.arange(rows))))
    if len(values) != rows or not (values > 0).all():
        raise CoreletError("exposure must be one number above 0 for each new row")
    return values


class Law:
    """A model's distribution of y given predictors η (rows by draws) and exposures (rows by 1)."""

    def __init__(self, options: Mapping[str, Any], beyond: Mapping[str, Floats]) -> None:
        self.options = options
        self.beyond = beyond

    def mean(self, eta: Floats, scale: Floats) -> Floats:
        """E[y]."""
        raise NotImplementedError

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        """A draw of y."""
        raise NotImplementedError


class Logistic(Law):
    def mean(self, eta: Floats, scale: Floats) -> Floats:
        return np.exp(-np.logaddexp(0, -eta))

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        return (rng.random(eta.shape) < self.mean(eta, scale)).astype(np.float64)


class Poisson(Law):
    def mean(self, eta: Floats, scale: Floats) -> Floats:
        return scale * (np.logaddexp(0, eta) if self.options.get("link") == "softplus" else np.exp(eta))

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        return rng.poisson(self.mean(eta, scale)).astype(np.float64)


class NegativeBinomial(Law):
    def mean(self, eta: Floats, scale: Floats) -> Floats:
        return scale * np.exp(eta)

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        size = np.exp(self.beyond["log_size"])
        return rng.poisson(rng.gamma(size, self.mean(eta, scale) / size)).astype(np.float64)


class Linear(Law):
    def mean(self, eta: Floats, scale: Floats) -> Floats:
        return eta

    def sigma(self) -> Floats:
        return np.exp(self.beyond["log_sigma"]) if "log_sigma" in self.beyond else np.array([float(self.options["sigma"])])

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        return eta + self.sigma() * rng.standard_normal(eta.shape)


class Student(Linear):
    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        degrees = self.options.get("degrees")
        return eta + self.sigma() * rng.standard_t(4.0 if degrees is None else float(degrees), eta.shape)


class Gamma(Law):
    def mean(self, eta: Floats, scale: Floats) -> Floats:
        return np.exp(eta)

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        shape = np.exp(self.beyond["log_shape"])
        return rng.gamma(shape, np.exp(eta) / shape)


class Weibull(Law):
    def shape(self) -> Floats:
        return np.exp(self.beyond["log_shape"]) if "log_shape" in self.beyond else np.ones(1)

    def mean(self, eta: Floats, scale: Floats) -> Floats:
        factors: Floats = np.array([math.gamma(1 + 1 / shape) for shape in self.shape()])
        return np.multiply(np.exp(eta), factors)

    def outcome(self, eta: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
        return np.exp(eta) * rng.standard_exponential(eta.shape) ** (1 / self.shape())


MODELS: dict[str, type[Law]] = {
    "logistic": Logistic,
    "binomial": Logistic,
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "linear": Linear,
    "student": Student,
    "gamma": Gamma,
    "weibull": Weibull,
    "exponential": Weibull,
}
