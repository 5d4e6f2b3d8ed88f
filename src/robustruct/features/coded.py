"""Attributes as codes into a list of names that samples share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from robustruct.features.names import PackedNames


class CodedAttributes(Sequence[list[str]]):
    """Attributes of one sample's nodes (or edges), as codes into a list of names.

    It is equivalent to a list of lists of strings, but takes a fraction of the time and memory:
    samples of one file share their ``names``.

    Parameters
    ----------
    names : PackedNames
        Names of attributes; a name may occur twice.
    codes : int32 array of shape (n_nodes, n_attributes)
        Names of each node, by index.

    Examples
    --------
    >>> CodedAttributes(PackedNames.of(["w:a", "w:b", "cap"]), np.array([[0, 2], [1, 2]]))[1]
    ['w:b', 'cap']
    """

    __slots__ = ("codes", "names")

    def __init__(self, names: PackedNames, codes: np.ndarray) -> None:
        self.names = names
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, item: int) -> list[str]: ...

    @overload
    def __getitem__(self, item: slice) -> CodedAttributes: ...

    def __getitem__(self, item: int | slice) -> list[str] | CodedAttributes:
        if isinstance(item, slice):
            return CodedAttributes(self.names, self.codes[item])
        return [self.names[code] for code in self.codes[item].tolist()]
