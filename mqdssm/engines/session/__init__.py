"""Sessions between queue managers without sockets, clock or chance ([MS-MQQB] 3.1)."""
