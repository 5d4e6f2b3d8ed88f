"""Attributes by number: the names of many samples' attributes, each written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from robustruct.features.names import PackedNames


class CodedAttributes(Sequence[list[str]]):
    """The attributes of one sample's nodes (or edges), as numbers into a list of names.

    To a model it is what the list of lists of strings it stands for would be, but takes a fraction
    of the time and memory: samples of one file share their ``names``.

    Parameters
    ----------
    names : PackedNames
        Names of attributes; a name may be there twice.
    codes : int32 array of shape (n_nodes, n_attributes)
        Which names each node has.

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
