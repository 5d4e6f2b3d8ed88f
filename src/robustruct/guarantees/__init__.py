"""What held-out samples prove about the cost of decisions, with a stated confidence."""

from robustruct.guarantees.certificate import Certificate
from robustruct.guarantees.risk_control import Rule

__all__ = ["Certificate", "Rule"]
