"""Change notification: the sender and the receiver of [MS-MQCN].

They are without sockets, clock or directory.
"""
