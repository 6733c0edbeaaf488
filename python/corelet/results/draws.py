"""Draws of a posterior, however a sampler hands them over, as chains by draws of named arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from .arviz import dataset_of
from .._lib import CoreletError

Theta = Union[NDArray[Any], dict[str, NDArray[Any]]]
"""Draws without their chains: an array of draws by parameters, or one such array for each variable."""

BARE = ""


@dataclass(frozen=True, eq=False)
class Draws:
    """Chains by draws of each variable; an array without names is the one variable of an empty name."""

    values: dict[str, NDArray[Any]]
    chained: bool = True
    """Whether it is known which chain a draw is of."""
    diverged: int = 0
    """Draws at which the sampler diverged."""

    @classmethod
    def of(cls, draws: Any) -> Draws:
        """From a `Fit`, an InferenceData or a DataTree, a mapping of names to chains × draws × …, an array of chains × draws × parameters,
        or, of one chain, of draws × parameters."""
        of_fit = getattr(draws, "_draws", None)
        if isinstance(of_fit, Draws):
            return of_fit
        if isinstance(draws, Draws):
            return draws
        if hasattr(draws, "posterior"):
            return cls._of_inference_data(draws)
        if getattr(draws, "children", None):
            raise CoreletError(f"these draws have no posterior group, only {sorted(draws.children)}")
        if isinstance(draws, Mapping):
            return cls._checked({str(name): np.asarray(values) for name, values in draws.items()})
        array = np.asarray(draws)
        if array.dtype.kind not in "fiub" or array.ndim not in (2, 3):
            raise CoreletError(
                f"draws are of type {type(draws).__name__} and shape {array.shape}; they must be an array of chains by "
                "draws by parameters, a mapping of names to such arrays, or an InferenceData or DataTree"
            )
        chained = array.ndim == 3
        return cls._checked({BARE: array if chained else array[None]}, chained)

    @classmethod
    def _of_inference_data(cls, idata: Any) -> Draws:
        ordered = dataset_of(idata, "posterior").transpose("chain", "draw", ...)
        stats = dataset_of(idata, "sample_stats")
        diverged = 0 if stats is None or "diverging" not in stats else int(stats["diverging"].values.sum())
        return cls._checked({str(name): ordered[name].values for name in ordered.data_vars}, diverged=diverged)

    @classmethod
    def _checked(cls, values: dict[str, NDArray[Any]], chained: bool = True, diverged: int = 0) -> Draws:
        if not values:
            raise CoreletError("there are no draws: the mapping, or the posterior group, has no variable")
        shapes = {name: array.shape for name, array in values.items()}
        leading = {shape[:2] for shape in shapes.values()}
        if len(leading) != 1 or any(len(shape) < 2 for shape in shapes.values()):
            raise CoreletError(f"every variable must be chains by draws (by its own shape), but the shapes are {shapes}")
        for name, array in values.items():
            if array.dtype.kind not in "fiub":
                raise CoreletError(f"the draws of {name or 'the parameters'} hold {array.dtype}, and no numbers")
            if not np.isfinite(array).all():
                raise CoreletError(f"the draws of {name or 'the parameters'} hold numbers that are not finite")
        draws = cls(values, chained, diverged)
        if draws.count < 2:
            raise CoreletError(f"{draws.count} draws are too few")
        return draws

    @property
    def shape(self) -> tuple[int, int]:
        """Chains, and draws of each."""
        first = next(iter(self.values.values()))
        return first.shape[0], first.shape[1]

    @property
    def count(self) -> int:
        """Draws of all chains."""
        return self.shape[0] * self.shape[1]

    def thin(self, most: int) -> Draws:
        """At most so many, evenly spaced, the same number of each chain."""
        chains, length = self.shape
        wanted = max(1, most // chains)
        if wanted >= length:
            return self
        at = np.arange(wanted) * length // wanted + length // (2 * wanted)
        return Draws({name: array[:, at] for name, array in self.values.items()}, self.chained, self.diverged)

    def only(self, names: Collection[str], kind: str = "variable") -> Draws:
        """Of the variables of a model, in their order there."""
        for name in names:
            if name not in self.values:
                raise CoreletError(f"the draws have no {kind} {name}, which the model has")
        return Draws({name: self.values[name] for name in names}, self.chained, self.diverged)

    def check_chains(self) -> None:
        """Refuses more chains than draws of each."""
        chains, length = self.shape
        if chains > length:
            raise CoreletError(f"these are {chains} chains of {length} draws: chains come first, then draws; have the two been exchanged?")

    def check_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuses draws of variables that have other shapes in the model."""
        for name, shape in shapes.items():
            found = self.values[name].shape[2:]
            if found != tuple(shape):
                raise CoreletError(
                    f"the draws of {name} have shape {found}, the model has {tuple(shape)}; draws are chains × draws × that shape"
                )
        self.check_chains()

    def take(self, draws: NDArray[np.int64]) -> Draws:
        """Draws by their number among all, as one chain."""
        flat = {name: array.reshape(-1, *array.shape[2:])[draws][None] for name, array in self.values.items()}
        return Draws(flat, False, self.diverged)

    def flat(self) -> Theta:
        """All chains one after the other: what a log-likelihood is asked at."""
        flat = {name: array.reshape(-1, *array.shape[2:]) for name, array in self.values.items()}
        return flat[BARE] if BARE in flat else flat

    def parameters(self) -> NDArray[np.float64]:
        """Parameters × chains × draws, without those that are the same in every draw."""
        chains, length = self.shape
        columns = [array.reshape(chains, length, -1) for array in self.values.values() if array.dtype.kind in "fiub"]
        table = np.concatenate(columns, axis=2, dtype=np.float64).transpose(2, 0, 1)
        spread = np.ptp(table.reshape(len(table), -1), axis=1)
        return np.ascontiguousarray(table[spread > 0])
