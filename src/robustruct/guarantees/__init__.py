"""What held-out samples prove about the cost of decisions, with a stated confidence."""

from robustruct.guarantees.certificate import Certificate

__all__ = ["Certificate"]
