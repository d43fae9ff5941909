"""Finding directory servers, and being found ([MS-MQSD] 3): both sides without sockets, clock or chance."""
