"""Reports for people: one HTML file each, which needs nothing but a browser, no network, and prints well."""

from mqdssm.pipeline.report.page import check_page
from mqdssm.pipeline.report.validation import write_report

__all__ = ["check_page", "write_report"]
