"""`corelet.build`: choose weighted rows of a data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any, Optional, Union

from . import _lib
from .frames.columns import ROLES, column, first_missing, length, names_of, parts_of
from .results.coreset import Coreset, coreset_from
from .frames.formula import resolved
from ._progress import ProgressOption, reporter
from ._seeds import seeded
from .frames.spool import spooled
from ._types import Data, Execution, Part
from ._warn import warn


BESIDE = ROLES[1:]
"""Arguments that may be a column of the data or an array with one entry per row."""


@seeded
def build(
    X: Any,
    y: Any = None,
    *,
    k: Optional[int] = None,
    model: str = "logistic",
    target: Optional[str] = None,
    features: Optional[Sequence[str]] = None,
    exclude: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: Sequence[str] = (),
    exposure: Any = None,
    trials: Any = None,
    event: Any = None,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
    positive: Optional[object] = None,
    levels: Optional[Sequence[object]] = None,
    intercept: bool = True,
    standardise: str = "scale",
    drop_missing: bool = False,
    collapse: bool = False,
    link: Optional[str] = None,
    sigma: Optional[float] = None,
    degrees: Union[float, str, None] = None,
    prior_sd: Optional[float] = None,
    priors: Union[Mapping[str, Any], str, None] = None,
    max_kl: Optional[float] = None,
    method: str = "pursuit",
    reference: bool = False,
    embedding: str = "auto",
    polish: bool = False,
    start: str = "full",
    rounds: Optional[int] = None,
    rounds_by: str = "laplace",
    rest: str = "none",
    memory: Union[str, int, None] = None,
    scratch: Union[str, PathLike[str], None] = None,
    seed: int = 0,
    threads: Optional[int] = None,
    format: Optional[str] = None,
    progress: ProgressOption = None,
) -> Coreset:
    """Choose at most k weighted rows whose weighted posterior closely approximates the posterior of all rows.

    The keywords and their defaults are the options of `corelet build`. The same seed gives the same rows and weights bit for bit, in Python
    and on the command line, with any number of threads.

    Parameters
    ----------
    X
        The data: a NumPy array (float64 and float32 are borrowed, not copied); a pandas, polars or Arrow table; a mapping of names to
        columns; or whatever the command reads: the path of a file, a pattern (`parts/*.parquet`), a folder of parts, or a list of paths.
        Columns of an array are called x1, x2, …
        A stream (a `polars.LazyFrame`, a DuckDB relation, a pyarrow Dataset or RecordBatchReader, anything with `__arrow_c_stream__`)
        is read batch by batch into a scratch file. It is never collected in memory if it contains all columns.
        `X` may also be a formula, `"late ~ carrier*origin + bs(hour, df=5)"`, with the data frame as `y` (needs `formulaic`).
    y
        The target, if it is not a column of `X`: numbers, booleans or text.
    k
        Largest number of rows. The default is as many as bring the divergence to `max_kl`, at most 1600. Without such a search
        (a method other than pursuit, groups, a Gaussian factor) the default is 7 per parameter and at least 100.
    model
        The likelihood, spelled with hyphens or underscores: `logistic`, `softmax` (several classes), `ordinal` (ordered levels),
        `poisson`, `negative-binomial`, `linear`, `student`, `gamma`, `binomial`, `weibull`, `exponential`, or `gaussian` (the mean of Gaussian data, without a target).
    target
        The column of `X` to predict, if `y` is not given.
    features
        The columns to predict from; by default all others. Text becomes indicators.
    exclude, categories, missing
        Columns that are not features; columns to treat as categories even if their cells are numbers; additional texts that mean a
        missing value, besides an empty cell, NA, NaN and null.
    exposure, trials, event
        A second number for the outcome of each row, as a column of `X` or an array: the exposure of a count; the number of
        trials (binomial); or 1 if the event was observed and 0 if the time is right-censored (weibull and exponential;
        by default every event is observed).
    weights
        Frequency weights, > 0, as a column of `X` or an array. The log-likelihood of a row is multiplied by its weight, as if
        there were that many equal rows. The weights of the coreset include them. Survey weights are also treated as counts: divide
        them by their mean.
    offset
        A term added to the linear predictor of each row, as a column of `X` or an array.
    groups
        Labels of the groups that rows belong to (all visits of a patient), as a column of `X` or an array. Then k whole groups are
        chosen instead of rows, each with one weight for all of its rows. They are chosen once, in one embedding:
        `max_kl`, further rounds and `sparse-vi` are refused.
    positive
        Logistic: the level of the target that counts as success; required if the target is text.
    levels
        Ordinal: the levels of the target from low to high; required if it is text and not an ordered categorical. Numbers ascend.
    intercept, standardise, drop_missing
        Whether to add a column of ones; `none`, `scale` or `whiten`; whether to leave out rows with missing values.
    collapse
        Merge equal rows and add their weights. If there are no more than k distinct rows, these are the coreset, which is
        then exact.
    link, sigma, degrees
        Poisson: `log` or `softplus`. The noise standard deviation of a linear model (by default a parameter, `log_sigma`) or of a
        Gaussian model (by default 1). The degrees of freedom of Student-t noise (4), or `estimated`, which makes them a
        parameter, `log_nu`.
    prior_sd
        Replaces the default priors by N(0, prior_sd²) for the intercept and each coefficient of the standardised features; 1 is the
        prior of the paper.
    priors
        `"auto"`, the default: weakly informative and scaled to the data, with the intercept around the link of the mean outcome, so
        that the unit of the target does not matter. `"paper"`: N(0, 1). Or priors by name, with the structure of the command's priors
        file and the default for parameters that are not named: `{"default": "normal(0, 2.5)", "scale": "original",
        "intercept": "student_t(4, 0, 10)", "log_sigma": "normal(0, 1)", "coefficients": {"carrier_*": "laplace(0, 1)"}}`.
    max_kl
        Choose the fewest rows whose divergence, estimated on held-out draws, is at most this, in nats; 0.01 if k is not given.
    method, reference, embedding, polish
        How points are chosen (`pursuit`, `omp`, `a-iht-2`, …); whether to halve the step of hard thresholding, as the authors' code
        does; the embedding: `auto`, `hermite:M` or `draws:S`; whether to compute the best weights of the final points once more.
    start, rounds, rounds_by
        `full` or `subsample:ROWS`, the rows whose Laplace fit is the first approximation of the posterior; how many times to
        build under the coreset's own posterior (by default up to 4 times, while it helps); whether that posterior
        is represented by `laplace` or by `nuts`.
    rest
        Whether a Gaussian factor accompanies or replaces the rows: `none`; `gaussian` (rows represent only what the factor leaves over,
        at most k of them, and 0 is allowed; see `Coreset.rest`); or `auto`, whichever has the smaller divergence at this k.
    memory, scratch
        The memory that the rows may take, such as `"4GiB"` or a number of bytes; by default half of the available memory. Rows that need
        more go to a scratch file in the folder `scratch`, by default that of temporary files. The coreset is the same.
    seed, threads
        The random seed, also accepted as `random_state` or `random_seed`; the number of threads, by default all cores.
    format
        The format of a file, if its extension does not tell it.
    progress
        A callable that receives a `corelet.Progress` from time to time and may return False to stop with the best coreset so
        far; True for a tqdm bar, False for none; by default a bar in a terminal or notebook if tqdm is installed.

    Returns
    -------
    Coreset

    Raises
    ------
    CoreletError
        A `ValueError` with the message that the command prints.

    Examples
    --------
    >>> import numpy as np, corelet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5]))
    >>> cs = corelet.build(X, y, model="logistic", k=50)
    >>> len(cs) <= 50, cs.quality.kl_forward < 1e-3
    (True, True)
    """
    X, y, asked, design = resolved(
        X,
        y,
        dict(
            k=k,
            model=model,
            target=target,
            features=features,
            exclude=exclude,
            categories=categories,
            missing=missing,
            exposure=exposure,
            trials=trials,
            event=event,
            weights=weights,
            offset=offset,
            groups=groups,
            positive=positive,
            levels=levels,
            intercept=intercept,
            standardise=standardise,
            drop_missing=drop_missing,
            collapse=collapse,
            link=link,
            sigma=sigma,
            degrees=degrees,
            prior_sd=prior_sd,
            priors=priors,
            max_kl=max_kl,
            method=method,
            reference=reference,
            embedding=embedding,
            polish=polish,
            start=start,
            rounds=rounds,
            rounds_by=rounds_by,
            rest=rest,
            memory=memory,
            scratch=scratch,
            seed=seed,
        ),
    )
    keywords = native(asked)
    threads = _count("threads", threads)
    with reporter(progress) as report, given(X, y, {**asked, "format": format}, keywords) as data:
        fields = _lib.build(data, keywords, Execution(report, threads))
    # An array of groups is neither available nor needed when the coreset is checked.
    coreset = coreset_from(fields, {**keywords, "groups": groups if isinstance(groups, str) else None})
    coreset.design = design
    warn(*coreset.warnings)
    return coreset


@contextmanager
def given(X: Any, y: Any, asked: Mapping[str, Any], keywords: dict[str, object]) -> Iterator[Data]:
    """The data in the form that the native part reads: a file, a stream in a scratch file, or columns, which `keywords` then name."""
    beside = {name: asked.get(name) for name in BESIDE}
    stream = X if y is None and not arrays_in(beside) else None
    with spooled(stream, asked.get("scratch")) as handle:
        paths = paths_of(X, y, beside)
        if handle is not None:
            yield handle
        elif paths is not None:
            yield (paths, asked.get("format"))
        else:
            yield ("data", data_parts(X, y, beside, keywords))


def native(keywords: Mapping[str, Any]) -> dict[str, object]:
    """Keywords of `build`, any of them, in the form that the native part reads: without arrays, which are passed separately."""
    asked = dict(keywords)
    for name in ("features", "exclude", "categories", "missing"):
        if asked.get(name) is not None:
            asked[name] = [str(text) for text in asked[name]]
    if asked.get("levels") is not None:
        asked["levels"] = [_label(level) for level in asked["levels"]]
    for name in ("k", "rounds", "seed"):
        asked[name] = _count(name, asked.get(name))
    for name in BESIDE:
        asked[name] = asked[name] if isinstance(asked.get(name), str) else None
    if asked.get("scratch") is not None:
        asked["scratch"] = str(fspath(asked["scratch"]))
    asked["positive"] = None if asked.get("positive") is None else _label(asked["positive"])
    return asked


def arrays_in(beside: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with one entry per row that are arrays, not columns of the data."""
    return {name: values for name, values in beside.items() if values is not None and not isinstance(values, str)}


