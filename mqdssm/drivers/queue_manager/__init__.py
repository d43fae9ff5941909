"""Queue manager ([MS-MQQB]): inboxes, outgoing queues, acknowledgements."""
