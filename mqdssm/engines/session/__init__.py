"""Sessions between queue managers ([MS-MQQB] 3.1).

They are without sockets, clock or chance.
"""
