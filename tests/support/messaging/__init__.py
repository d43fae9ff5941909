"""Queue managers of programs."""
