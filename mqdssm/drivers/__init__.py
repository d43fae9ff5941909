"""The thin drivers of the engines: threads, timers, queue managers, keys."""
