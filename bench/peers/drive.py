"""The rows: what is measured at whom, in rounds, and the median of each.

Groups of rows (`--only`): reads, tls, audit, writes, bulk, mixed, herd, memory, start, connections. A row is a name and, for each server,
a number; what could not be had is a reason instead. Numbers are requests a second, milliseconds, bytes.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import bulk
import connections
import driving
import report
from peers import (FLOOR, FLOOR_COMPACT, FLOOR_VERSIONS, BaoDev, BaoDurable, Bench, Etcd, Floor, KallistoDev, KallistoDurable, Nginx, Redis,
                   Skipped, until)

KEYS = 1_000
VALUE_BYTES = 128
GROUPS = ["reads", "tls", "audit", "writes", "bulk", "mixed", "herd", "memory", "start", "connections"]


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


class Run:
    def __init__(self, bench, options):
        self.bench, self.options = bench, options
        self.rows, self.skipped, self.samples = [], {}, []

    # --- loads -------------------------------------------------------------------------------------

    def load(self, server, kind, *arguments, address=None, token=None, pid=True, keys=KEYS):
        """Runs `kallisto bench KIND` on the load core; its JSON."""
        command = ["taskset", "-c", str(self.bench.load_core), self.bench.kallisto, "bench", kind,
                   f"-address={address or server.address}", f"-keys={keys}",
                   f"-value-bytes={VALUE_BYTES}", f"-ca-cert={server.bench.ca}", "-json"]
        if pid:
            command.append(f"-pid={server.pid}")
        command += arguments
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("VAULT_", "KALLISTO_", "BAO_"))}
        if token or server.token:
            environment["KALLISTO_TOKEN"] = token or server.token
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=1_200)
        if not done.stdout:
            raise Skipped(f"bench {kind}: {done.stderr.decode().strip()[:200]}")
        figures = json.loads(done.stdout)
        figures["who"], figures["arguments"] = server.name, " ".join(arguments)
        self.samples.append(figures)
        return figures

    def timed(self, *arguments):
        return [f"-duration={self.options.seconds}", f"-warm-up={self.options.warm_up}", *arguments]

    def rate(self, server, kind, *arguments, **more):
        figures = self.load(server, kind, *self.timed(*arguments), **more)
        if figures["errors_total"]:
            raise Skipped(f"{figures['errors_total']} errors: {figures['errors']}")
        return figures["per_second"]

    # --- rows --------------------------------------------------------------------------------------

    def compare(self, name, unit, better, contenders, rounds=None, once=(), table="main"):
        """Lets each contender's function measure in turns, those in `once` in the first round only; the
        median counts."""
        taken = {who: [] for who in contenders}
        reasons = {}
        for number in range(rounds or self.options.rounds):
            for who, measure in contenders.items():
                if who in reasons or (number > 0 and who in once):
                    continue
                try:
                    taken[who].append(measure())
                except (Skipped, OSError, subprocess.SubprocessError) as why:
                    reasons[who] = str(why) or type(why).__name__
                    say(f"SKIPPED {name}, {who}: {reasons[who]}")
        values = {who: statistics.median(found) for who, found in taken.items() if found}
        spread = {who: [min(found), max(found)] for who, found in taken.items() if found}
        row = {"name": name, "unit": unit, "better": better, "values": values, "spread": spread,
               "reasons": reasons, "table": table}
        self.rows.append(row)
        say(f"{name}: " + ", ".join(f"{who} {value:,.0f}" for who, value in values.items()) + f" {unit}")

    def servers(self, *made):
        """Starts the servers that can be had; a context of those, by name."""
        return Together(self, made)


class Together:
    def __init__(self, run, made):
        self.run, self.made, self.running = run, made, {}

    def __enter__(self):
        for make in self.made:
            server = make()
            try:
                server.__enter__()
                self.running[server.name] = server
            except (Skipped, OSError) as why:
                say(f"SKIPPED {server.name}: {why}; see {server.directory}/log")
                self.run.skipped[server.name] = str(why)
        return self.running

    def __exit__(self, *_):
        for server in self.running.values():
            server.__exit__()


def prepare(run, server):
    """Writes the keys, and makes the token that is measured: not root's, so that the decision counts."""
    run.load(server, "http", "-prepare", "-duration=1", "-warm-up=0", pid=False)
    policy = 'path "secret/data/bench/*" { capabilities = ["create","read","update"] }'
    server.ask("PUT", "/v1/sys/policies/acl/peers", {"policy": policy})
    made = server.ask("POST", "/v1/auth/token/create",
                      {"policies": ["peers"], "no_default_policy": True, "ttl": "4h"})
    return made["auth"]["client_token"]


