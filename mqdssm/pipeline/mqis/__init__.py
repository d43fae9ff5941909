"""Sources of the tables of MQIS: a folder of files, or a database over JDBC.

Both are read into cells as text (`mqdssm.tables.mqis`), so that later steps know only that form.
"""
