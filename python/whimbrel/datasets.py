"""Datasets of a cluster, which applications share under names (Quill, Table 3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from . import _whimbrel as native
from .errors import InvalidError
from .sharded import ShardedStream
from .sources import read


@dataclass(frozen=True)
class Dataset:
    """
    A dataset of a cluster.

    Attributes
    ----------
    name
        Its name.
    kind
        ``"memory"`` if the workers have its rows; ``"storage"`` if whoever reads it reads its files.
    """

    name: str
    kind: Literal["memory", "storage"]


class Datasets:
    """
    The datasets of a cluster: the value of `Cluster.datasets`.

    ``datasets["adcounts"]`` is a sharded stream that reads one, and iteration gives `Dataset` objects.
    `ShardedStream.to_memory` keeps a result in the memory of the workers under a name.
    """

    def __init__(self, cluster: native.Cluster) -> None:
        self._native = cluster

    def create(
        self, name: str, source: ShardedStream | str | os.PathLike[str], **options: Any
    ) -> ShardedStream:
        """
        Give a name to files, or to any query over files: whoever reads the dataset reads these.

        Parameters
        ----------
        name
            The name.
        source
            A path or URL as in `read`, or a sharded stream.
        **options
            As in `read`, with a path.

        Returns
        -------
        ShardedStream
            The dataset.

        Raises
        ------
        InvalidError
            If there is a dataset of this name, or the stream reads what only this process has.
        """
        if isinstance(source, ShardedStream):
            if options:
                raise InvalidError(f"a stream takes no options to read it, such as {next(iter(options))!r}")
            stream = source
        else:
            stream = read(source, **options)
        self._native.create_dataset(name, stream._plan)
        return stream

    def search(self, text: str = "") -> list[Dataset]:
        """
        List the datasets whose names have a text in them.

        Parameters
        ----------
        text
            The text; by default all are listed.

        Returns
        -------
        list of Dataset
            The datasets, by their names.
        """
        found = sorted(self._native.datasets())
        return [
            Dataset(name, "memory" if in_memory else "storage") for name, in_memory in found if text in name
        ]

    def remove(self, name: str) -> None:
        """
        Remove a dataset, and its rows if the workers have them. Files stay.

        Parameters
        ----------
        name
            The name.

        Raises
        ------
        InvalidError
            If there is none of this name.
        """
        self._native.remove_dataset(name)

    def __getitem__(self, name: str) -> ShardedStream:
        return ShardedStream(self._native.dataset(name))

    def __iter__(self) -> Iterator[Dataset]:
        return iter(self.search())

    def __contains__(self, name: object) -> bool:
        return any(dataset.name == name for dataset in self)

    def __len__(self) -> int:
        return len(self._native.datasets())

    def __repr__(self) -> str:
        return f"Datasets({', '.join(dataset.name for dataset in self)})"
