"""Simulate enterprises with faults: SEEDS, FIRST, VERBOSE and SESSIONS as `make simulate` gives them."""

import argparse
import sys

from mqdssm.testing.simulation.command import main


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--sessions", action="store_true", help="sessions of queue managers alone")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    sys.exit(main(given.seeds, given.first, verbose=given.verbose, is_of_sessions=given.sessions))
