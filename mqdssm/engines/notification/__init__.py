"""Change notification: the sender and the receiver of [MS-MQCN], without sockets, clock or directory."""
