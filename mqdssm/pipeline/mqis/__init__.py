"""Sources of the tables of MQIS: a folder of files, or a database over JDBC.

Cells are read as text (`mqdssm.tables.mqis`) from both, so that later steps know only that form.
"""
