"""Prediction and evaluation of models on files and shards."""

from robustruct.evaluation.evaluate import Evaluation
from robustruct.evaluation.shards import evaluate_shards, predict_shards

__all__ = ["Evaluation", "evaluate_shards", "predict_shards"]
