"""MSMQ enterprises, small and large, sound and defective."""
