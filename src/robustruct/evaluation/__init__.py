"""Files and shards answered by a model, and answers compared with the truth."""

from robustruct.evaluation.evaluate import Evaluation
from robustruct.evaluation.shards import evaluate_shards, predict_shards

__all__ = ["Evaluation", "evaluate_shards", "predict_shards"]
