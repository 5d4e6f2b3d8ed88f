"""Training, prediction and evaluation over data in several places."""

from robustruct.formats.shards import ShardedData

__all__ = ["ShardedData"]
