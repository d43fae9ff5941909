"""Directory server as a process: `mqdssm.server.process`.

`mqdssm.server.snapshot_reader` reads its state, for people and metrics. `mqdssm.server.http_server` serves
the pages of `mqdssm.server.local_pages` on a local port.
"""
