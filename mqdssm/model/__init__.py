"""Values of the abstract data model: no I/O, no clock, nothing of ours above ([MS-MQDMPR] 3.1.1)."""
