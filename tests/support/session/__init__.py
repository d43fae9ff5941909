"""Sessions between queue managers: one session on a clock of its own, and simulated machines."""
