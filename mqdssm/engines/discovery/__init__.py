"""Discovery of directory servers ([MS-MQSD] 3): client and server without sockets, clock or randomness."""
