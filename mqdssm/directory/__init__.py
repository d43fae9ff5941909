"""LDAP sessions: the only importer of ldap3. Connections, requests, paging, profiles of servers."""
