"""A comparison as one HTML file that needs nothing else: no network, no fonts, no libraries."""

from robustruct.report.page import render, write

__all__ = ["render", "write"]
