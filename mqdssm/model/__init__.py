"""Values of the abstract data model: no I/O, no clock, no import of a higher package ([MS-MQDMPR] 3.1.1)."""
