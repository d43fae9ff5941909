"""Changes of a directory as numbered rows, kept until they are consumed.

The rows are kept in a folder.

change_rows  columns and rows of changes
change_log   folder of rows: append, read between two numbers, release
recorder     thread that watches the directory and appends the changes
"""
