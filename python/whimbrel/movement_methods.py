"""Which rows of a sharded stream are in which shard: its key, and how rows move (quill.txt, Table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _whimbrel as native
from ._types import Key, RowFunction
from .errors import InvalidError
from .expressions import Expr
from .ingress import shard_count
from .plan_builder import PlanBuilder
from .projection import expression_or_list, projection
from .remote import RemoteRuntime
from .settings import default_shards
from .stream import Stream

if TYPE_CHECKING:
    from .sharded import ShardedStream

Scope = Literal["global", "local"]


class MovementMethods(PlanBuilder):
    """The methods of `ShardedStream` that change its key, or move rows between shards."""

    __slots__ = ()

    def _with_plan(self, plan: native.Plan) -> ShardedStream:
        """Make a sharded stream of another plan."""
        raise NotImplementedError

    def _moved(self, plan: native.Plan, location: str | RemoteRuntime | None) -> ShardedStream:
        """Make the stream of an exchange that moves rows to a virtual cluster, if one is given."""
        name = location.name if isinstance(location, RemoteRuntime) else location
        if location is not None and not name:
            raise InvalidError(
                "location is a virtual cluster, or the name of one: see Cluster.create_cluster"
            )
        return self._with_plan(plan if name is None else plan.at(name))

    def _target(self, shards: int | None) -> int:
        """How many shards a movement has."""
        own = self._plan.properties()["shards"]
        return shard_count(shards) or (default_shards() if own == 1 else own)

    def rekey(self, *key: Key) -> ShardedStream:
        """
        Change the key, by which rows are grouped, and by which `redistribute` moves them. No row moves.

        Parameters
        ----------
        *key
            Names of columns, or lambdas of the row that return an expression, a tuple of these, or a dict of
            names and expressions. A computed key is added to the columns.

        Returns
        -------
        ShardedStream
            The same rows in the same shards.

        Raises
        ------
        InvalidError
            If a column does not exist.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "user": 17}])
        >>> clicks.rekey("item").key, clicks.rekey(lambda e: {"bucket": e.user % 10}).key
        (['item'], ['bucket'])
        """
        outputs = projection(self._plan.schema(), key, {}, name_by_text=True)
        plan = self._plan if outputs.struct is None else self._plan.with_columns([outputs.struct])
        return self._with_plan(plan.rekey(outputs.columns))

    def colocated(self, *key: Key) -> ShardedStream:
        """
        Require that rows with equal keys are in one shard, as `Stream.colocated`. No row changes or moves.

        Parameters
        ----------
        *key
            As in `Stream.colocated`.

        Returns
        -------
        ShardedStream
            The same rows in the same shards.

        Raises
        ------
        InvalidError
            If the plan does not ensure it.

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a", "user": 1}, {"item": "b", "user": 2}])
        >>> clicks.rekey("item").redistribute(4).colocated("item").shards
        4
        """
        return self._with_plan(Stream(self._plan).colocated(*key)._plan)

    def redistribute(
        self,
        shards: int | None = None,
        *,
        scope: Scope = "global",
        location: str | RemoteRuntime | None = None,
    ) -> ShardedStream:
        """
        Move rows so that those with equal keys are in one shard.

        Parameters
        ----------
        shards
            Into how many shards; by default as many as there are, or, if there is but one, as `config` says
            (the number of cores).
        scope
            ``"global"``, or ``"local"``: only among the shards of one machine.
        location
            A virtual cluster, or its name: rows move there, and what comes after runs there. By default they
            stay where they are. In one process it means nothing.

        Returns
        -------
        ShardedStream
            The same rows, each shard in order of time.

        Raises
        ------
        InvalidError
            If the stream has no key (see `rekey`).

        Examples
        --------
        >>> import whimbrel as wb
        >>> clicks = wb.from_rows([{"item": "a"}, {"item": "b"}])
        >>> clicks.rekey("item").redistribute(4).shards
        4
        """
        return self._moved(self._plan.redistribute(self._target(shards), scope), location)

    def reshard(
        self,
        shards: int | None = None,
        *,
        together: str | Sequence[str] = (),
        scope: Scope = "global",
        location: str | RemoteRuntime | None = None,
    ) -> ShardedStream:
        """
        Move rows round robin, so that shards are of equal size.

        Parameters
        ----------
        shards, scope, location
            As in `redistribute`.
        together
            Columns: rows that are equal in them go to the same shard. The rows come from one shard, in the
            order of these columns (`Stream.require_sorted`): runs of equal rows are dealt out, and none is
            copied as in `redistribute`.

        Returns
        -------
        ShardedStream
            The same rows, each shard in order of time.

        Raises
        ------
        InvalidError
            If rows that are equal in the columns `together` may not follow each other.

        Examples
        --------
        >>> import whimbrel as wb
        >>> wb.from_rows([{"item": "a"}, {"item": "b"}]).reshard(2).shards
        2
        >>> bills = wb.from_rows([(2, 7), (3, 7), (6, 8)], schema=["at", "order"], time="at")
        >>> bills.query(lambda q: q.require_sorted("order")).reshard(2, together="order").shards
        2
        """
        columns = [together] if isinstance(together, str) else list(together)
        if not columns:
            return self._moved(self._plan.reshard(self._target(shards), scope), location)
        if scope != "global":
            raise InvalidError('reshard: runs of rows go to any shard; leave out scope="local", or together=')
        return self._moved(self._plan.reshard_runs(columns, self._target(shards)), location)

    def merge_partitions(self) -> ShardedStream:
        """
        Give a stream with a clock for each partition (``partition_by=``) one clock again.

        Its rows come in one order from here on, as far as all partitions have come: it waits for the slowest
        of them, or for the low watermark that ``lag=`` or the source gives.

        Returns
        -------
        ShardedStream
            The same rows.

        Raises
        ------
        InvalidError
            If the stream has one clock already.

        Examples
        --------
        >>> import whimbrel as wb
        >>> rows = [(70, "a", 1), (80, "a", 2), (10, "b", 4)]
        >>> power = wb.from_rows(rows, schema=["at", "device", "watt"], time="at", partition_by="device")
        >>> power.merge_partitions().rekey().query(lambda q: q.tumbling(60).aggregate(n=wb.count())).to_rows()
        [Row(start=60, end=120, n=1), Row(start=120, end=180, n=2)]
        """
        return self._with_plan(self._plan.merge_partitions())

    def broadcast(
        self,
        shards: int | None = None,
        *,
        scope: Scope = "global",
        location: str | RemoteRuntime | None = None,
    ) -> ShardedStream:
        """
        Copy every row to every shard.

        Parameters
        ----------
        shards, scope, location
            As in `redistribute`.

        Returns
        -------
        ShardedStream
            All rows in each shard, in order of time.

        Examples
        --------
        >>> import whimbrel as wb
        >>> len(wb.from_rows([{"item": "a"}, {"item": "b"}]).broadcast(3).to_rows())
        6
        """
        return self._moved(self._plan.broadcast(self._target(shards), scope), location)

    def multicast(
        self,
        to: RowFunction | Expr | str,
        shards: int | None = None,
        *,
        scope: Scope = "global",
        location: str | RemoteRuntime | None = None,
        returns: Any = "int64",
    ) -> ShardedStream:
        """
        Send every row to the shards that it names.

        Parameters
        ----------
        to
            The number of the shard, or a list of them: a lambda of the row, an expression, or a column's
            name. An empty list sends the row nowhere.
        shards, scope, location
            As in `redistribute`.
        returns
            What a `to` that runs as a black box returns: ``"int64"`` or ``"list[int64]"``.

        Returns
        -------
        ShardedStream
            The rows, each shard in order of time.

        Raises
        ------
        InvalidError
            If `to` is neither a whole number nor a list of them.
        DataError
            When run, if there is no shard of a number.

        Examples
        --------
        >>> import whimbrel as wb
        >>> numbers = wb.from_rows([{"n": 0}, {"n": 1}, {"n": 2}])
        >>> numbers.multicast(lambda e: e.n % 2, shards=2).to_rows()
        [Row(n=0), Row(n=2), Row(n=1)]
        """
        target = expression_or_list(self._plan.schema(), to, returns)
        return self._moved(self._plan.multicast(target, self._target(shards), scope), location)
