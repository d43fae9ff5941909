"""A simulated LDAP directory in memory (decision R146).

Requests and answers are octets.
"""
