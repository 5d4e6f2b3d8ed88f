"""Feature rows, dense or sparse, and their products with weights and with values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from robustruct._lazy import cached_property
from robustruct.core.messages import (
    assemble_rows,
    sparse_label_sums,
    sparse_product,
    sparse_transposed_product,
)
from robustruct.core.structs import Rows
from robustruct.parallel import n_threads, over_pieces, over_samples, stretches

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class SparseRows:
    """CSR rows: row i holds entries indptr[i] .. indptr[i+1]-1, no column twice."""

    indptr: np.ndarray
    """(n+1,) intp."""
    indices: np.ndarray
    """(nnz,) int32, columns."""
    data: np.ndarray
    """(nnz,) float64, values, none of them 0."""
    shape: tuple[int, int]

    @classmethod
    def assemble(
        cls,
        indptr: np.ndarray,
        indices: np.ndarray,
        data: np.ndarray,
        n_columns: int,
        order: np.ndarray,
        constant: bool,
    ) -> SparseRows:
        """Gather rows ``order`` of raw CSR rows; drop unknown columns (-1), sum repeated ones.

        With ``constant`` a last column of ones is appended; ``n_columns`` does not count it.
        """
        n, width = len(order), n_columns + constant
        new_indptr = np.empty(n + 1, np.intp)
        new_indices = np.empty(len(indices) + n * constant, np.int32)
        new_data = np.empty(len(new_indices))
        column = n_columns if constant else -1
        nnz = assemble_rows(
            n,
            order,
            Rows(indptr, indices, data),
            width,
            column,
            new_indptr,
            new_indices,
            new_data,
        )
        if nnz < 0.9 * len(new_indices):  # free memory, unless the copy costs more than it saves
            new_indices, new_data = new_indices[:nnz].copy(), new_data[:nnz].copy()
        return cls(new_indptr, new_indices[:nnz], new_data[:nnz], (n, width))

    @cached_property
    def arrays(self) -> Rows:
        """The rows as a struct of the core."""
        return Rows(self.indptr, self.indices, self.data)

    @cached_property
    def column_offsets(self) -> np.ndarray:
        """(d+1,) number of entries in columns 0 .. j-1; balances threads over columns."""
        offsets = np.zeros(self.shape[1] + 1, np.intp)
        np.cumsum(np.bincount(self.indices, minlength=self.shape[1]), out=offsets[1:])
        return offsets

    def part(self, first: int, last: int) -> SparseRows:
        """Return rows first .. last-1; entries are views."""
        begin, end = self.indptr[first], self.indptr[last]
        indptr = self.indptr[first : last + 1] - begin
        entries = self.indices[begin:end], self.data[begin:end]
        return SparseRows(indptr, *entries, (last - first, self.shape[1]))

    def take(self, rows: np.ndarray) -> SparseRows:
        """Gather rows in the given order."""
        sizes = np.diff(self.indptr)[rows]
        indptr = np.zeros(len(rows) + 1, np.intp)
        np.cumsum(sizes, out=indptr[1:])
        # Entries of row i move from self.indptr[rows[i]] to indptr[i].
        entries = np.repeat(self.indptr[rows] - indptr[:-1], sizes) + np.arange(indptr[-1])
        shape = (len(rows), self.shape[1])
        return SparseRows(indptr, self.indices[entries], self.data[entries], shape)

    def inner(self, other: SparseRows) -> float:
        """Return the Frobenius inner product with ``other``."""
        mine, others = (rows._row_of * self.shape[1] + rows.indices for rows in (self, other))
        _, here, there = np.intersect1d(mine, others, assume_unique=True, return_indices=True)
        return float(self.data[here] @ other.data[there])

    @property
    def _row_of(self) -> np.ndarray:
        """(nnz,) row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    def to_scipy(self) -> sp.csr_array:
        """Return a scipy array that shares memory with these rows."""
        import scipy.sparse as sp  # slow to import

        return sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape)


FeatureMatrix: TypeAlias = np.ndarray | SparseRows


class SlicedRows(Protocol):
    """Rows that can be sliced: an array, or an object that computes slices (see `Excess`)."""

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


