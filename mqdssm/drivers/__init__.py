"""Drivers that run the engines: threads, timers, queue managers, keys.

Programs that replicate begin with `mqdssm.drivers.replication.directory_server.start_directory_server`.
Messages travel to other machines by `mqdssm.drivers.tcp.network.TcpNetwork`.
"""
