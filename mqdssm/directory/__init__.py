"""LDAP sessions: connections, requests, paging, profiles of servers.

This is the only package that imports ldap3.
"""
