"""MQIS databases of MSMQ 1.0, and migrations from them."""
