"""Code that tests share, by subject: ``from support.servers.proxy import Proxy``."""
