"""Directory server ([MC-MQDSRP]): the driver of its engine and all its parts."""
