"""What a fit needs beside an optimizer: checks of rows, early stopping, checkpoints, choices."""
