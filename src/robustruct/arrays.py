"""Checks arrays that users pass, once, so that compiled code can index them safely.

NumPy and SciPy accept inputs that must be refused: masked arrays, whose masked numbers are still
there, and sparse matrices whose indices point outside.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from robustruct.errors import InvalidInputError

LARGEST = 1e100
"""Largest absolute value of features and weights: sums of their squares stay finite."""

SMALLEST = 1e-100
"""Smallest positive temperature, cost or weight: ratios with LARGEST stay finite."""

MOST_COLUMNS = 2**31 - 1
"""Most columns of a sparse matrix: column indices are int32."""


def as_array(values: Any, field: str) -> np.ndarray:
    """Convert ``values`` to a plain array of their type; ``field`` names them in messages."""
    refuse_masked(values, field)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{field} do not form an array: {error}") from None


def as_floats(values: Any, field: str) -> np.ndarray:
    """Convert ``values`` to float64; refuse text, dates and complex numbers."""
    refuse_masked(values, field)
    try:
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "fiubO":
            raise TypeError(f"its values are of type {array.dtype}")
        if array.dtype == np.float64:
            return array.astype(np.float64)  # a copy, and never of a subclass
        with np.errstate(over="ignore"):  # a long double may become inf
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{field} must hold numbers: {error}.") from None


def length(values: Any) -> int | None:
    """Return the number of items; None without one, as for numbers, generators, 0-d arrays."""
    try:
        return len(values)
    except TypeError:
        return None


def is_sparse(values: Any) -> bool:
    """Return whether ``values`` is a sparse matrix or array of SciPy.

    There is none before SciPy is loaded; loading it here would take as long as all of numpy.
    """
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(values))


def refuse_masked(values: Any, field: str) -> None:
    """Refuse masked values, of which NumPy would use the numbers under the mask."""
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        if masked.dtype.names is None and not masked.any():
            return
        raise InvalidInputError(
            f"{field}: {np.count_nonzero(masked)} of {values.size} values are masked; masks are "
            "not supported. Fill them (array.filled(value)) or leave these rows out."
        )
    if isinstance(values, list | tuple):
        for kind in set(map(type, values)):
            if issubclass(kind, list | tuple | np.ma.MaskedArray):
                for value in values:
                    if type(value) is kind:
                        refuse_masked(value, field)


def as_csr(matrix: Any, field: str) -> Any:
    """Convert a sparse matrix of any format to CSR; refuse indices outside its shape.

    SciPy checks indices only on demand, and its own conversions address memory by them.
    """
    if matrix.ndim != 2:
        raise InvalidInputError(f"{field}: a sparse array of shape {matrix.shape}; expected 2-D.")
    if matrix.shape[1] > MOST_COLUMNS:
        raise InvalidInputError(
            f"{field}: a sparse matrix with {matrix.shape[1]} columns; the most are {MOST_COLUMNS}."
        )
    refuse_masked(getattr(matrix, "data", None), field)
    if matrix.format in ("csr", "csc", "bsr"):
        _check_compressed(matrix, field)
    elif matrix.format == "coo":
        for axis, (index, size) in enumerate(zip(_coordinates(matrix), matrix.shape, strict=True)):
            if np.shape(index) != np.shape(matrix.data):
                _refuse(field, f"{np.size(index)} indices for {np.size(matrix.data)} values")
            _check_range(index, size, ("row", "column")[axis], field)
    if matrix.format == "csr":
        return matrix
    try:
        rows = matrix.tocsr()
    except (TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        _refuse(field, str(error))
    _check_compressed(rows, field)  # the lists of LIL may hold any numbers
    return rows


def all_sound_csr(matrices: Sequence[Any], n_columns: int) -> bool:
    """Return whether all are CSR with ``n_columns`` columns that `as_csr` would accept.

    For many small matrices it takes a tenth of the time of `as_csr` on each.
    """
    starts, columns = [], []
    for matrix in matrices:
        if getattr(matrix, "format", "dense") != "csr":
            return False
        indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
        if not (type(indptr) is type(indices) is type(data) is np.ndarray):
            return False
        integers = indptr.dtype.kind == indices.dtype.kind == "i"
        flat = indptr.ndim == indices.ndim == data.ndim == 1
        if not integers or not flat or data.dtype.kind not in "fiub" or len(data) != len(indices):
            return False
        if matrix.shape != (len(indptr) - 1, n_columns) or not 0 <= indptr[-1] <= len(indices):
            return False
        starts.append(indptr)
        columns.append(indices)
    if not matrices or n_columns > MOST_COLUMNS:
        return False
    firsts = np.cumsum([0, *(len(one) for one in starts)])[:-1]
    indptr, index = np.concatenate(starts), np.concatenate(columns)
    falls = indptr[1:] < indptr[:-1]
    falls[firsts[1:] - 1] = False  # from the end of one matrix to the start of the next
    if indptr[firsts].any() or falls.any():
        return False
    return not len(index) or bool(index.min() >= 0 and index.max() < n_columns)


def _coordinates(matrix: Any) -> tuple[Any, Any]:
    return matrix.row, matrix.col


def _check_compressed(matrix: Any, field: str) -> None:
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    block = np.shape(data)[1:] if matrix.format == "bsr" else (1, 1)
    if np.ndim(data) != (3 if matrix.format == "bsr" else 1):
        _refuse(field, f"its values have shape {np.shape(data)}")
    if 0 in block or matrix.shape[0] % block[0] or matrix.shape[1] % block[1]:
        _refuse(field, f"blocks of shape {block} do not fill the shape {matrix.shape}")
    major, minor = matrix.shape[0] // block[0], matrix.shape[1] // block[1]
    if matrix.format == "csc":
        major, minor = minor, major
    if np.ndim(indptr) != 1 or len(indptr) != major + 1 or indptr.dtype.kind not in "iu":
        _refuse(field, f"indptr must hold {major + 1} integers")
    if np.ndim(indices) != 1 or len(data) != len(indices):
        _refuse(field, f"{np.size(indices)} indices for {len(data)} values")
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or indptr[-1] > len(indices):
        _refuse(field, f"indptr must rise from 0 to at most {len(indices)}, the number of values")
    used = indices[: int(indptr[-1])]
    _check_range(used, minor, "row" if matrix.format == "csc" else "column", field)


def _check_range(index: Any, size: int, what: str, field: str) -> None:
    if index.dtype.kind not in "iu":
        _refuse(field, f"{what} indices are of type {index.dtype}")
    if len(index) and not (int(index.min()) >= 0 and int(index.max()) < size):
        outside = int(index.min()) if int(index.min()) < 0 else int(index.max())
        _refuse(field, f"the {what} index {outside} is outside 0..{size - 1}")


def _refuse(field: str, reason: str) -> NoReturn:
    raise InvalidInputError(
        f"{field}: the sparse matrix is broken: {reason}. Make it again from its values "
        "and their rows and columns."
    )
