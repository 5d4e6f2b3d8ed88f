"""Layers and losses for PyTorch: neural taggers trained for the cost that matters.

Needs the extra ``torch``: ``pip install 'robustruct[torch]'``.
"""

from robustruct.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "robustruct.torch needs PyTorch: pip install 'robustruct[torch]'"
    ) from error

from robustruct.torch.functional import adversarial_loss, crf_loss, ssvm_loss
from robustruct.torch.layers import ChainAGM, ChainCRF

__all__ = ["ChainAGM", "ChainCRF", "adversarial_loss", "crf_loss", "ssvm_loss"]
