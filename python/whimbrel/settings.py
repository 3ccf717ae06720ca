"""Settings: defaults of what a call does not set itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .attribute_errors import near_arguments
from .errors import InvalidError
from .remote import RemoteRuntime
from .scheduler import Scheduler

Runtime: TypeAlias = Literal["library", "local"] | Scheduler
_UNSET: Any = object()


@dataclass(frozen=True)
class Settings:
    """The current settings."""

    runtime: Runtime = "local"
    shards: int | None = None
    progress: bool | None = None
    batch_rows: int = 80_000
    on: RemoteRuntime | None = None


_current = Settings()


class config:
    """
    Change the settings, for good or for a ``with`` block.

    Parameters
    ----------
    runtime
        ``"local"`` (default): a thread for every shard of every stage. ``"library"``: the calling thread
        only. A `Scheduler`: its threads, in turns with other queries.
    shards
        How many shards data is redistributed to by default; if `None`, as many as there are cores.
    progress
        Whether to show a progress bar; by default where standard error is a terminal.
    batch_rows
        How many rows a batch holds at most. Results do not depend on it.
    on
        The cluster, or the functions, on which queries run; None is this process.

    Raises
    ------
    InvalidError
        If a setting has no such value.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.config(runtime="library", progress=False):
    ...     wb.from_rows([{"item": "a"}]).to_rows()
    [Row(item='a')]
    """

    def __init__(
        self,
        *,
        runtime: Runtime = _UNSET,
        shards: int | None = _UNSET,
        progress: bool | None = _UNSET,
        batch_rows: int = _UNSET,
        on: RemoteRuntime | None = _UNSET,
    ) -> None:
        arguments = {
            "runtime": runtime,
            "shards": shards,
            "progress": progress,
            "batch_rows": batch_rows,
            "on": on,
        }
        global _current
        self._before = _current
        _current = with_changes(**{name: value for name, value in arguments.items() if value is not _UNSET})

    if not TYPE_CHECKING:
        __init__ = near_arguments(__init__)

    def __enter__(self) -> config:
        return self

    def __exit__(self, *exception: object) -> None:
        global _current
        _current = self._before

    def __repr__(self) -> str:
        return f"config({', '.join(f'{f.name}={getattr(_current, f.name)!r}' for f in fields(_current))})"


def with_changes(**changes: Any) -> Settings:
    """Return the current settings with these changes, checked."""
    settings = replace(_current, **changes)
    if not isinstance(settings.runtime, Scheduler) and settings.runtime not in ("library", "local"):
        raise InvalidError(f'runtime is "library", "local" or a Scheduler, not {settings.runtime!r}')
    if settings.shards is not None and settings.shards < 1:
        raise InvalidError(f"shards has to be at least 1, not {settings.shards}")
    if settings.on is not None and not isinstance(settings.on, RemoteRuntime):
        raise InvalidError(
            f"on is a cluster (wb.cluster.connect) or functions (wb.functions.connect), not {settings.on!r}"
        )
    if settings.batch_rows < 1:
        raise InvalidError(f"batch_rows has to be at least 1, not {settings.batch_rows}")
    return settings


def default_shards() -> int:
    """Return how many shards data is redistributed to by default."""
    cores = os.cpu_count() if _current.on is None else _current.on.cores
    return _current.shards or cores or 1


def current_remote() -> RemoteRuntime | None:
    """Return the cluster, or the functions, on which queries run; None is this process."""
    return _current.on
