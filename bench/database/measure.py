#!/usr/bin/env python3
"""Credentials of a PostgreSQL: how many a second beside what pgbench makes of CREATE ROLE there, and how fast many of them are revoked.

  python3 bench/database/measure.py KALLISTO_BINARY [--rounds N] [--seconds N] [--clients N] [--leases N]

One server with storage `raft` in strict mode, one PostgreSQL in a folder of its own with its syncs on, on one machine. Both sides run the same two
statements with as many clients, in turns; the medians count. Then leases are made up to so many, and one revoke-prefix ends all of them: the time is
from the request until the database has none of their users. Prints a table.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from far_ends.postgresql import Postgres  # noqa: E402
from far_ends.postgresql import ROOT as OWNER  # noqa: E402
from far_ends.postgresql import ROOT_PASSWORD  # noqa: E402
from far_ends.processes import end_all, find_tool, make_folder, until  # noqa: E402
from far_ends.servers import Cluster  # noqa: E402

CREATE = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; GRANT readers TO \"{{name}}\";"
# What Kallisto sends, with a name nobody has and a password as long. One transaction, as there.
SCRIPT = """\\set one random(1, 2000000000)
\\set two random(1, 2000000000)
BEGIN;
CREATE ROLE "b-:one-:two" LOGIN PASSWORD 'aaaaaaaa-:one-:two' VALID UNTIL '2099-01-01 00:00:00+00';
GRANT readers TO "b-:one-:two";
COMMIT;
"""


class Load:
    """Clients that ask for credentials, each over a connection of its own."""

    def __init__(self, server, token, clients):
        self.server, self.token, self.clients = server, token, clients
        self.failed = 0

    def run(self, ends_at, more):
        """Until `ends_at`, or while `more` says so; how many came."""
        made = [0] * self.clients

        def one(number):
            wire = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            while time.monotonic() < ends_at and more():
                wire.request("GET", "/v1/database/creds/app", headers={"X-Vault-Token": self.token})
                answer = wire.getresponse()
                answer.read()
                if answer.status == 200:
                    made[number] += 1
                else:
                    self.failed += 1

        threads = [threading.Thread(target=one, args=(number,)) for number in range(self.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(made)


def of_pgbench(postgres, work, clients, seconds):
    (work / "create.sql").write_text(SCRIPT)
    command = [find_tool("pgbench"), "-h", "127.0.0.1", "-p", str(postgres.port), "-U", "checker", "-n", "-c", str(clients), "-j", "1", "-T", str(seconds),
               "-f", str(work / "create.sql"), "postgres"]
    ran = subprocess.run(command, env={**os.environ, "PGPASSWORD": "checkpw"}, capture_output=True, text=True, timeout=seconds + 60, check=True)
    return float(re.search(r"tps = ([0-9.]+)", ran.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--leases", type=int, default=10_000)
    given = parser.parse_args()
    work = make_folder("kallisto-database-bench-")
    try:
        postgres = Postgres(work)
        postgres.sql("CREATE ROLE readers")
        cluster = Cluster(os.path.realpath(given.binary), work, 1)
        server, token = cluster.servers[0], cluster.token

        def write(path, body):
            code, answer = server.ask("POST", path, body, token)
            if code not in (200, 204):
                raise SystemExit(f"{path}: {code} {answer}")

        write("sys/mounts/database", {"type": "database"})
        write("database/config/app", {"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "username": OWNER, "password": ROOT_PASSWORD,
                                      "max_open_connections": given.clients,
                                      "connection_url": f"postgresql://{{{{username}}}}:{{{{password}}}}@127.0.0.1:{postgres.port}/postgres?sslmode=disable"})
        write("database/roles/app", {"db_name": "app", "creation_statements": [CREATE], "default_ttl": "10h", "max_ttl": "24h"})
        count = lambda like: int(postgres.sql(f"SELECT count(*) FROM pg_roles WHERE rolname LIKE '{like}'"))
        load, ours, theirs = Load(server, token, given.clients), [], []
        # Opens the connections.
        load.run(time.monotonic() + 2, lambda: True)
        for number in range(given.rounds):
            begun = time.monotonic()
            made = load.run(begun + given.seconds, lambda: True)
            ours.append(made / (time.monotonic() - begun))
            theirs.append(of_pgbench(postgres, work, given.clients, given.seconds))
            print(f"round {number + 1} of {given.rounds}: {ours[-1]:.0f} credentials/s, pgbench {theirs[-1]:.0f} roles/s", file=sys.stderr, flush=True)
        missing = lambda: count("v-%") < given.leases
        while missing():
            load.run(time.monotonic() + 5, lambda: True)
            print(f"{count('v-%')} of {given.leases} leases", file=sys.stderr, flush=True)
        leases = count("v-%")
        begun = time.monotonic()
        code, answer = server.ask("PUT", "sys/leases/revoke-prefix/database/creds", {"sync": False}, token)
        if code not in (202, 204):
            raise SystemExit(f"revoke-prefix: {code} {answer}")
        until("all users are gone", lambda: count("v-%") == 0, secs=1200, pause=0.2)
        took = time.monotonic() - begun
        mid = statistics.median
        spread = lambda of: f"{mid(of):,.0f} ({min(of):,.0f} to {max(of):,.0f})"
        print("| | Kallisto | pgbench | ratio |\n|---|---:|---:|---:|")
        print(f"| users made a second, {given.clients} clients | {spread(ours)} | {spread(theirs)} | {mid(ours) / mid(theirs):.2f} |")
        print(f"| revoke-prefix of {leases:,} leases | {took:.1f} s, {took / leases * 1000:.1f} ms each | | |")
        print(json.dumps({"ours": ours, "theirs": theirs, "failed": load.failed, "leases": leases, "revoke_secs": took}))
    finally:
        end_all(work)


if __name__ == "__main__":
    main()
