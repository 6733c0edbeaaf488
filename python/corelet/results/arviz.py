"""Draws as the object that the installed ArviZ works with: `InferenceData` before version 1, an xarray `DataTree` since."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Optional

from .. import _lib


def inference_data(
    groups: Mapping[str, Mapping[str, Any]],
    *,
    coords: Optional[Mapping[str, Any]] = None,
    dims: Optional[Mapping[str, list[str]]] = None,
    attributes: Optional[Mapping[str, str]] = None,
) -> Any:
    """Groups of variables (`posterior`, `sample_stats`, …), each an array of chains × draws × its own shape (`observed_data`: of its
    own shape). `attributes` are those of the posterior."""
    arviz = load()
    attrs = {"inference_library": "corelet", "inference_library_version": _lib.__version__, **(attributes or {})}
    shared: dict[str, Any] = dict(coords=coords, dims=dims, save_warmup=any(name.startswith("warmup") for name in groups))
    if before_version_1():
        return arviz.from_dict(**groups, **shared, posterior_attrs=attrs)
    return arviz.from_dict(groups, **shared, attrs={"posterior": attrs})


def load() -> Any:
    """ArviZ itself."""
    try:
        import arviz
    except ImportError:
        raise ImportError("ArviZ is needed for this object (the draws themselves do not need it): pip install arviz") from None
    return arviz


def before_version_1() -> bool:
    """Whether the installed ArviZ has `InferenceData`."""
    return int(version("arviz").partition(".")[0]) < 1


def dataset_of(idata: Any, group: str) -> Any:
    """A group of either object as an xarray `Dataset`; None where it has no such group."""
    names = {str(name).strip("/").partition("/")[0] for name in (idata.groups() if callable(idata.groups) else idata.groups)}
    if group not in names:
        return None
    found = idata[group]
    return found.to_dataset() if hasattr(found, "to_dataset") else found
