"""What is minimised: the cost, who the predictor is, and the bounds that certify it."""
