"""A simulated LDAP directory: requests and answers as octets, in memory (decision R146)."""
