"""Simulate enterprises with faults: SEEDS, FIRST and VERBOSE as `make simulate` gives them."""

import argparse
import sys

from mqdssm.testing.simulation.command import main


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    given = _arguments()
    sys.exit(main(given.seeds, given.first, verbose=given.verbose))
