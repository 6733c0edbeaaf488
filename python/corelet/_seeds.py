"""`random_state` and `random_seed`, as other packages call it, wherever a `seed` is taken."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ._lib import CoreletError

F = TypeVar("F", bound=Callable[..., Any])

NAMES = ("random_state", "random_seed")


def seeded(function: F) -> F:
    """The same function, whose `seed` may be called `random_state` or `random_seed`: a number, or a generator of NumPy to draw it from."""

    @functools.wraps(function)
    def called(*args: Any, **keywords: Any) -> Any:
        given = [name for name in ("seed", *NAMES) if keywords.get(name) is not None]
        if len(given) > 1:
            raise CoreletError(f"{given[0]} and {given[1]} are names of the same thing: give one of them")
        other = [keywords.pop(name) for name in NAMES if name in keywords]
        seed = next((value for value in other if value is not None), None)
        if seed is not None:
            keywords["seed"] = number(seed)
        return function(*args, **keywords)

    return called  # type: ignore[return-value]


def number(seed: Any) -> Any:
    """A seed, or one that a generator draws."""
    draw = getattr(seed, "integers", getattr(seed, "randint", None))
    return seed if draw is None else int(draw(2**31 - 1))
