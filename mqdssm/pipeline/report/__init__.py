"""Reports for people: one HTML file each.

A report is for a browser without a network, and for printing.
"""

from mqdssm.pipeline.report.page import check_page
from mqdssm.pipeline.report.validation import write_report

__all__ = ["check_page", "write_report"]
