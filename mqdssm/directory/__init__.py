"""LDAP sessions: connections, requests, paging, profiles of servers; the only package that imports ldap3."""