def answer_bytes(server, token):
    """How long the body of a read is: the size of nginx's files."""
    import ssl
    import urllib.request
    context = ssl.create_default_context(cafile=server.bench.ca) if server.scheme == "https" else None
    request = urllib.request.Request(f"{server.address}/v1/secret/data/bench/k1")
    request.add_header("X-Vault-Token", token)
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return len(answer.read())


def reads(run, tls=False):
    bench, scheme = run.bench, "HTTPS" if tls else "HTTP"
    connections = "-connections=50"
    made = [lambda: KallistoDev(bench, tls), lambda: BaoDev(bench, tls), lambda: Redis(bench, tls=tls)]
    if not tls:
        made.append(lambda: Floor(bench))
    with run.servers(*made) as found:
        kallisto = found["Kallisto"]
        tokens = {name: prepare(run, found[name]) for name in ("Kallisto", "OpenBao") if name in found}
        size = answer_bytes(kallisto, tokens["Kallisto"])
        with run.servers(lambda: Nginx(bench, KEYS, size, tls)) as more:
            found.update(more)
            for depth in (1, 16):
                contenders = {}
                for name in ("Kallisto", "nginx", "OpenBao"):
                    if name in found:
                        server, token = found[name], tokens.get(name, "none")
                        contenders[name] = lambda server=server, token=token: run.rate(
                            server, "http", connections, f"-pipeline={depth}", token=token)
                run.compare(f"KV read, {scheme}, {report.in_flight(depth)}", "reads/s", "more", contenders)
            found.pop("nginx", None) and more.pop("nginx").__exit__()
        others = [found[name] for name in ("Redis", FLOOR) if name in found]
        for server in others:
            run.load(server, "resp", "-prepare", "-duration=1", "-warm-up=0")
        for depth in (1, 16):
            contenders = {"Kallisto": lambda: run.rate(
                kallisto, "resp", connections, f"-pipeline={depth}", address=kallisto.resp_address,
                token=tokens["Kallisto"])}
            for server in others:
                contenders[server.name] = lambda server=server: run.rate(
                    server, "resp", connections, f"-pipeline={depth}")
            run.compare(f"KV read, RESP{' over TLS' if tls else ''}, {report.in_flight(depth)}",
                        "reads/s", "more", contenders)


def audit(run):
    """Reads with every request and answer written to a file, beside the same without: a table of its own."""
    bench, off = run.bench, report.AUDIT_OFF
    unaudited = type("Unaudited", (KallistoDev,), {"name": off})
    compact = type("Compact", (KallistoDev,), {"name": report.AUDIT_COMPACT})
    with run.servers(lambda: KallistoDev(bench), lambda: compact(bench), lambda: unaudited(bench),
                     lambda: BaoDev(bench), lambda: Floor(bench, audit="full"),
                     lambda: Floor(bench, audit="compact")) as found:
        floors = [name for name in (FLOOR, FLOOR_COMPACT) if name in found]
        for name in floors:
            run.load(found[name], "resp", "-prepare", "-duration=1", "-warm-up=0")
        tokens = {name: prepare(run, server) for name, server in found.items() if name not in floors}
        logs = {name: found[name].log for name in floors}
        for name, server in list(found.items()):
            if name == off or name in floors:
                continue
            try:
                form = {"format": "compact"} if name == report.AUDIT_COMPACT else {}
                logs[name] = server.audit(**form)
            except OSError as why:
                say(f"SKIPPED {name} with audit: {why}")
                found.pop(name).__exit__()

        def measured(name, kind, *arguments, address=None):
            try:
                return run.rate(found[name], kind, "-connections=50", *arguments, address=address,
                                token=tokens.get(name))
            finally:
                # Gigabytes in a minute, which nobody reads.
                if name in logs:
                    os.truncate(logs[name], 0)

        run.compare(f"KV read, HTTP, {report.in_flight(1)}", "reads/s", "more", {
            name: lambda name=name: measured(name, "http") for name in found if name not in floors},
            table="audit")
        for depth in (1, 16):
            run.compare(f"KV read, RESP, {report.in_flight(depth)}", "reads/s", "more", {
                name: lambda name=name: measured(name, "resp", f"-pipeline={depth}",
                                                 address=found[name].resp_address)
                for name in found if name != "OpenBao"}, table="audit")


