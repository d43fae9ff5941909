"""Inventory of MSMQ in an enterprise, before MSMQ is left or moved.

An inventory is read-only.
This process reads files, a batch at a time; the engine reads directories and MQIS tables.
"""

from mqdssm.pipeline.inventory.collect import Inventory, opened
from mqdssm.pipeline.inventory.page import write_inventory_page
from mqdssm.pipeline.inventory.writers import TABLES, json_lines, write_csv

__all__ = ["TABLES", "Inventory", "json_lines", "opened", "write_csv", "write_inventory_page"]
