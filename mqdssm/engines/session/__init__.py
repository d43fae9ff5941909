"""Sessions between queue managers ([MS-MQQB] 3.1).

The engine uses no sockets, clock or chance.
"""
