"""Programs of the previous and of the next minor version."""
