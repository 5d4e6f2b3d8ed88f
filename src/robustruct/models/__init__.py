"""AGM, CRF, SSVM and the choice between them: validate, assemble, delegate, store."""

from robustruct.models.agm import AGM
from robustruct.models.auto import AutoModel
from robustruct.models.crf import CRF
from robustruct.models.ssvm import SSVM

__all__ = ["AGM", "CRF", "SSVM", "AutoModel"]
