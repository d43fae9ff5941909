"""Directory servers ([MS-MQDSRP] roles) in one process, with and without a real directory below them."""
