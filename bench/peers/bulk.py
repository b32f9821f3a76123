"""The rows of `--only bulk`: many writes of one connection at once, and values with line ends.

The client is Python: it makes its bytes before it looks at the clock, sends them whole and reads the reply, so it adds the same to
every server.
"""

import socket
import statistics
import time

import report
from peers import Floor, KallistoDev, KallistoDurable, Redis, Skipped

KEYS = 2_000
VALUE_BYTES = 128
# Times that one round asks; the first is not counted.
ASKS = 6
# Keys with a value like a PEM file: lines of 64 letters, 1.7 kB.
PEM_KEYS = 1_000
PEM_LINES = 26
REPLY_SECS_MAX = 30


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    """One connection that speaks RESP, with a token where one is needed."""

    def __init__(self, server, token=None):
        port = int(server.resp_address.rsplit(":", 1)[1])
        self.socket = socket.create_connection(("127.0.0.1", port), REPLY_SECS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if token:
            self.ask(command(b"AUTH", token.encode()), 1)

    def ask(self, sent, replies):
        """Sends, and returns the milliseconds until so many replies of `+OK` have come."""
        begin = time.monotonic()
        self.socket.sendall(sent)
        wanted, got = b"+OK\r\n" * replies, b""
        while len(got) < len(wanted):
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise Skipped("the connection was closed")
            got += piece
            if got[:1] == b"-":
                raise Skipped(f"refused: {got[:120]!r}")
        took = (time.monotonic() - begin) * 1e3
        if got != wanted:
            raise Skipped(f"an answer that is not OK: {got[:120]!r}")
        return took


def pem(key):
    lines = [b"-----BEGIN PRIVATE KEY-----"]
    lines += [(b"%04d" % key) + b"v" * 60 for _ in range(PEM_LINES)]
    return b"\n".join([*lines, b"-----END PRIVATE KEY-----", b""])


def measure(run, prepare):
    for mode, fsync in (("strict", "always"), ("batch", "everysec")):
        with run.servers(lambda: KallistoDurable(run.bench, mode), lambda: Redis(run.bench, fsync),
                         lambda: Floor(run.bench, fsync),
                         lambda: Floor(run.bench, fsync, versions=True)) as found:
            found["Kallisto"].mount_kv()
            tokens = {"Kallisto": prepare(run, found["Kallisto"])}
            value = b"v" * VALUE_BYTES
            names = [b"bench/m%d" % key for key in range(KEYS)]
            one = command(b"MSET", *[word for name in names for word in (name, value)])
            many = b"".join(command(b"SET", name, value) for name in names)
            for what, sent, replies in (("one MSET", one, 1), ("SETs in one piece", many, KEYS)):
                def median(who, sent=sent, replies=replies):
                    client = Client(found[who], tokens.get(who))
                    return statistics.median([client.ask(sent, replies) for _ in range(ASKS)][1:])
                run.compare(f"{KEYS:,} keys by {what}, {mode} (Redis: appendfsync {fsync})", "ms", "less",
                            {who: lambda who=who, median=median: median(who) for who in found})
    with run.servers(lambda: KallistoDev(run.bench), lambda: Redis(run.bench), lambda: Floor(run.bench)) as found:
        tokens = {"Kallisto": prepare(run, found["Kallisto"])}
        for who, server in found.items():
            client = Client(server, tokens.get(who))
            client.ask(b"".join(command(b"SET", b"bench/k%d" % key, pem(key)) for key in range(PEM_KEYS)),
                       PEM_KEYS)
        run.compare(f"A value of 1.7 kB with line ends, RESP, {report.in_flight(16)}", "reads/s", "more", {
            who: lambda who=who, server=server: run.rate(
                server, "resp", "-connections=50", "-pipeline=16", address=server.resp_address,
                token=tokens.get(who))
            for who, server in found.items()})