def writes(run):
    bench = run.bench
    for mode, fsync in (("strict", "always"), ("batch", "everysec")):
        made = [lambda: KallistoDurable(bench, mode), lambda: Redis(bench, fsync), lambda: Floor(bench, fsync),
                lambda: Floor(bench, fsync, versions=True)]
        if mode == "strict":
            made += [lambda: BaoDurable(bench), lambda: Etcd(bench)]
        with run.servers(*made) as found:
            kallisto = found["Kallisto"]
            for name in ("Kallisto", "OpenBao"):
                if name in found:
                    found[name].mount_kv()
            contenders = {}
            for name in ("Kallisto", "OpenBao"):
                if name in found:
                    contenders[name] = lambda server=found[name]: run.rate(
                        server, "http", "-writes=100", "-connections=200")
            if "etcd" in found:
                contenders["etcd"] = lambda: etcd_puts(run, found["etcd"])
            run.compare(f"KV write, HTTP, {mode}, 200 connections", "writes/s", "more", contenders)
            for depth in (1, 16):
                shape = ("-writes=100", "-connections=50", f"-pipeline={depth}")
                contenders = {"Kallisto": lambda: run.rate(kallisto, "resp", *shape, address=kallisto.resp_address)}
                for name in ("Redis", FLOOR, FLOOR_VERSIONS):
                    if name in found:
                        contenders[name] = lambda server=found[name]: run.rate(server, "resp", *shape)
                run.compare(f"SET, RESP, {mode} (Redis: appendfsync {fsync}), {report.in_flight(depth)}", "writes/s",
                            "more", contenders)


