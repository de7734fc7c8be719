"""`levrier` and `python -m levrier.cluster`."""

import sys

if not __debug__:
    sys.stderr.write("levrier: runs without its assertions are refused: start Python without -O\n")
    raise SystemExit(2)

from levrier.cluster.cli.app import run


def main() -> None:
    """Run the command line and exit with its status."""
    raise SystemExit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
