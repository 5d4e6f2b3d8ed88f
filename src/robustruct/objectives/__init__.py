"""The objectives: cost, predictor, and the bounds that certify their minimum."""
