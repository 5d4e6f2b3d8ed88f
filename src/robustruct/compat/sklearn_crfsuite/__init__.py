"""What sklearn-crfsuite offers, by this library: one import changes, the program stays.

from robustruct.compat import sklearn_crfsuite           # was: import sklearn_crfsuite
from robustruct.compat.sklearn_crfsuite import CRF       # was: from sklearn_crfsuite import CRF
"""

from robustruct.compat.sklearn_crfsuite import metrics, scorers
from robustruct.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF", "metrics", "scorers"]
