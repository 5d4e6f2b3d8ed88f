"""AGM, CRF and SSVM: validate, assemble, delegate, store."""

from robustruct.models.agm import AGM
from robustruct.models.crf import CRF
from robustruct.models.ssvm import SSVM

__all__ = ["AGM", "CRF", "SSVM"]
