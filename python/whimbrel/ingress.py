"""Ingress: how rows become events, by the columns that hold time and a policy for disorder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from . import _whimbrel as native
from ._types import Duration
from .errors import InvalidError

Disorder = Literal["raise", "adjust", "drop"]
OnCompleted = Literal["end_of_stream", "flush", "nothing"]


@dataclass(frozen=True)
class Ingress:
    """The settings of an ingress."""

    time: str | None = None
    end: str | None = None
    kind: str | None = None
    disorder: Disorder = "raise"
    reorder_latency: Duration = 0
    punctuate: Duration | None = None
    punctuate_rows: int | None = None
    on_completed: OnCompleted = "end_of_stream"
    batch_rows: int | None = None
    partition_by: str | tuple[str, ...] | list[str] | None = None
    lag: Duration | None = None
    idle: str | timedelta | None = None

    def apply(self, plan: native.Plan) -> native.Plan:
        """Put the ingress on a plan, if it has a time."""
        if self.time is None:
            self._refuse_settings()
            return plan
        return native.ingress(
            plan,
            self.time,
            self.end,
            self.kind,
            self.disorder,
            self.reorder_latency,
            self.punctuate,
            self.punctuate_rows,
            self.on_completed,
            self.batch_rows,
            self._partition_columns(),
            self.lag,
            self.idle,
        )

    def _partition_columns(self) -> list[str]:
        if isinstance(self.partition_by, str):
            return [self.partition_by]
        if self.lag is not None and not self.partition_by:
            raise InvalidError("lag= is of partitions: name the columns of these with partition_by=")
        return list(self.partition_by or ())

    def _refuse_settings(self) -> None:
        settings = [
            name
            for name in ("end", "kind", "punctuate", "punctuate_rows", "partition_by", "lag", "idle")
            if getattr(self, name) is not None
        ]
        if self.disorder != "raise" or self.reorder_latency != 0:
            settings.append("disorder")
        if settings:
            raise InvalidError(
                f"{', '.join(settings)}= says how to deal with time: give the column with time= too"
            )


_SETTINGS = {
    "kind",
    "disorder",
    "reorder_latency",
    "punctuate",
    "punctuate_rows",
    "on_completed",
    "batch_rows",
    "partition_by",
    "lag",
}


def check_settings(ingress: dict[str, Any]) -> dict[str, Any]:
    """Refuse settings that do not exist or have no such value."""
    for name in ingress:
        if name not in _SETTINGS:
            raise InvalidError(
                f"there is no setting {name}=; there are time=, end=, shards=, {', '.join(sorted(_SETTINGS))}"
            )
    for name, choices in (
        ("disorder", ("raise", "adjust", "drop")),
        ("on_completed", ("end_of_stream", "flush", "nothing")),
    ):
        if name in ingress and ingress[name] not in choices:
            raise InvalidError(f"{name} is one of {', '.join(choices)}, not {ingress[name]!r}")
    return ingress


def shard_count(shards: int | None) -> int | None:
    """Refuse less than one shard."""
    if shards is not None and shards < 1:
        raise InvalidError(f"shards has to be at least 1, not {shards}")
    return shards
