"""Room for the thin drivers of the engines: sockets, threads, timers."""
