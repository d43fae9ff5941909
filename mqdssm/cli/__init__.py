"""The command line ``mqdssm``: one module a command, one way to print (`output`), one way to exit (`exits`).

Nothing here is needed by the library. Every module is cheap to import; what a command needs, it imports
when it runs, so that ``mqdssm --help`` answers at once.
"""
