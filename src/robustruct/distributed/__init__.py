"""Training, prediction and evaluation over data in several places."""

from typing import Any

from robustruct.distributed.scoring import evaluate_shards, predict_shards
from robustruct.errors import MissingExtraError
from robustruct.formats.shards import ShardedData

__all__ = ["DaskEngine", "ShardedData", "evaluate_shards", "predict_shards"]


def __getattr__(name: str) -> Any:
    """`DaskEngine`, which needs Dask, when it is asked for."""
    if name != "DaskEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from robustruct.distributed.engine import DaskEngine
    except ImportError as error:
        raise MissingExtraError(
            "DaskEngine needs Dask: pip install 'robustruct[distributed]'"
        ) from error
    return DaskEngine
