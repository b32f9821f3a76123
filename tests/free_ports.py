"""Ports of 127.0.0.1 that nobody has. Asked for by the walks of `tests/` and `bench/`; on its own it prints one.

A port that the system chooses (bind to 0) is of the range from which it also takes the ports of clients, so between the look and the
use of it any connection of another walk may have it. These are below that range (Linux begins at 32768), and the next higher one is
free too: a server without `cluster_addr` takes it for its cluster.
"""

import random
import socket

FIRST, LAST, TRIES_MAX = 12_000, 31_000, 1_000
_random = random.SystemRandom()
_given = set()


def _is_free(port):
    with socket.socket() as one:
        # As servers listen: what an ended connection leaves for a minute is in nobody's way.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    """One port; no two calls of one process give the same, or its neighbour."""
    for _ in range(TRIES_MAX):
        port = _random.randrange(FIRST, LAST, 2)
        if port not in _given and _is_free(port) and _is_free(port + 1):
            _given.add(port)
            return port
    raise SystemExit(f"no free port of 127.0.0.1 from {FIRST} to {LAST} in {TRIES_MAX} tries")


def free_ports(count):
    """As many, all different."""
    return [free_port() for _ in range(count)]


if __name__ == "__main__":
    print(free_port())
