"""Discovery of directory servers ([MS-MQSD] 3).

Client and server are without sockets, clock or randomness.
"""
