#!/usr/bin/env python3
"""Storage on PostgreSQL beside OpenBao on the same PostgreSQL, beside pgbench, and beside Raft on the same disk.

  python3 bench/postgres/measure.py KALLISTO_BINARY [--bao FILE] [--rounds N] [--seconds N] [--secrets N,N] [--followers N] [--only WORD,..]

Groups: writes (200 clients), reads, starts (over so many secrets), followers (so many servers, 2,000 writes a second). Every row of a
group is measured in turn, round after round, and the median counts. PostgreSQL runs as it is installed, in a folder of its own, with its
syncs on. Prints one JSON object a row, and the tables of docs/benchmarks.md.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from postgres_server import Database, free_port  # noqa: E402

WORK = pathlib.Path(tempfile.mkdtemp(prefix="postgres-bench-"))
WORK.chmod(0o755)
SEAL_KEY = os.urandom(32).hex()
CLIENTS = 200
STARTED = []


def ask(address, method, path, body=None, token=None, timeout=60):
    request = urllib.request.Request(f"{address}/v1/{path}", method=method, data=None if body is None else json.dumps(body).encode())
    if token:
        request.add_header("X-Vault-Token", token)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        return error.code, {}
    except OSError:
        return 0, {}


def wait(what, holds, patience=120):
    began = time.monotonic()
    while time.monotonic() - began < patience:
        found = holds()
        if found:
            return found
        time.sleep(0.01)
    raise SystemExit(f"waited in vain for {what}")


class Server:
    """A server of Kallisto or OpenBao, initialised and unsealed by itself, with a mount of KV version 2 at `secret/`."""

    def __init__(self, program, name, storage):
        self.name, port = name, free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.config = WORK / f"{name}.hcl"
        self.log = WORK / f"{name}.log"
        cluster = free_port()
        self.config.write_text(f"""
