"""Values of the abstract data model ([MS-MQDMPR] 3.1.1).

The package has no I/O, no clock and no import of a higher package.
"""
