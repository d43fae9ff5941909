"""Export: objects of a directory as files and a manifest."""