def for_kernels(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return ``values`` C-contiguous and writable, of type ``dtype``, as kernels take them."""
    if isinstance(values, np.ndarray) and values.dtype == dtype and values.flags.carray:
        return values
    return np.require(values, dtype, ["C", "W"])


def product(matrix: FeatureMatrix, weights: np.ndarray, n_jobs: int | None = -1) -> np.ndarray:
    """Return matrix @ weights (n, m) for weights (d, m)."""
    out = np.empty((matrix.shape[0], weights.shape[1]))
    if isinstance(matrix, np.ndarray):
        # Fixed stretches, since BLAS may round a row differently with another number of rows.
        over_pieces(
            lambda first, last: np.dot(matrix[first:last], weights, out=out[first:last]),
            stretches(*out.shape),
            n_jobs,
        )
        return out
    m = out.shape[1]
    n_jobs = _worthwhile(n_jobs, matrix, weights)
    over_samples(sparse_product, matrix.indptr, n_jobs, matrix.arrays, m, weights, out)
    return out


def transposed_product(
    matrix: FeatureMatrix, values: SlicedRows, out: np.ndarray, n_jobs: int | None = -1
) -> None:
    """Write matrix.T @ values into out (d, m), for values (n, m)."""
    out[:] = 0.0
    pieces = stretches(matrix.shape[0], out.shape[1])
    if isinstance(matrix, SparseRows):
        for start, end in pieces:
            _add_transposed(matrix, start, for_kernels(values[start:end]), out, n_jobs)
        return
    threads = n_threads(n_jobs)
    for first in range(
        0, len(pieces), threads
    ):  # summed in a fixed order: equal to the bit on any number of threads
        for part in over_pieces(
            lambda start, end: matrix[start:end].T @ values[start:end],
            pieces[first : first + threads],
            n_jobs,
        ):
            out += part


def _add_transposed(
    matrix: SparseRows, start: int, values: np.ndarray, out: np.ndarray, n_jobs: int | None
) -> None:
    # Each thread owns a range of columns, so that sums do not depend on the number of threads.
    n_jobs, arguments = _worthwhile(n_jobs, matrix, values), (*values.shape, values, out)
    columns = matrix.column_offsets
    over_samples(sparse_transposed_product, columns, n_jobs, start, matrix.arrays, *arguments)


def _worthwhile(n_jobs: int | None, matrix: SparseRows, factor: np.ndarray) -> int | None:
    """Return ``n_jobs``, or 1 if the product takes less time than starting a thread."""
    # Below about 100,000 multiplications a thread costs more than it saves.
    return n_jobs if len(matrix.data) * factor.shape[1] > 100_000 else 1


def part_of(matrix: FeatureMatrix, first: int, last: int) -> FeatureMatrix:
    """Return views of rows first .. last-1."""
    return matrix.part(first, last) if isinstance(matrix, SparseRows) else matrix[first:last]


def label_sums(
    matrix: FeatureMatrix, labels: np.ndarray, weight: np.ndarray, out: np.ndarray
) -> None:
    """Write the weighted sum of the rows labelled y into column y of out (d, k)."""
    if isinstance(matrix, np.ndarray):
        indicators = np.zeros((len(labels), out.shape[1]))
        indicators[np.arange(len(labels)), labels] = weight
        np.dot(matrix.T, indicators, out=out)
        return
    out[:] = 0.0
    sparse_label_sums(matrix.arrays, labels, weight, out.shape[1], out)


def squares_of_entries(matrix: FeatureMatrix) -> tuple[np.ndarray, np.ndarray]:
    """(d,) sums of squares of the columns, and (d,) their numbers of nonzero entries."""
    if isinstance(matrix, np.ndarray):
        return np.einsum("ij,ij->j", matrix, matrix), np.count_nonzero(matrix, axis=0)
    d = matrix.shape[1]
    squares = np.bincount(matrix.indices, np.square(matrix.data), d)
    return squares, np.bincount(matrix.indices, minlength=d)


def take_rows(matrix: FeatureMatrix, rows: np.ndarray) -> FeatureMatrix:
    """Gather rows in the given order."""
    return matrix[rows] if isinstance(matrix, np.ndarray) else matrix.take(rows)


def distinct_rows(matrix: FeatureMatrix) -> tuple[FeatureMatrix, np.ndarray]:
    """Return the distinct rows, and (n,) the index of each row of ``matrix`` among them."""
    n = matrix.shape[0]
    if isinstance(matrix, np.ndarray):
        # Real-valued rows rarely repeat: look at the first thousand before sorting all.
        probe = matrix[:1000]
        if len(np.unique(probe, axis=0)) > 0.5 * len(probe):
            return matrix, np.arange(n)
        rows, row_of = np.unique(matrix, axis=0, return_inverse=True)
        return np.ascontiguousarray(rows), row_of.reshape(-1).astype(np.intp, copy=False)
    by_column = np.lexsort((matrix.indices, matrix._row_of))
    columns, data = matrix.indices[by_column], matrix.data[by_column]
    indptr = matrix.indptr.tolist()
    number_of: dict[bytes, int] = {}
    row_of = np.empty(n, np.intp)
    first: list[int] = []
    for i in range(n):
        span = slice(indptr[i], indptr[i + 1])
        key = columns[span].tobytes() + data[span].tobytes()
        row_of[i] = number_of.setdefault(key, len(number_of))
        if len(first) < len(number_of):
            first.append(i)
    distinct = SparseRows.assemble(
        matrix.indptr, columns, data, matrix.shape[1], np.array(first, np.intp), False
    )
    return distinct, row_of


def sparse_rows(matrix: FeatureMatrix) -> SparseRows:
    """Convert to CSR rows."""
    if isinstance(matrix, SparseRows):
        return matrix
    some = matrix != 0.0
    indptr = np.zeros(matrix.shape[0] + 1, np.intp)
    np.cumsum(np.count_nonzero(some, axis=1), out=indptr[1:])
    rows, columns = some.nonzero()
    shape = (matrix.shape[0], matrix.shape[1])
    return SparseRows(indptr, columns.astype(np.int32), matrix[rows, columns], shape)
