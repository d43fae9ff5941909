"""Changes of a directory as numbered rows, kept in a folder until their consumer has them.

change_rows  columns and rows of changes
change_log   folder of rows: append, read between two numbers, release
recorder     thread that watches the directory and appends the changes
"""
