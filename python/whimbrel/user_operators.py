"""Operators of a user's own over batches, as the engine calls them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from . import _whimbrel as native
from .errors import InvalidError
from .tracing import array_of_result, label, without_views

__all__ = ["native_operator"]


def native_operator(
    operator: Callable[[], Any], returns: Mapping[str, Any], name: str | None
) -> native.Operator:
    """Make an operator for plans of a class, or of a function that makes objects with a method `process`."""
    if find_spec("pyarrow") is None:
        raise InvalidError("process hands over batches of pyarrow: pip install pyarrow")
    if not callable(operator):
        raise InvalidError(
            f"process: {operator!r:.60} is no class, and no function that makes an object with a method "
            "process(rows)"
        )
    if not isinstance(returns, Mapping):
        raise InvalidError(
            'process: returns is the columns that it makes and their types, {"x": "float64"}, '
            f"not {returns!r:.60}"
        )
    name = name or label(operator)
    return native.Operator(name, list(returns.items()), lambda: RunningOperator(operator()))


class RunningOperator:
    """An operator in the middle of a stream."""

    __slots__ = ("_object",)

    def __init__(self, of: Any) -> None:
        if not callable(getattr(of, "process", None)):
            raise InvalidError(f"a {type(of).__name__} has no method process(rows)")
        self._object = of

    def process(self, table: native.Table) -> tuple[Any, Any]:
        """Call the operator with a batch; give its rows, and of which rows of the batch they are made."""
        import pyarrow

        given = pyarrow.RecordBatchReader.from_stream(table).read_all()
        arrays = [without_views(column.combine_chunks()) for column in given.columns]
        made = self._object.process(pyarrow.record_batch(arrays, names=given.column_names))
        made, made_of = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if made_of is not None:
            made_of = pyarrow.table({"made_of": array_of_result(made_of).cast(pyarrow.uint32())})
        if isinstance(made, Mapping):
            made = pyarrow.table({column: array_of_result(values) for column, values in made.items()})
        if not (hasattr(made, "__arrow_c_stream__") or hasattr(made, "__arrow_c_array__")):
            raise InvalidError(
                f"process returned {type(made).__name__}: a dict of columns or a table is wanted; where not "
                "one row is made of each, a pair of that and of the places of the rows that they are made of"
            )
        return made, made_of

    def save(self) -> bytes:
        """Pickle the operator with its state."""
        return pickle.dumps(self._object)

    def restore(self, state: bytes) -> None:
        """Take over a pickled operator."""
        self._object = pickle.loads(state)