def etcd_puts(run, server):
    """etcd's own benchmark over gRPC, when there is one (see README); its rate."""
    tool = os.environ.get("ETCD_BENCHMARK") or shutil.which("etcd-benchmark")
    if not tool:
        raise Skipped("no etcd benchmark: ETCD_BENCHMARK names etcd's tools/benchmark when it is built")
    total = str(6_000 * run.options.seconds)
    command = ["taskset", "-c", str(run.bench.load_core), tool,
               f"--endpoints=127.0.0.1:{server.port}", "--conns=20", "--clients=200", "put",
               "--key-size=16", "--sequential-keys", f"--total={total}", f"--val-size={VALUE_BYTES}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    found = re.search(rb"Requests/sec:\s*([\d.]+)", done.stdout)
    if not found:
        raise Skipped(f"etcd's benchmark: {done.stdout.decode()[-160:]}")
    return float(found[1])


def mixed(run):
    bench = run.bench
    with run.servers(lambda: KallistoDurable(bench), lambda: BaoDurable(bench)) as found:
        contenders = {}
        for name, server in found.items():
            server.mount_kv()
            token = prepare(run, server)
            contenders[name] = lambda server=server, token=token: run.rate(
                server, "mixed", "-writes=5", "-connections=50", token=token)
        run.compare("95 reads to 5 strict writes, HTTP", "requests/s", "more", contenders)


def herd(run):
    bench = run.bench
    for tls in (False, True):
        name = "TLS" if tls else "plain"
        with run.servers(lambda: KallistoDev(bench, tls), lambda: BaoDev(bench, tls)) as found:
            tokens = {who: prepare(run, server) for who, server in found.items()}
            size = answer_bytes(found["Kallisto"], tokens["Kallisto"])
            with run.servers(lambda: Nginx(bench, KEYS, size, tls)) as more:
                for clients in run.options.herds:
                    stampede(run, f"{clients:,}{report.HERD}token, {name}", clients, {**found, **more},
                             tokens, [])
            for clients in run.options.herds:
                for kind in ("service",) if run.options.quick else ("service", "batch"):
                    stampede(run, f"{clients:,}{report.HERD}AppRole ({kind} tokens), {name}", clients,
                             found, {}, ["-approle", f"-token-type={kind}"])


def stampede(run, name, clients, servers, tokens, arguments):
    peaks = {}
    if run.options.quick and clients > 1_000:
        servers = {who: server for who, server in servers.items() if who != "OpenBao"}

    def once(who, server):
        figures = run.load(server, "herd", f"-clients={clients}", "-limit=180", *arguments,
                           token=tokens.get(who) or server.token)
        if figures["served"] < clients:
            raise Skipped(f"{figures['served']} of {clients} served: {figures['errors']}")
        peaks[who] = max(peaks.get(who, 0), figures["server"]["memory_peak_bytes"])
        return figures["all_served_ms"]

    contenders = {who: lambda who=who, server=server: once(who, server)
                  for who, server in servers.items()}
    run.compare(f"{name}: all served", "ms", "less", contenders,
                rounds=run.options.herd_rounds, once=("OpenBao",) if clients > 1_000 else ())
    run.rows[-1]["note"] = "resident at most: " + ", ".join(
        f"{who} {peak / 2**20:,.0f} MiB" for who, peak in peaks.items())


def memory(run):
    bench = run.bench
    count = 100_000

    def grown(make, kind):
        with make() as server:
            if isinstance(server, (KallistoDurable, BaoDurable)):
                server.mount_kv()
            before = server.resident_bytes()
            run.load(server, kind, "-prepare", "-duration=1", "-warm-up=0", pid=False, keys=count)
            time.sleep(1)
            say(f"{server.name}: {before / 2**20:.1f} MiB before, "
                f"{server.resident_bytes() / 2**20:.1f} after {count:,} keys")
            return server.resident_bytes() / 2**20

    contenders = {
        "Kallisto": lambda: grown(lambda: KallistoDev(bench), "http"),
        "Redis": lambda: grown(lambda: Redis(bench), "resp"),
        FLOOR: lambda: grown(lambda: Floor(bench), "resp"),
        FLOOR_VERSIONS: lambda: grown(lambda: Floor(bench, versions=True), "resp"),
    }
    if not run.options.quick:
        contenders["OpenBao"] = lambda: grown(lambda: BaoDev(bench), "http")
    run.compare(f"Resident with {count:,} secrets of {VALUE_BYTES} bytes, in memory", "MiB", "less",
                contenders, rounds=1)
    run.compare(f"Resident with {count:,} secrets of {VALUE_BYTES} bytes, on disk", "MiB", "less", {
        "Kallisto": lambda: grown(lambda: KallistoDurable(bench, "batch"), "http"),
        "Redis": lambda: grown(lambda: Redis(bench, "everysec"), "resp"),
        FLOOR: lambda: grown(lambda: Floor(bench, "everysec"), "resp"),
    }, rounds=1)

    def idle(make, tls, connections=5_000):
        with make() as server:
            token = None
            if server.name != "nginx":
                token = prepare(run, server)
            before = server.resident_bytes()
            hold = subprocess.Popen(
                ["taskset", "-c", str(bench.load_core), bench.kallisto, "bench", "herd",
                 f"-address={server.address}", f"-ca-cert={server.bench.ca}", f"-clients={connections}",
                 f"-keys={KEYS}", "-hold=6", "-json", *([f"-token={token}"] if token else [])],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            most = before
            while hold.poll() is None:
                most = max(most, server.resident_bytes())
                time.sleep(0.05)
            output, error = hold.communicate()
            if not output or json.loads(output)["served"] < connections:
                raise Skipped(f"not all connected: {(output or error).decode()[:160]}")
            return (most - before) / connections

    for tls in (False, True):
        contenders = {
            "Kallisto": lambda: idle(lambda: KallistoDev(bench, tls), tls),
            "nginx": lambda: idle(lambda: Nginx(bench, KEYS, 300, tls), tls),
            "OpenBao": lambda: idle(lambda: BaoDev(bench, tls), tls),
        }
        run.compare(f"Memory of an idle connection that was served, {'TLS' if tls else 'plain'}",
                    "bytes", "less", contenders, rounds=1)


def start(run):
    bench = run.bench
    for count in run.options.start_counts:
        resident, lists = {}, {}

        def again(make, kind):
            with make() as server:
                if kind == "http":
                    server.mount_kv()
                run.load(server, kind, "-prepare", "-duration=1", "-warm-up=0", pid=False,
                         keys=count)
                time.sleep(1)
                resident[server.name] = server.resident_bytes() / 2**20
                took = []
                for _ in range(3):
                    server.stop(signal.SIGTERM)
                    begin = time.monotonic()
                    if kind == "http":
                        server.start()
                        until(lambda: server.ask("GET", f"/v1/secret/data/bench/k{count - 1}"),
                              "the last key", server.process)
                    else:
                        server.start()
                        ready = is_there if isinstance(server, Floor) else is_loaded
                        until(lambda: ready(server, count), "loaded", server.process)
                    took.append((time.monotonic() - begin) * 1e3)
                    if kind == "http" and server.name == "Kallisto":
                        lists.setdefault("first", []).append(listed(server, count))
                        lists.setdefault("later", []).append(listed(server, count))
                return statistics.median(took)

        contenders = {
            "Kallisto": lambda: again(lambda: KallistoDurable(bench, "batch"), "http"),
            "Redis": lambda: again(lambda: Redis(bench, "everysec"), "resp"),
            FLOOR_VERSIONS: lambda: again(lambda: Floor(bench, "everysec", versions=True), "resp"),
        }
        if count <= 100_000 and not run.options.quick:
            contenders["OpenBao"] = lambda: again(lambda: BaoDurable(bench), "http")
        run.compare(f"Start to ready with {count:,} secrets (unsealing included)", "ms", "less",
                    contenders, rounds=1)
        if count > 100_000:
            run.compare(f"Resident after {count:,} secrets of {VALUE_BYTES} bytes were written, on disk", "MiB",
                        "less", {who: lambda figure=figure: figure for who, figure in resident.items()},
                        rounds=1)
        for when, took in lists.items():
            name = "since the start" if when == "first" else "asked again"
            run.compare(f"LIST of a folder with {count:,} children, {'first ' if when == 'first' else ''}{name}",
                        "ms", "less", {"Kallisto": lambda took=took: statistics.median(took)}, rounds=1)


def listed(server, count):
    """Milliseconds until a listing of the folder of all secrets has come whole."""
    import urllib.request
    request = urllib.request.Request(f"{server.address}/v1/secret/metadata/bench?list=true")
    request.add_header("X-Vault-Token", server.token)
    begin = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read()
    took = (time.monotonic() - begin) * 1e3
    if body.count(b'"k') < count:
        raise Skipped(f"a listing without all of {count:,}")
    return took


def is_loaded(server, _):
    """Redis answers PING with -LOADING until it has read its file."""
    return answered(server, b"DBSIZE\r\n").startswith(b":")


def is_there(server, count):
    """Whether the last of so many keys is."""
    key = f"bench/k{count - 1}".encode()
    return answered(server, b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key)).startswith(b"$%d\r" % VALUE_BYTES)


def answered(server, command):
    """The beginning of what a server of the Redis protocol answers."""
    import socket
    with socket.create_connection(("127.0.0.1", server.port), 1) as connection:
        connection.sendall(command)
        return connection.recv(64)


def main():
    options = driving.parse(__doc__, GROUPS)
    options.seconds, options.warm_up = (3, 1) if options.quick else (4, 1)
    options.rounds = 1 if options.quick else 5
    options.herds = [1_000, 10_000] if options.quick else [1_000, 5_000, 10_000]
    options.herd_rounds = 1 if options.quick else 5
    options.start_counts = [100_000] if options.quick else [100_000, 1_000_000]
    cores = tuple(int(core) for core in os.environ.get("CORES", "0,1").split(","))
    work = pathlib.Path(options.cache) / f"run-{os.getpid()}"
    work.mkdir(parents=True)
    begin = time.time()
    try:
        bench = Bench(os.environ["KALLISTO"], options.cache, work, cores)
        run = Run(bench, options)
        driving.drive(run, {"reads": reads, "tls": lambda run: reads(run, tls=True), "audit": audit,
                            "writes": writes, "bulk": lambda run: bulk.measure(run, prepare),
                            "mixed": mixed, "herd": herd, "memory": memory, "start": start,
                            "connections": lambda run: connections.measure(run, KEYS, prepare, answer_bytes)},
                      say)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    results = {"rows": run.rows, "skipped": run.skipped, "samples": run.samples,
               "facts": report.facts(options, bench, time.time() - begin)}
    (pathlib.Path(options.cache) / "results.json").write_text(json.dumps(results, indent=1))
    text = report.markdown(results)
    print(text)
    if not options.dry:
        report.write(results, text, pathlib.Path(options.root))


if __name__ == "__main__":
    main()
