"""The rows of `--only connections`: the same loads with few and many connections, and at every depth.

A bench with 50 connections alone cannot see what begins at 64.
"""

import report
from peers import KallistoDev, KallistoDurable, Nginx, Redis

CONNECTIONS = (1, 8, 50, 64, 200, 1_000)
DEPTHS = (1, 4, 16, 64)
# Depths that every number of connections is measured with; the others with `USUAL` connections only.
DEPTHS_OF_ALL = (1, 16)
USUAL = 50
# Shorter than those of the main table: there are several times as many.
SECONDS_MAX = 1
TABLE = "connections"


def pairs(options):
    """Connections and depths; a quick run has one depth for each number of connections."""
    for connections in CONNECTIONS:
        for depth in DEPTHS:
            wide = (1,) if options.quick else DEPTHS_OF_ALL
            if depth in wide or connections == USUAL:
                yield connections, depth


def measure(run, keys, prepare, answer_bytes):
    usual = run.options.seconds
    run.options.seconds = min(usual, SECONDS_MAX)
    try:
        reads(run, keys, prepare, answer_bytes)
        for mode, fsync in (("strict", "always"), ("batch", "everysec")):
            writes(run, mode, fsync, prepare)
    finally:
        run.options.seconds = usual


def reads(run, keys, prepare, answer_bytes):
    bench = run.bench
    with run.servers(lambda: KallistoDev(bench), lambda: Redis(bench)) as found:
        kallisto = found["Kallisto"]
        token = prepare(run, kallisto)
        with run.servers(lambda: Nginx(bench, keys, answer_bytes(kallisto, token))) as more:
            for connections, depth in pairs(run.options):
                shape = (f"-connections={connections}", f"-pipeline={depth}")
                contenders = {"Kallisto": lambda: run.rate(kallisto, "http", *shape, token=token)}
                if "nginx" in more:
                    contenders["nginx"] = lambda: run.rate(more["nginx"], "http", *shape, token="none")
                run.compare(named("HTTP GET", connections, depth), "reads/s", "more", contenders,
                            table=TABLE)
        if "Redis" in found:
            run.load(found["Redis"], "resp", "-prepare", "-duration=1", "-warm-up=0")
        beside_redis(run, found, token, "RESP GET", "reads/s")


def writes(run, mode, fsync, prepare):
    bench = run.bench
    with run.servers(lambda: KallistoDurable(bench, mode), lambda: Redis(bench, fsync)) as found:
        kallisto = found["Kallisto"]
        kallisto.mount_kv()
        token = prepare(run, kallisto)
        name = f"SET, {mode} (Redis: appendfsync {fsync})"
        beside_redis(run, found, token, name, "writes/s", "-writes=100")
        for connections in CONNECTIONS:
            shape = ("-writes=100", f"-connections={connections}")
            run.compare(named(f"HTTP PUT, {mode}", connections, 1), "writes/s", "more",
                        {"Kallisto": lambda: run.rate(kallisto, "http", *shape, token=token)}, table=TABLE)


def beside_redis(run, found, token, name, unit, *arguments):
    kallisto = found["Kallisto"]
    for connections, depth in pairs(run.options):
        shape = (f"-connections={connections}", f"-pipeline={depth}", *arguments)
        contenders = {"Kallisto": lambda: run.rate(kallisto, "resp", *shape, address=kallisto.resp_address,
                                                   token=token)}
        if "Redis" in found:
            contenders["Redis"] = lambda: run.rate(found["Redis"], "resp", *shape)
        run.compare(named(name, connections, depth), unit, "more", contenders, table=TABLE)


def named(name, connections, depth):
    return f"{name}, {connections:,} connection{'s' if connections > 1 else ''}, {report.in_flight(depth)}"
