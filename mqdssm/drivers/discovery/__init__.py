"""Discovery over UDP ([MS-MQSD]): client, server, data from the directory."""