storage {storage}
listener "tcp" {{
  address = "127.0.0.1:{port}"
  cluster_address = "127.0.0.1:{cluster}"
  tls_disable = true
}}
seal "static" {{
  current_key_id = "bench"
  current_key = "{SEAL_KEY}"
}}
api_addr = "{self.address}"
cluster_addr = "https://127.0.0.1:{cluster}"
disable_mlock = true
""")
        self.program, self.process, self.token = program, None, None

    def start(self):
        began = time.monotonic()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.program, "server", f"-config={self.config}"], stdout=log, stderr=log, cwd=WORK)
        STARTED.append(self)
        return began

    def prepare(self):
        self.start()
        wait(f"{self.name}", lambda: ask(self.address, "GET", "sys/seal-status", timeout=5)[0] == 200)
        code, made = ask(self.address, "PUT", "sys/init", {"recovery_shares": 1, "recovery_threshold": 1})
        if code != 200:
            raise SystemExit(f"{self.name}: init: {code}")
        self.token = made["root_token"]
        wait("it to serve", lambda: ask(self.address, "GET", "sys/health", timeout=5)[0] == 200)
        wait("a mount", lambda: ask(self.address, "POST", "sys/mounts/secret", {"type": "kv", "options": {"version": "2"}}, self.token)[0] in (200, 204))
        return self

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(60)
            self.process = None


def load(server, writes, seconds, rate=None, keys=1000, clients=CLIENTS):
    command = [arguments.kallisto, "bench", "mixed", f"--address={server.address}", f"--token={server.token}", f"--writes={writes}",
               f"--connections={clients}", f"--keys={keys}", f"--duration={seconds}", "--warm-up=2", "--prepare", "--json"]
    if rate:
        command.append(f"--rate={rate}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600 + seconds, cwd=WORK)
    if done.returncode != 0 and not done.stdout:
        raise SystemExit(f"{server.name}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def pgbench(database, seconds):
    database.sql("CREATE TABLE IF NOT EXISTS single (key bytea PRIMARY KEY, value bytea NOT NULL)", "kallisto")
    script = WORK / "insert.sql"
    script.write_text("INSERT INTO single VALUES (sha256(random()::text::bytea || clock_timestamp()::text::bytea), decode(repeat('ab', 200), 'hex')) ON CONFLICT DO NOTHING;\n")
    script.chmod(0o644)
    best = 0.0
    done = subprocess.run([shutil.which("pgbench") or database.bin / "pgbench", "-h", "127.0.0.1", "-p", str(database.port), "-U", "postgres", "-n", "-M", "prepared",
                           "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-f", script, "kallisto"],
                          capture_output=True, text=True, timeout=120 + seconds)
    for line in done.stdout.splitlines():
        if line.startswith("tps ="):
            best = float(line.split()[2])
    if not best:
        raise SystemExit(f"pgbench: {done.stdout[-300:]} {done.stderr[-600:]}")
    return best


def per_second(told):
    for name in ("per_second", "requests_per_second", "rate"):
        if name in told:
            return told[name]
    raise SystemExit(f"no rate in {sorted(told)}")


def say(group, row, values, unit):
    text = {"group": group, "row": row, "median": round(statistics.median(values), 3), "unit": unit, "all": [round(value, 3) for value in values[:20]], "values": len(values),
            "load_average": round(os.getloadavg()[0], 1)}
    print(json.dumps(text), flush=True)
    return text["median"]


def rates(database, group, writes):
    servers = [Server(arguments.kallisto, f"{group}-postgresql", f'"postgresql" {{ connection_url = "{database.url()}" table = "{group}" ha_table = "{group}_s" }}'),
               Server(arguments.kallisto, f"{group}-raft", f'"raft" {{ path = "{WORK}/{group}-raft" }}')]
    if arguments.bao:
        database.sql(f"CREATE DATABASE bao_{group} OWNER kallisto")
        url = database.url().replace("/kallisto?", f"/bao_{group}?")
        servers.append(Server(arguments.bao, f"{group}-openbao", f'"postgresql" {{ connection_url = "{url}" }}'))
    rows = {server.name: [] for server in servers}
    inserts = []
    for server in servers:
        server.prepare()
    for _ in range(arguments.rounds):
        for server in servers:
            told = load(server, writes, arguments.seconds)
            rows[server.name].append(per_second(told))
            print(json.dumps({"of": server.name, **told}), file=sys.stderr, flush=True)
        if group == "writes":
            inserts.append(pgbench(database, arguments.seconds))
    for server in servers:
        server.stop()
    found = {name: say(group, name, values, "requests/s") for name, values in rows.items()}
    if inserts:
        found["pgbench"] = say(group, "pgbench, single-row inserts", inserts, "inserts/s")
    own = found[f"{group}-postgresql"]
    for name, other in found.items():
        print(json.dumps({"group": group, "ratio to": name, "ratio": round(own / other, 2)}), flush=True)


def starts(database, _group, _writes):
    for secrets in (int(number) for number in arguments.secrets.split(",")):
        name = f"starts_{secrets}"
        storage = f'"postgresql" {{ connection_url = "{database.url()}" table = "{name}" ha_table = "{name}_s" }}'
        server = Server(arguments.kallisto, name, storage).prepare()
        began = time.monotonic()
        load(server, 100, 1, keys=secrets)
        print(f"{secrets} secrets written in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        records = database.sql(f"SELECT count(*) FROM {name}", "kallisto")
        took, served = [], []
        for _ in range(arguments.rounds):
            server.stop()
            began = server.start()
            wait("a read", lambda: ask(server.address, "GET", "sys/health?standbyok=true", timeout=5)[0] == 200)
            served.append(time.monotonic() - began)
            wait("a write", lambda: ask(server.address, "POST", "secret/data/after", {"data": {"v": "1"}}, server.token, timeout=5)[0] == 200)
            took.append(time.monotonic() - began)
        memory = [line for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
        server.stop()
        say("starts", f"{secrets} secrets, {records} records: serves", served, "s")
        say("starts", f"{secrets} secrets, {records} records: writes; {memory[0].split()[1]} KiB", took, "s")


def followers(database, _group, _writes):
    storage = lambda name: f'"postgresql" {{ connection_url = "{database.url()}" table = "followed" ha_table = "followed_s" node_id = "{name}" }}'
    leader = Server(arguments.kallisto, "leader", storage("leader")).prepare()
    others = [Server(arguments.kallisto, f"follower-{number}", storage(f"follower-{number}")) for number in range(arguments.followers - 1)]
    for server in others:
        server.start()
    for server in others:
        wait(server.name, lambda: ask(server.address, "GET", "sys/health?standbyok=true", timeout=5)[0] == 200)
    index = lambda server: ask(server.address, "GET", "sys/leader", timeout=10)[1].get("raft_applied_index", 0)
    gaps, first, began = [], index(leader), time.monotonic()
    process = subprocess.Popen([arguments.kallisto, "bench", "mixed", f"--address={leader.address}", f"--token={leader.token}", "--writes=100", "--connections=200",
                                "--keys=1000", f"--duration={arguments.seconds * 2}", "--warm-up=2", "--rate=2000", "--prepare", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=WORK)
    time.sleep(3)
    while process.poll() is None:
        for server in others:
            before = index(leader)
            gaps.append(max(0, before - index(server)))
        time.sleep(0.2)
    ended = time.monotonic()
    told = json.loads(process.stdout.read())
    last = index(leader)
    wait("all to have everything", lambda: all(index(server) >= last for server in others))
    caught_up = time.monotonic() - ended
    say("followers", f"{arguments.followers} servers, open loop at 2000 writes/s: acknowledged", [per_second(told)], "writes/s")
    say("followers", "batches behind, median of samples", gaps, "batches")
    say("followers", "batches behind, most", [max(gaps)], "batches")
    say("followers", "until all had everything after the last write", [caught_up], "s")
    print(json.dumps({"batches": last - first, "seconds": round(ended - began, 1), **told}), file=sys.stderr, flush=True)
    for server in [leader, *others]:
        server.stop()


GROUPS = {"writes": (rates, 100), "reads": (rates, 0), "starts": (starts, 0), "followers": (followers, 0)}
parser = argparse.ArgumentParser()
parser.add_argument("kallisto", type=os.path.abspath)
parser.add_argument("--bao", type=os.path.abspath)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--seconds", type=int, default=8)
parser.add_argument("--secrets", default="100000")
parser.add_argument("--followers", type=int, default=10)
parser.add_argument("--only", default=",".join(GROUPS))
arguments = parser.parse_args()
running = Database(WORK, ["max_connections = 500"])
try:
    for wanted in arguments.only.split(","):
        measure, share = GROUPS[wanted]
        measure(running, wanted, share)
finally:
    for server in STARTED:
        server.stop()
    running.stop(2)
    shutil.rmtree(WORK, ignore_errors=True)
