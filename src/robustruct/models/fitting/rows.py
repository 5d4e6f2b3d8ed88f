"""Samples of one node each, given as the rows of a 2-D array: scikit-learn's checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from robustruct.arrays import as_array, as_csr, is_sparse, refuse_masked
from robustruct.errors import InvalidInputError, InvalidTypeError
from robustruct.labels import as_labels
from robustruct.models.estimator import Estimator
from robustruct.validation import refuse_missing


def checked_rows(model: Estimator, X: Any, y: Any = None, *, fitting: bool = False) -> Any:
    """A plain 2-D X (and y, when fitting) after scikit-learn's checks, with errors of our type."""
    from sklearn.exceptions import NotFittedError  # takes long to load
    from sklearn.utils.validation import validate_data

    if is_sparse(X):
        X = as_csr(X, "X")
    else:
        refuse_masked(X, "X")
        X = np.asarray(X) if isinstance(X, np.matrix) else X
    if fitting and isinstance(y, list | tuple):
        y = as_labels(y)  # numpy would turn labels of several types into strings
    if isinstance(y, np.ndarray):
        y = as_array(y, "y")
        refuse_missing(y, "y: ")
        y = as_labels(y) if y.dtype.kind == "O" and y.ndim == 1 else y
    target = {"y": y} if fitting else {"reset": False}
    options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": False}
    try:
        checked = validate_data(model, X, **target, **options)
    except NotFittedError:
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(str(error)) from error
    except TypeError as error:
        raise InvalidTypeError(str(error)) from error
    _check_finite(checked[0] if fitting else checked)
    return checked


def _check_finite(rows: Any) -> None:
    sparse = is_sparse(rows)
    values = rows.data if sparse else rows
    if np.isfinite(values).all():
        return
    first = np.argwhere(~np.isfinite(values))[0]
    if sparse:
        row, column = (
            np.searchsorted(rows.indptr, first[0], side="right") - 1,
            rows.indices[first[0]],
        )
    else:
        row, column = first
    what = "NaN" if np.isnan(values[tuple(first)]) else "infinite (inf)"
    raise InvalidInputError(
        f"X: sample {row}, feature {column} is {what}; features must be finite. Replace missing "
        "values, for example by 0 and a feature that says 'missing'.",
        sample=row,
        field="X",
    )
