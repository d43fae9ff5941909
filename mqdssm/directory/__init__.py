"""LDAP sessions: connections, requests, paging, profiles of servers.

Only this package imports ldap3.
"""
