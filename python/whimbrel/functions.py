"""
Functions: queries that run on stateless functions over object storage, and come with a bill (Starling).

`start` brings up a function service on this machine, for tests, notebooks and machines of one's own;
`connect` takes a function of AWS Lambda, or of another such service; `pools` puts one's own machines before
functions elsewhere; `sizes` takes those whose memory suits a query. A query runs there with
``on=functions``, or under ``wb.config(on=functions)``.

Examples
--------
>>> import whimbrel as wb
>>> with wb.functions.start(concurrency=2) as functions:  # doctest: +SKIP
...     table = wb.sql("select count(*) as n from range(1000000)", on=functions).collect()
...     print(table.to_rows(), table.bill.dollars)
[Row(n=1000000)] 0.0
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from . import _whimbrel as native
from .errors import InvalidError
from .function_bill import Attempt, Bill, FunctionStage, PoolBill
from .function_client import Functions
from .function_plans import Choice, FunctionPlan, PoolForecast
from .function_rates import Rates

__all__ = [
    "Attempt",
    "Bill",
    "Choice",
    "FunctionPlan",
    "FunctionStage",
    "Functions",
    "LocalFunctions",
    "PoolBill",
    "PoolForecast",
    "Rates",
    "connect",
    "pools",
    "sizes",
    "start",
]

_LAMBDA_PRICES = "aws-us-east-1-x86"
_OWN_PRICES = "own-machines"


def connect(
    *,
    function: str,
    bucket: str,
    endpoint: str | Sequence[str] | None = None,
    s3: str | None = None,
    concurrency: int = 100,
    memory: int = 3008,
    timeout: str | timedelta = "15m",
    prices: str | Mapping[str, Any] = _LAMBDA_PRICES,
    hedge: bool | Literal["reads", "writes"] = True,
    inline: bool = True,
    keep: str | timedelta | None = None,
    small: int = 4 << 20,
    pipelined: bool = True,
    combine: bool | None = None,
    parallel_reads: int = 16,
    rates: Rates | None = None,
) -> Functions:
    """
    Connect to a function that is deployed.

    Parameters
    ----------
    function
        The name of the function.
    bucket
        Where objects are: ``s3://bucket/prefix``, or the absolute path of a folder that all functions see.
    endpoint
        The address of a function service other than AWS Lambda. Of several, each runs one invocation at a
        time.
    s3
        The address of an S3 server other than Amazon's; by default that of ``AWS_ENDPOINT``.
    concurrency
        How many functions run at the same time.
    memory
        The megabytes of memory that a function has.
    timeout
        For how long a function may run.
    prices
        The price sheet: the name of one that comes along (``"aws-us-east-1-x86"``, ``"aws-us-east-1-arm"``,
        ``"own-machines"``), or a mapping with all fields of one.
    hedge
        Whether requests and tasks that take too long are started a second time (Starling, §5); of requests,
        all, or only reads or writes.
    inline
        Whether small outputs go along with invocations and answers instead of through objects.
    keep
        For how long outputs of stages are kept, for the next query that has the same stage over the same
        inputs, and for a query that is started again. None: they are removed when their query ends.
    small
        Queries that read at most so many bytes run in this process. 0: none does.
    pipelined
        Whether tasks begin before all tasks that they read from have ended, if functions are free
        (Starling, §4.4).
    combine
        Whether large shuffles go through combining tasks (Starling, §4.2); None: where that is cheaper.
    parallel_reads
        How many reads of objects a function makes at the same time (Starling, §3.3).
    rates
        How fast functions are, as `Functions.calibrated` measures it. By default as those of AWS Lambda
        usually are, or with `endpoint` those of one's own machines.

    Returns
    -------
    Functions
        The functions, for ``on=``.

    Raises
    ------
    InvalidError
        If the bucket has no such address, no region of AWS is known, or a setting has no such value.

    Examples
    --------
    >>> import whimbrel as wb
    >>> wb.functions.connect(function="whimbrel", bucket="s3://b/whimbrel")  # doctest: +SKIP
    Functions('whimbrel', bucket='s3://b/whimbrel')
    """
    hedges: dict[Any, str] = {True: "all", False: "none", "reads": "reads", "writes": "writes"}
    if not isinstance(hedge, (bool, str)) or hedge not in hedges:
        raise InvalidError(f'hedge is True, False, "reads" or "writes", not {hedge!r}')
    if not isinstance(prices, (str, Mapping)):
        raise InvalidError(f"prices are the name of a price sheet or a mapping, not {prices!r}")
    _check_size("memory", memory, 1, 2**32 - 1)
    _check_size("small", small, 0, 2**63 - 1)
    return Functions(
        {
            "function": function,
            "endpoints": [] if endpoint is None else [endpoint] if isinstance(endpoint, str) else endpoint,
            "bucket": os.fspath(bucket),
            "s3": _s3_server(s3),
            "concurrency": concurrency,
            "memory": memory,
            "timeout": timeout,
            "prices": prices if isinstance(prices, str) else json.dumps(dict(prices)),
            "hedge": hedges[hedge],
            "inline": inline,
            "keep": keep,
            "small": small,
            "pipelined": pipelined,
            "combine": combine,
            "parallel_reads": parallel_reads,
            "rates": None if rates is None else rates.values(),
        }
    )


def pools(*, base: Functions, elastic: Functions, wait: str | timedelta | None = "0s") -> Functions:
    """
    Put two pools of functions behind one interface.

    Machines that are there anyway carry the base load, and functions that are paid by the query the spikes. A
    task runs in the base pool if that has a place, and elsewhere when it has waited for one for as long as
    `wait` says. If the base pool does not answer, all goes elsewhere. Queries share the places of the base
    pool. Bills have the part of each pool, and the price of the whole query on each (``bill.pools``);
    `explain` shows what each would take alone.

    Parameters
    ----------
    base
        Functions of one's own machines: the result of `start` or `connect`. Its prices say what their memory
        costs; ``"own-machines"`` says that it is paid for anyway.
    elastic
        Functions elsewhere, with the same bucket. Its other settings hold for both.
    wait
        For how long a task waits for a place in the base pool. ``"0s"``: not at all, for queries that
        somebody waits for; None: until there is one, for queries that have to be cheap.

    Returns
    -------
    Functions
        The functions of both, for ``on=``.

    Raises
    ------
    InvalidError
        If the two have different buckets, or one of them is two pools already.

    Examples
    --------
    >>> import whimbrel as wb
    >>> own = wb.functions.start(concurrency=8, bucket="s3://b/whimbrel")  # doctest: +SKIP
    >>> cloud = wb.functions.connect(function="whimbrel", bucket="s3://b/whimbrel")  # doctest: +SKIP
    >>> both = wb.functions.pools(base=own, elastic=cloud, wait="2s")  # doctest: +SKIP
    >>> for pool in wb.sql("select 1", on=both).collect().bill.pools:  # doctest: +SKIP
    ...     print(pool.pool, pool.invocations, pool.dollars, pool.alone)
    """
    for name, pool in (("base", base), ("elastic", elastic)):
        if not isinstance(pool, Functions):
            raise InvalidError(f"{name} are functions: those of start or connect, not {pool!r}")
    both = elastic._like(elastic._native.with_base(base._native, wait), base, elastic)
    both._is_compound = True
    return both


def sizes(*functions: Functions) -> Functions:
    """
    Let each query take the functions whose memory serves its goal best.

    A function of more memory costs more by the second. It has more of a processor, up to a whole one at
    1769 MB on AWS Lambda; beyond that it is faster only for queries that need the memory.

    Parameters
    ----------
    *functions
        Functions that differ in their ``memory=``, with the same bucket. As many run at the same time as of
        the first, whose goal decides.

    Returns
    -------
    Functions
        Any of them, for ``on=``.

    Raises
    ------
    InvalidError
        If they have different buckets, or some of them are several already.

    Examples
    --------
    >>> import whimbrel as wb
    >>> small = wb.functions.connect(
    ...     function="small", bucket="s3://b/whimbrel", memory=1769
    ... )  # doctest: +SKIP
    >>> large = wb.functions.connect(
    ...     function="large", bucket="s3://b/whimbrel", memory=8192
    ... )  # doctest: +SKIP
    >>> wb.sql("select 1", on=wb.functions.sizes(small, large)).collect()  # doctest: +SKIP
    """
    if not functions or not all(isinstance(size, Functions) for size in functions):
        raise InvalidError(f"sizes are functions: those of start or connect, not {functions!r:.60}")
    first, *others = functions
    either = first._like(first._native.with_sizes([other._native for other in others]), *functions)
    either._is_compound = True
    return either


def _check_size(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or not least <= value <= most:
        raise InvalidError(f"{name} is a whole number from {least:,} to {most:,}, not {value!r}")


class LocalFunctions(Functions):
    """
    Functions of a service on this machine: the result of `start`.

    They end with the ``with`` block, or with `stop`.
    """

    def __init__(
        self,
        concurrency: int,
        memory: int,
        timeout: str | timedelta,
        bucket: str | None,
        listen: str,
        settings: Mapping[str, Any],
    ) -> None:
        self._process = os.getpid()
        _check_size("memory", memory, 1, 2**32 - 1)
        self._folder = None if bucket else tempfile.mkdtemp(prefix="whimbrel-functions-")
        # Before the functions start: they have the environment of this process.
        s3 = _s3_server(settings.get("s3"))
        command = [sys.executable, "-m", "whimbrel", "function"]
        try:
            self._service = native.FunctionService(command, concurrency, memory, timeout, listen)
            self.endpoint: str = self._service.endpoint()
            like = connect(
                function="whimbrel",
                endpoint=self.endpoint,
                bucket=bucket or self._folder or "",
                concurrency=concurrency,
                memory=memory,
                timeout=timeout,
                **{**settings, "s3": s3},
            )
        except BaseException:
            self.stop()
            raise
        self._settings, self._native = like._settings, like._native

    @property
    def pids(self) -> list[int]:
        """The processes of the functions that have started."""
        return self._service.processes()

    def stop(self) -> None:
        """End all functions, and remove their objects. In a forked process they stay: the parent has them."""
        if os.getpid() != self._process:
            return
        if hasattr(self, "_service"):
            self._service.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalFunctions:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"LocalFunctions({self.endpoint!r}, bucket={self.bucket!r})"


def start(
    concurrency: int = 8,
    *,
    memory: int = 3008,
    timeout: str | timedelta = "15m",
    bucket: str | None = None,
    listen: str = "127.0.0.1:0",
    prices: str | Mapping[str, Any] = _OWN_PRICES,
    **settings: Any,
) -> LocalFunctions:
    """
    Start a function service on this machine, whose functions are processes.

    Parameters
    ----------
    concurrency
        How many functions run at the same time.
    memory, timeout, prices
        As in `connect`.
    bucket
        As in `connect`; by default a folder that is gone in the end.
    listen
        Where clients find the service: an address and a port, 0 for any.
    **settings
        What else `connect` takes.

    Returns
    -------
    LocalFunctions
        The functions; they end with the ``with`` block.

    Raises
    ------
    InvalidError
        If a setting has no such value.

    Examples
    --------
    >>> import whimbrel as wb
    >>> with wb.functions.start(concurrency=2, small=0) as functions:  # doctest: +SKIP
    ...     bill = wb.sql("select max(n) as n from range(1000) t(n)", on=functions).collect().bill
    >>> bill.invocations  # doctest: +SKIP
    1
    """
    return LocalFunctions(
        concurrency,
        memory,
        timeout,
        None if bucket is None else os.fspath(bucket),
        listen,
        {**settings, "prices": prices},
    )


def _s3_server(address: str | None) -> str | None:
    """Get the address of the S3 server; one that is given is that of all of this process from now on."""
    if address is None:
        return os.environ.get("AWS_ENDPOINT") or os.environ.get("AWS_ENDPOINT_URL")
    # Tables in the bucket are read by their URLs, whose stores are opened as the environment says.
    os.environ["AWS_ENDPOINT"] = address
    os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    return address
