"""The project's own files: sources, wheels, examples of the documentation."""
