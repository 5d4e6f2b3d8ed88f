"""Where samples are and work on them is done: in this process, or on a Dask cluster."""

from typing import Any

from robustruct.errors import MissingExtraError
from robustruct.formats.shards import ShardedData

__all__ = ["DaskEngine", "ShardedData"]


def __getattr__(name: str) -> Any:
    """`DaskEngine`, which needs Dask, when it is asked for."""
    if name != "DaskEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from robustruct.engines.dask.engine import DaskEngine
    except ImportError as error:
        raise MissingExtraError("DaskEngine needs Dask: pip install 'robustruct[dask]'") from error
    return DaskEngine
