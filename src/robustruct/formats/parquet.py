"""Parquet files: one row per sample, whose columns are the fields of JSON lines.

`Lines` converts each row to a line of JSON, so the rules of JSON lines hold. Null fields are left
out, also inside the features of a node; other columns are not read. pyarrow is imported when the
first Parquet file is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from robustruct.errors import FileFormatError, InvalidInputError, MissingExtraError

MARK = b"PAR1"
"""First bytes of every Parquet file."""
FIELDS = ("nodes", "edges", "edge_features", "labels", "weights", "weight")
PREDICTED = "predicted"
ROWS = 2000  # in memory at once; more would take memory, fewer the overhead of a batch each


def rows_as_json(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the rows of an open file as lines of JSON."""
    parquet = _opened(file, name)
    names = _column_names(parquet, name)
    present = [field for field in FIELDS if field in names]
    if "nodes" not in present:
        others = ", ".join(map(repr, names[:20]))
        raise FileFormatError(
            name,
            None,
            f'it has no column "nodes" with the features of each node, only {others}; rename the '
            f"columns ({', '.join(FIELDS)}), or, if its rows are nodes, name the column that tells "
            "samples apart (--by COLUMN).",
        )
    for batch in _batches(parquet, name, present):
        for row in _objects(batch, name):
            try:
                yield json.dumps(_without_nulls(row))
            except (TypeError, RecursionError) as error:
                raise FileFormatError(
                    name, None, f"its columns hold other values than text and numbers ({error})."
                ) from None


def column_names(file: BinaryIO, name: str) -> list[str]:
    """Return the names of the columns of an open file."""
    return _column_names(_opened(file, name), name)


def table_columns(file: BinaryIO, name: str) -> dict[str, np.ndarray]:
    """Return the columns of an open file, which has a row for each node."""
    import pyarrow as pa

    parquet = _opened(file, name)
    names = _column_names(parquet, name)
    twice = [one for one in names if names.count(one) > 1]
    if twice:
        raise FileFormatError(name, None, f"it names two columns {twice[0]!r}.")
    try:
        table = parquet.read()
        return {
            column: values.to_numpy()
            for column, values in zip(table.column_names, table.columns, strict=True)
        }
    except UnicodeDecodeError:
        raise FileFormatError(name, None, "a text in it is not UTF-8.") from None
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError) as error:
        raise FileFormatError(name, None, f"its columns cannot be read ({error}).") from None


def write_predicted(
    source: BinaryIO, name: str, target: BinaryIO, labels: Iterable[list[Any]], classes: np.ndarray
) -> None:
    """Copy a file and append a column with the predicted labels of each row.

    Parameters
    ----------
    source, target : binary file
    name : str
        What errors call the source.
    labels : iterable of list
        Labels of the nodes of each row, in order; consumed as rows are copied.
    classes : ndarray
        All labels that may occur.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    try:
        kind = pa.list_(pa.array(classes.tolist()).type)
    except pa.ArrowException:
        raise InvalidInputError(
            "labels of several types do not fit into one column; use JSON lines instead of Parquet."
        ) from None
    parquet = _opened(source, name)
    # A file that was labelled before gets its column replaced.
    fields = [field for field in parquet.schema_arrow if field.name != PREDICTED]
    schema = pa.schema([*fields, pa.field(PREDICTED, kind)])
    rest = iter(labels)
    with ParquetWriter(target, schema) as writer:
        for batch in _batches(parquet, name, [field.name for field in fields]):
            predicted = pa.array(list(islice(rest, batch.num_rows)), kind)
            columns = [*(batch.column(field.name) for field in fields), predicted]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _opened(file: BinaryIO, name: str) -> Any:
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtraError(
            f"{name} is a Parquet file; install robustruct[tables], which brings pyarrow."
        ) from None
    try:
        return ParquetFile(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(name, None, f"the Parquet file is damaged ({error}).") from None


def _batches(parquet: Any, name: str, columns: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    batches = parquet.iter_batches(ROWS, columns=columns)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FileFormatError(name, None, f"the Parquet file is damaged ({error}).") from None
        if batch is None:
            return
        yield batch


def _column_names(parquet: Any, name: str) -> list[str]:
    try:
        names = parquet.schema_arrow.names
    except UnicodeDecodeError:
        raise FileFormatError(name, None, "the name of a column is not UTF-8.") from None
    for field in FIELDS:
        if names.count(field) > 1:
            raise FileFormatError(name, None, f'it has several columns "{field}"; keep one.')
    return names


def _objects(batch: Any, name: str) -> list[dict[str, Any]]:
    """Convert the rows of a batch to dicts."""
    import pyarrow as pa

    try:
        return batch.to_pylist(maps_as_pydicts="strict")
    except UnicodeDecodeError:
        raise FileFormatError(name, None, "a text in it is not UTF-8.") from None
    except KeyError as error:
        raise FileFormatError(name, None, f"a map has a key twice ({error}).") from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise FileFormatError(
            name, None, f"its columns hold values that cannot be read ({error})."
        ) from None


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Drop null fields, also those of nodes and edges."""
    fields = {field: value for field, value in row.items() if value is not None}
    for field in {"nodes", "edge_features"} & set(fields):
        fields[field] = [
            {key: value for key, value in item.items() if value is not None}
            if isinstance(item, dict)
            else item
            for item in fields[field]
        ]
    return fields
