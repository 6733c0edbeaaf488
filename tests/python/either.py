"""What the tests need of ArviZ in either form: `InferenceData` before version 1, `DataTree` since."""

import arviz as az
import xarray as xr

TREES = int(az.__version__.partition(".")[0]) >= 1
KIND = xr.DataTree if TREES else getattr(az, "InferenceData", None)


def from_groups(**groups):
    """The object that `arviz.from_dict` makes of groups of arrays."""
    return az.from_dict(groups) if TREES else az.from_dict(**groups)


def as_tree(**groups):
    """A `DataTree` whatever ArviZ is installed: what another program, with ArviZ 1, would have written."""

    def dataset(arrays):
        dims = {name: ["chain", "draw", *(f"{name}_dim_{i}" for i in range(values.ndim - 2))] for name, values in arrays.items()}
        return xr.Dataset({name: (dims[name], values) for name, values in arrays.items()})

    return xr.DataTree.from_dict({group: dataset(arrays) for group, arrays in groups.items()})


def groups_of(idata):
    """Names of the groups."""
    return {name.strip("/") for name in (idata.groups if TREES else idata.groups())}


def plot_trace(idata, var_names):
    """ArviZ's pictures of chains."""
    for plot in (az.plot_trace, getattr(az, "plot_trace_dist", None)):
        if plot is not None:
            plot(idata, var_names=var_names)
