"""`Coreset.update`: rows that arrive, joined to a coreset whose own data need not be there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from .. import _lib
from .._build import _count
from .._progress import ProgressOption, reporter
from .._types import Execution
from .._warn import warn
from .coreset import Coreset, coreset_from
from .predict import _notes, rows_with_target
from .verdict import judged_by


def update(
    coreset: Coreset,
    new: Any,
    y: Any,
    beside: Mapping[str, Any],
    earlier: Any,
    asked: tuple[str, bool, bool],
    settings: Mapping[str, object],
    threads: Optional[int],
    progress: ProgressOption,
) -> Coreset:
    """See `Coreset.update`."""
    notes = _notes(coreset)
    data = rows_with_target(coreset, new, y, beside)
    before = None
    if earlier is not None:
        features, target = earlier if isinstance(earlier, tuple) else (earlier, None)
        before = rows_with_target(coreset, features, target, {})
    kept = coreset.sampling if len(coreset) else None
    with reporter(progress) as report:
        execution = Execution(report, _count("threads", threads))
        found = _lib.update(data, before, (kept, coreset.weights, notes), asked, settings, execution)
    places, fresh = found["places"], found["fresh"]
    if found["dropped"]:
        warn(f"the new rows: {found['dropped']} have missing values and were left out")
    fields = found["coreset"]
    fields["rows"] = np.concatenate([coreset.rows[places], fresh])
    fields["columns"] = _joined(coreset.columns, places, fields["columns"], len(fresh))
    # Groups of rows are not chosen here.
    result = coreset_from(fields, {**coreset.options, "groups": None})
    result.design = coreset.design
    judged_by(result, found["verdict"])
    warn(*result.warnings)
    return result


def _joined(old: Mapping[str, Any], places: NDArray[np.int64], new: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The cells of both, under the names of the coreset's columns; what new rows have not is missing."""
    if not old or (len(places) == 0 and new):
        return dict(new)
    joined = {}
    for name, values in old.items():
        here = np.asarray(values)[places]
        there = np.asarray(new[name]) if name in new else np.full(count, np.nan if here.dtype.kind == "f" else None)
        alike = here.dtype.kind == there.dtype.kind or {here.dtype.kind, there.dtype.kind} <= set("iuf")
        joined[name] = np.concatenate([here, there] if alike else [here.astype(object), there.astype(object)])
    return joined
