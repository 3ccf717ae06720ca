"""The command ``whimbrel``, as the package brings it: ``python -m whimbrel`` and the script of that name."""

from __future__ import annotations

import signal
import sys

from . import _whimbrel as native


def main() -> int:
    """
    Run the command with the arguments of this process.

    Returns
    -------
    int
        The exit code.
    """
    # The command listens for Ctrl-C itself; Python would raise KeyboardInterrupt after it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return native.command(["whimbrel", *sys.argv[1:]], sys.executable)


if __name__ == "__main__":
    sys.exit(main())
