"""Carrier of messages over TCP: sessions, connections, addresses of neighbours."""
