"""Plans that can be run: with which settings, and where.

It relies on `settings`, of which the arguments of an action change some for one run.
"""

from __future__ import annotations

from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .plan_builder import PlanBuilder
from .remote import RemoteRuntime
from .scheduler import Scheduler
from .settings import Runtime, with_changes


class Runnable(PlanBuilder):
    """What all actions share, the methods that run a plan."""

    __slots__ = ()

    # Where it was planned to run, if that was said.
    _on: RemoteRuntime | None = None

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def _require_time(self, instead: str) -> None:
        if self._plan.properties()["time"] is None:
            raise InvalidError(
                f"this stream has no time, so no events; give its source one with time=, or {instead}"
            )

    def _remote(self, on: RemoteRuntime | None) -> RemoteRuntime | None:
        """Say where the plan runs, if not in this process."""
        on = on or self._on
        return with_changes(**({} if on is None else {"on": on})).on

    def _options(
        self,
        runtime: Runtime | None = None,
        progress: bool | None = None,
        batch_rows: int | None = None,
        on: RemoteRuntime | None = None,
    ) -> native.Options:
        changes = {"runtime": runtime, "progress": progress, "batch_rows": batch_rows, "on": on or self._on}
        settings = with_changes(**{name: value for name, value in changes.items() if value is not None})
        remote = None if settings.on is None else settings.on._begin()
        runtime, scheduler = settings.runtime, None
        if isinstance(runtime, Scheduler):
            runtime, scheduler = "library", runtime._native
        return native.Options(runtime, settings.batch_rows, settings.progress, remote, scheduler)
