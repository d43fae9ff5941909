"""What is known about attributes, written once as rows ([MS-MQDSSM] 2.2.1-2.2.2, 2.4, 3.1.6.20)."""
