"""A NumPyro model as a function of rows: which arguments hold them, the log-likelihood of each, and the rest of the density."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import NDArray
from numpyro.handlers import block, seed, substitute, trace
from numpyro.infer import init_to_sample
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from ..frames.units import Which
from .._lib import CoreletError

_shaped: Any = jax.ShapeDtypeStruct

FEWER_ROWS = 7
"""Rows that a model is first tried on in place of all."""
READS_VALUES = (
    "the model reads values of its arguments in Python (np.unique, int(…), an if on data, a boolean index, …), which cannot be "
    "compiled for other rows; compute such quantities before the model and pass them as arguments"
)


class Parts(NamedTuple):
    """What a model's log density is made of at one point, given some rows."""

    rows: Any
    """The log-likelihood of each row."""
    others: dict[str, Any]
    """The log density of each latent site and of each factor that is not one value for each row."""
    deterministic: dict[str, Any]
    """The values of deterministic sites."""


class Rows:
    """A model and its arguments. Rows are the first axis of every array argument that is as long as the observed sites."""

    def __init__(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.model = model
        self._leaves, self._tree = jax.tree_util.tree_flatten((args, kwargs), is_leaf=lambda leaf: leaf is None)
        self.sites = _sites(lambda: model(*args, **kwargs))
        samples = {name: site for name, site in self.sites.items() if site["type"] == "sample"}
        self.latent = {name: _like(site["value"]) for name, site in samples.items() if not site["is_observed"]}
        lengths = {np.shape(leaf)[0] for leaf in self._leaves if np.ndim(leaf)}
        try:
            self.n = _number_of_rows(self.sites, lengths)
        except ValueError as error:
            raise CoreletError(str(error)) from None
        self._at = [at for at, leaf in enumerate(self._leaves) if np.ndim(leaf) and np.shape(leaf)[0] == self.n]
        self.values = [_numbers(self._leaves[at]) for at in self._at]
        self._follow: tuple[int, ...] = ()
        count = min(FEWER_ROWS, max(1, self.n - 1))
        fewer = self._on_fewer_rows(count)
        self.likelihood = [name for name in _of_rows(self.sites, self.n) if shape_of_rows(fewer[name])[:1] == (count,)]
        """Observed sites and factors with one log-likelihood for each row."""
        self.whole = [
            name for name, site in samples.items() if site["is_observed"] and not is_factor(site) and name not in self.likelihood
        ]
        """Observed sites of other lengths, which are part of the density whatever the rows are."""
        self.long = [
            name
            for name, site in self.sites.items()
            if site["type"] == "deterministic"
            and (name not in fewer or np.shape(site["value"]) != np.shape(fewer[name]["value"]))
        ]
        """Deterministic sites whose shape follows the number of rows."""

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(int(np.prod(like.shape)) for like in self.latent.values())

    @property
    def dimension(self) -> int:
        """How many unconstrained numbers there are."""
        free = jax.eval_shape(self.unconstrained, self.latent, self.take(slice(0, min(self.n, 2)), 0))
        return sum(int(np.prod(free[name].shape)) for name in self.latent)

    # Rows in place of all.

    def call(self, data: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these rows in place of all."""
        leaves = list(self._leaves)
        for at in self._follow:
            leaves[at] = np.shape(data[0])[0]
        for at, values in zip(self._at, data):
            leaves[at] = values
        args, kwargs = jax.tree_util.tree_unflatten(self._tree, leaves)
        return args, kwargs

    def of(self, model: Callable[..., Any]) -> Rows:
        """Another model with the same arguments."""
        args, kwargs = jax.tree_util.tree_unflatten(self._tree, self._leaves)
        return Rows(model, args, kwargs)

    def take(self, rows: Which, size: int) -> list[Any]:
        """These rows of each argument, the last of them repeated up to this size."""
        return [_padded(values[rows], size) for values in self.values]

    def append(self, other: Rows, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Takes rows of another call of the model after its own: their numbers here."""
        kinds = [[(values.dtype, values.shape[1:]) for values in table.values] for table in (self, other)]
        if kinds[0] != kinds[1]:
            raise CoreletError(
                "this is not the model of the fit: its arguments with a value for each row are others, or of other shapes. The new rows need the "
                "model, the levels and the scales that the earlier ones had"
            )
        self.values = [np.concatenate([mine, known[rows]]) for mine, known in zip(self.values, other.values)]
        first, self.n = self.n, self.n + len(rows)
        return np.arange(first, self.n)

    def _on_fewer_rows(self, count: int) -> dict[str, Any]:
        """The sites given so many rows, as shapes. An integer argument that is the number of rows stays as it is (it may be the
        number of groups, or part of a prior) unless the model then cannot be evaluated: then it is the size of a plate."""
        data = [_shaped((count, *values.shape[1:]), jnp.result_type(values)) for values in self.values]
        numbers = [at for at, leaf in enumerate(self._leaves) if _is_integer(leaf) and leaf == self.n]
        first: Any = None
        for follow in chain.from_iterable(combinations(numbers, size) for size in range(len(numbers) + 1)):
            self._follow = follow
            found: dict[str, Any] = {}
            try:
                jax.eval_shape(lambda data: found.update(_sites_now(self._called(data))), data)  # noqa: B023
                self._refuse_sites(found, count)
                return found
            except CoreletError as error:
                first = error
            except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
                first = first or CoreletError(READS_VALUES)
            except Exception as error:  # Whatever a user's model raises: it was evaluated on all rows without it.
                latent = [name for name, like in self.latent.items() if self.n in like.shape]
                tables = [type(self._leaves[at]).__name__ for at in self._at if hasattr(self._leaves[at], "columns")]
                first = first or CoreletError(
                    self._one_a_row(latent[0])
                    if latent
                    else f"an argument of the model is a {tables[0]}; hand over its columns, as arrays or as a dictionary of arrays"
                    if tables
                    else f"the model cannot be evaluated on {count} of its {self.n} rows ({_first_line(error)}); rows are the first axis "
                    "of arguments that are arrays, so hand over in args whatever has one entry for each row, and their number, and "
                    "index or shift rows before the model"
                )
        raise first

    def _refuse_sites(self, fewer: Mapping[str, Any], count: int) -> None:
        """Refuses sites that do not have the rows that they were given."""
        for name, like in self.latent.items():
            if name not in fewer or np.shape(fewer[name]["value"]) != like.shape:
                raise CoreletError(self._one_a_row(name))
        for name in _of_rows(self.sites, self.n):
            found = shape_of_rows(fewer[name]) if name in fewer else ()
            if not is_factor(self.sites[name]) and found[:1] != (count,):
                raise CoreletError(
                    f"{name} has {found[0] if found else 'no'} rows where the model is given {count}; hand over in args whatever has "
                    "one entry for each row"
                )

    def _one_a_row(self, name: str) -> str:
        shapes = [(other, shape_of_rows(site)) for other, site in self.sites.items() if site["type"] == "sample" and site["is_observed"]]
        axes = [f" (the first axis of {other}, whose shape is {shape})" for other, shape in shapes if shape[:1] == (self.n,) and len(shape) > 1]
        return (
            f"{name} has one latent value for each of the {self.n} rows{''.join(axes[:1])}, so a row has a part of the posterior of its own; "
            "integrate it out, or give it one value for each group"
        )

    def _called(self, data: Sequence[Any]) -> Callable[[], Any]:
        args, kwargs = self.call(data)
        return lambda: self.model(*args, **kwargs)

    def observed(self, name: str) -> NDArray[Any]:
        """What was observed at a site."""
        return np.asarray(_sites_now(self._called(self.values))[name]["value"])

    # The density.

    def parts(self, theta: Mapping[str, Any], data: Sequence[Any]) -> Parts:
        """Everything that the log density is made of, at constrained values of the latent sites."""
        sites = self.sites_at(theta, data)
        rows: Any = sum(_by_row(sites[name]) for name in self.likelihood)
        others = {
            name: jnp.sum(_log_density(site))
            for name, site in sites.items()
            if site["type"] == "sample" and name not in self.likelihood
        }
        values = {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}
        return Parts(rows, others, values)

    def sites_at(self, theta: Mapping[str, Any], data: Sequence[Any]) -> dict[str, Any]:
        """The sites at constrained values of the latent ones."""
        return _sites_now(self._called(data), theta)

    def log_likelihood(self, theta: Mapping[str, Any], data: Sequence[Any]) -> Any:
        """The log-likelihood of each row at one draw."""
        return self.parts(theta, data).rows

    def weighted(self, weights: Any, *data: Any) -> None:
        """The model of these rows, each log-likelihood with its weight. Sites of rows, and what follows from others, are hidden."""

        def hidden(site: Mapping[str, Any]) -> bool:
            return site["type"] == "deterministic" or site.get("name") in self.likelihood

        with block(hide_fn=hidden), trace() as sites:
            self._called(data)()
        rows: Any = sum(_by_row(sites[name]) for name in self.likelihood)
        numpyro.factor("corelet_log_likelihood", jnp.where(weights > 0, weights * rows, 0.0).sum())

    def log_prior(self, free: Mapping[str, Any], data: Sequence[Any]) -> Any:
        """The log density of everything but the rows at unconstrained values, with the Jacobians of their transforms."""
        hidden = block(lambda: _seeded(self._called(data))(), hide=self.likelihood)
        return -potential_energy(hidden, (), {}, free)

    def constrained(self, free: Mapping[str, Any], data: Sequence[Any]) -> dict[str, Any]:
        """Values of the latent sites."""
        values = constrain_fn(_seeded(self._called(data)), (), {}, dict(free))
        return {name: values[name] for name in self.latent}

    def unconstrained(self, theta: Mapping[str, Any], data: Sequence[Any]) -> dict[str, Any]:
        """Values on the whole real line, by site."""
        found = unconstrain_fn(_seeded(self._called(data)), (), {}, dict(theta))
        return {name: found[name] for name in self.latent}


def _seeded(model: Callable[[], Any]) -> Callable[..., Any]:
    """A model that needs no key from elsewhere. Its own is made where it is traced: before that, it would be compiled."""
    return lambda: seed(model, 0)()


def _sites_now(model: Callable[[], Any], theta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The sites at these values of the latent ones; at any where there are none (an improper prior has no draws, so it gets some)."""
    given = seed(model, 0)
    at = substitute(given, substitute_fn=init_to_sample) if theta is None else substitute(given, data=dict(theta))
    sites: dict[str, Any] = trace(at).get_trace()
    return sites


def _sites(model: Callable[[], Any]) -> dict[str, Any]:
    """The sites of a model, with shapes in place of what would be random: nothing is drawn, and nothing compiled. A model that needs
    numbers there (to index a NumPy array, say) is run once."""
    found: dict[str, Any] = {}
    try:
        jax.eval_shape(lambda: found.update(_sites_now(model)))
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        return _sites_now(model)
    return found


def _like(value: Any) -> Any:
    return _shaped(jnp.shape(value), jnp.result_type(value))


def _numbers(leaf: Any) -> NDArray[Any]:
    values = np.asarray(leaf)
    try:
        jnp.result_type(values)
    except TypeError:
        raise CoreletError(
            f"an argument of the model with {len(values)} rows holds {values.dtype.name}, not numbers; hand over columns of numbers as "
            "arrays, and codes for categories"
        ) from None
    return values


def _is_integer(leaf: Any) -> bool:
    return isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def is_factor(site: Mapping[str, Any]) -> bool:
    """Whether a site was made by `numpyro.factor`."""
    fn = site["fn"]
    while not isinstance(fn, dist.Unit) and hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return isinstance(fn, dist.Unit)


def shape_of_rows(site: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of its log-likelihoods. (A distribution of scalars has values of many rows without saying so.)"""
    fn, whole = site["fn"], np.shape(site["value"])
    if is_factor(site):
        return tuple(fn.batch_shape)
    try:
        return np.broadcast_shapes(fn.batch_shape, whole[: len(whole) - len(fn.event_shape)])
    except ValueError:
        raise ValueError(f"the observed values of {site['name']} have shape {whole}, but their distribution {fn.shape()}") from None


def _log_density(site: Mapping[str, Any]) -> Any:
    value = site["fn"].log_prob(site["value"])
    return value if site["scale"] is None else site["scale"] * value


def _by_row(site: Mapping[str, Any]) -> Any:
    """The log-likelihood of each row of a site."""
    value = jnp.broadcast_to(_log_density(site), shape_of_rows(site))
    return value.reshape(value.shape[0], -1).sum(axis=1)


def _of_rows(sites: Mapping[str, Any], n: int) -> list[str]:
    """Observed sites and factors that have n values."""
    samples = [(name, site) for name, site in sites.items() if site["type"] == "sample" and site["is_observed"]]
    return [name for name, site in samples if shape_of_rows(site)[:1] == (n,)]


def _number_of_rows(sites: Mapping[str, Any], lengths: set[int]) -> int:
    """The length of the longest observed site that some argument has too; refuses models without one. `lengths` are those of
    arguments."""
    samples = {name: site for name, site in sites.items() if site["type"] == "sample"}
    observed = {name: site for name, site in samples.items() if site["is_observed"] and not is_factor(site)}
    latent = {name: site for name, site in samples.items() if not site["is_observed"]}
    if not latent:
        raise CoreletError("this model has no latent site, so there is nothing to fit")
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            raise CoreletError(f"the plate {name} takes a subsample; leave subsample_size out, a coreset does that")
        if site["type"] in ("param", "mutable"):
            raise CoreletError(
                f"{name} is a numpyro.{site['type']}, which NUTS does not sample; give it a prior (numpyro.sample), or pass its value as "
                "an argument"
            )
    for name, site in latent.items():
        if site["fn"].support.is_discrete:
            raise CoreletError(f"{name} is a discrete latent site; integrate it out (dist.MixtureSameFamily, for instance)")
    for name in observed:
        base = name.removesuffix("_observed")
        if base != name and f"{base}_unobserved" in latent:
            raise CoreletError(f"{base} has missing values that the model imputes (obs_mask); leave these rows out")
    shapes = {name: shape_of_rows(site) for name, site in (observed or samples).items() if site["is_observed"]}
    found = {shape[0] for shape in shapes.values() if shape and shape[0] in lengths}
    if found:
        return max(found)
    if not observed:
        raise CoreletError(
            "this model has no observed site (obs=), and no numpyro.factor with one value for each row; leave out the .sum(), so that "
            "it can be told which part of the likelihood belongs to which row"
        )
    name = next(iter(observed))
    if not shapes[name]:
        raise CoreletError(
            f"the log-likelihood of {name} is not a sum over its rows (.to_event over rows, a Gaussian process, a time series, …), so "
            "no rows can stand for all"
        )
    raise CoreletError(
        f"no argument of the model has {shapes[name][0]} rows, as {name} has; hand the data over in args as arrays, and index or shift "
        "them (y[1:], y[:-1], y[known]) before the model"
    )


def dimensions(sites: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the dimensions of each site, by its plates and `infer={"event_dims": …}`, as ArviZ finds them."""
    found = {}
    for name, site in sites.items():
        if site["type"] in ("sample", "deterministic"):
            plates = sorted(site.get("cond_indep_stack", []), key=lambda frame: frame.dim)
            names = [frame.name for frame in plates] + list((site.get("infer") or {}).get("event_dims", []))
            if names and len(names) <= np.ndim(site["value"]):
                found[name] = names
    return found


def _padded(values: NDArray[Any], size: int) -> NDArray[Any]:
    missing = size - len(values)
    if missing <= 0:
        return values
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
