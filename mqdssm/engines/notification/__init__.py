"""Change notification: the sender and the receiver of [MS-MQCN].

Neither uses sockets, clock or directory.
"""
