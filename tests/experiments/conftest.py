"""The experiments are scripts, not a package: their folder goes on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
