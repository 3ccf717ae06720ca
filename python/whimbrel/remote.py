"""Where queries run, if not in this process."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .attribute_errors import NearNames
from .errors import InvalidError

if TYPE_CHECKING:
    from . import _whimbrel as native
    from .cluster_job import ClusterJob
    from .live_job import LiveJob


class RemoteRuntime(NearNames):
    """What ``on=`` takes: a cluster, or functions."""

    _native: Any

    @property
    def name(self) -> str | None:
        """The name of the virtual cluster that it is, if it is one."""
        return None

    @property
    def cores(self) -> int:
        """How many channels of a query run at the same time."""
        return self._native.cores()

    def _begin(self) -> Any:
        """Get the native half for one query."""
        return self._native

    def _submit(self, plan: native.Plan, keep: str | timedelta) -> ClusterJob:
        """Run a plan that goes on without this process."""
        raise InvalidError(f"{self!r} runs no jobs that go on without their client; submit them to a cluster")

    def _run_forever(
        self,
        plan: native.Plan,
        options: native.Options,
        to: str,
        format: str | None,
        checkpoint: str,
        every: str | timedelta,
        stop_when_idle: str | timedelta | None,
    ) -> LiveJob:
        """Run a plan for ever, also without this process."""
        raise InvalidError(
            f"{self!r} runs no jobs for ever; give them to a cluster, or run them in this process"
        )

    def _store(self, name: str, plan: native.Plan) -> native.Plan:
        """Run a plan, and keep its result there under a name."""
        raise InvalidError(f"{self!r} has no memory of its own; use a cluster, or to_storage")
