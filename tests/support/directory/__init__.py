"""Requests, filters and entries for the tests of the LDAP client."""
