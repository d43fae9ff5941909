"""Enterprises with orphans."""
