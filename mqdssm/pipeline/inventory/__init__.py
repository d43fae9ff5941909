"""Inventory of MSMQ in an enterprise, before MSMQ is left or moved.

An inventory is read-only.
This process reads files, a batch at a time; the engine reads directories and MQIS tables.
"""

from mqdssm.pipeline.inventory.collect import Inventory, open_source
from mqdssm.pipeline.inventory.page import write_inventory_page
from mqdssm.pipeline.inventory.writers import TABLES, format_json_lines, write_csv

__all__ = ["TABLES", "Inventory", "format_json_lines", "open_source", "write_csv", "write_inventory_page"]