def paths_of(X: Any, y: Any, beside: Mapping[str, Any]) -> Optional[list[str]]:
    """The paths of files, if X is one or several of them. All other arguments with one entry per row must then be columns of the files."""
    paths = X if isinstance(X, (list, tuple)) and X else [X]
    if not all(isinstance(path, (str, PathLike)) for path in paths):
        return None
    if y is not None or arrays_in(beside):
        raise _lib.CoreletError(f"X is a file, so name its columns with target, {', '.join(BESIDE[:-1])} and {BESIDE[-1]}")
    return [str(fspath(path)) for path in paths]


def data_parts(X: Any, y: Any, beside: Mapping[str, Any], keywords: dict[str, object]) -> list[Part]:
    """The columns of X, the target, and other arrays with one entry per row, which `keywords` then name."""
    parts = parts_of(X, keywords)
    for name, values in arrays_in(beside).items():
        keywords[name] = _append(parts, name, values)
        missing = first_missing(parts[-1]) if name == "groups" else None
        if missing is not None:
            raise _lib.CoreletError(f"the group of row {missing} is missing")
    if y is not None:
        name = _append(parts, _name_of(y), y)
        if keywords.get("target") not in (None, name):
            raise _lib.CoreletError("the target is given twice: as y and as the column named by target")
        keywords["target"] = name
    return parts


def _append(parts: list[Part], name: str, values: Any) -> str:
    """Adds a column to those of X, under an unused name, and returns the name."""
    taken = names_of(parts)
    while name in taken:
        name += "_"
    part = column(name, values)
    rows, found = length(parts), len(part[1])
    if parts and found != rows:
        raise _lib.CoreletError(f"{name} has {found} values, X has {rows} rows")
    parts.append(part)
    return name


def _name_of(y: Any) -> str:
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else "y"


def _label(level: object) -> str:
    """The name of a level in the design."""
    if isinstance(level, bool):
        return str(level).lower()
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return str(level)


def _count(name: str, value: Any) -> Any:
    """A whole number that is not negative, or None."""
    if value is None:
        return None
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError(f"{name} is {value!r}, but it must be a whole number") from None
    if number < 0:
        raise _lib.CoreletError(f"{name} is {number}, but it must not be negative")
    return number


