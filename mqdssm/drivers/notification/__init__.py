"""Change notification ([MS-MQCN]): sender, receiver, subscribers."""
