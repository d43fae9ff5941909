"""Signatures of messages, keys that may sign, detection of replays."""
