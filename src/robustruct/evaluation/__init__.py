"""Prediction and evaluation of models on files and shards."""

from robustruct.evaluation.shards import evaluate_shards, predict_shards

__all__ = ["evaluate_shards", "predict_shards"]
