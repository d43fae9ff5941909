"""States of machines: files of machines beside the directory.

The files come from others: they are bounded, and a broken file is reported with the place of its defect.
"""
