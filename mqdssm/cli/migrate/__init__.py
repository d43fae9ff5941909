"""Commands that move objects into a directory: plan, apply and migrate."""
