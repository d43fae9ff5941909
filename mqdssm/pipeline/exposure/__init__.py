"""Exposure of machines with MSMQ, with a score by stated rules.

Read-only. The sources are those of an inventory; a directory is asked for attributes of computers, too.
"""

from mqdssm.pipeline.exposure.assessment import Exposure
from mqdssm.pipeline.exposure.page import write_exposure_page
from mqdssm.pipeline.exposure.writers import format_json_lines, write_csv

__all__ = ["Exposure", "format_json_lines", "write_csv", "write_exposure_page"]
