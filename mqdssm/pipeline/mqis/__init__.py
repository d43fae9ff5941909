"""Where the tables of MQIS come from: a folder of files, or a database over JDBC.

Both are read into cells as text (`mqdssm.tables.mqis`), the one form that whatever follows knows.
"""
