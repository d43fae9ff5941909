"""Reports for people: one HTML file each, which needs nothing but a browser, no network, and prints well."""

from mqdssm.spark.report.page import check_page
from mqdssm.spark.report.validation import write_report

__all__ = ["check_page", "write_report"]
