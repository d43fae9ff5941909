"""Changes of a directory as numbered rows, kept in a folder until their consumer has them.

change_rows  columns of a change, and the rows of some changes
change_log   the folder: rows are appended, read again between two numbers, and released
recorder     the thread that watches and appends
"""
