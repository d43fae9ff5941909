"""Room for the store that performs the engines' directory actions."""
