#!/usr/bin/env python3
"""What the statement of a commit costs PostgreSQL itself: groups of the size and shape that Kallisto commits, one behind the other on one
connection, made by nobody in this process, beside pgbench's single-row inserts of 200 clients in turns.

  python3 bench/postgres/floor.py [--rounds N] [--seconds N]

Groups wait in a table of the same database, so what is measured is the statement, its fence, its rows and its sync, and no network, no
server and no clients. Prints a line a row with the medians, in batches a second, and the ratio to the single-row inserts.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from postgres_server import Database  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--seconds", type=int, default=5)
arguments = parser.parse_args()
WORK = pathlib.Path(tempfile.mkdtemp(prefix="postgres-floor-"))
WORK.chmod(0o755)
GROUPS, KEYS, VALUE = 200, 2000, 300
TABLES = f"""
CREATE TABLE records (key bytea PRIMARY KEY, seqno bigint NOT NULL, value bytea NOT NULL);
CREATE TABLE changes (position bigint PRIMARY KEY, first bigint NOT NULL, epoch bigint NOT NULL, body bytea NOT NULL);
CREATE TABLE meta (id int PRIMARY KEY, epoch bigint, expires timestamptz, position bigint);
INSERT INTO meta VALUES (1, 1, now(), 0);
CREATE TABLE single (key bytea PRIMARY KEY, value bytea NOT NULL);
CREATE FUNCTION noise(bytes int) RETURNS bytea LANGUAGE sql VOLATILE AS $$
  SELECT substring(decode(string_agg(md5(random()::text), ''), 'hex') FOR bytes) FROM generate_series(1, bytes / 16 + 1) $$;
CREATE TABLE groups (size int, i int, keys bytea[], seqnos bigint[], vals bytea[], body bytea, PRIMARY KEY (size, i));
ALTER TABLE groups ALTER keys SET STORAGE EXTERNAL, ALTER vals SET STORAGE EXTERNAL, ALTER body SET STORAGE EXTERNAL;
"""
FILL = """
INSERT INTO groups SELECT {size}, g, array_agg(k), array_agg(g::bigint), array_agg(v), noise({size} * 2 * ({value} + 40)) FROM (
  SELECT g, sha256((n || ':' || half)::bytea) AS k, noise({value}) AS v FROM generate_series(1, {groups}) g,
    LATERAL (SELECT DISTINCT (random() * {keys})::int AS n FROM generate_series(1, {size}) WHERE g > 0) picked, (VALUES (0), (1)) halves(half)) all_rows GROUP BY g;
"""
PUT = """put AS (INSERT INTO records (key, seqno, value) SELECT u.k, u.s, u.v FROM led, g, unnest(g.keys, g.seqnos, g.vals) AS u(k, s, v)
   ON CONFLICT (key) DO UPDATE SET seqno = excluded.seqno, value = excluded.value),"""
COMMIT = """\\set i random(1, {groups})
WITH g AS MATERIALIZED (SELECT * FROM groups WHERE size = {size} AND i = :i),
 led AS (UPDATE meta SET position = position + {size}, expires = clock_timestamp() WHERE id = 1 AND epoch = 1 RETURNING position),
 {put}
 told AS (INSERT INTO changes (position, first, epoch, body) SELECT led.position, led.position - {size} + 1, 1, g.body FROM led, g)
 SELECT pg_notify('changes', '') FROM led;
"""
SINGLE = "INSERT INTO single VALUES (sha256(random()::text::bytea || clock_timestamp()::text::bytea), decode(repeat('ab', 200), 'hex')) ON CONFLICT DO NOTHING;\n"


def pgbench(database, text, clients):
    script = WORK / "script.sql"
    script.write_text(text)
    script.chmod(0o644)
    done = subprocess.run([database.bin / "pgbench", "-h", "127.0.0.1", "-p", str(database.port), "-U", "postgres", "-n", "-M", "prepared", "-c", str(clients),
                           "-j", "2" if clients > 1 else "1", "-T", str(arguments.seconds), "-f", script, "kallisto"], capture_output=True, text=True, timeout=120)
    rate = [float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("tps =")]
    if not rate:
        raise SystemExit(done.stderr[-600:])
    return rate[0]


database = Database(WORK, ["max_connections = 300"])
try:
    for statement in (TABLES, *(FILL.format(size=size, value=VALUE, groups=GROUPS, keys=KEYS) for size in (76, 200))):
        database.sql(statement, "kallisto")
    rows = {}
    for size in (76, 200):
        rows[f"groups of {size}"] = (size, COMMIT.format(groups=GROUPS, size=size, put=PUT), 1)
        rows[f"groups of {size}, the change row alone"] = (size, COMMIT.format(groups=GROUPS, size=size, put=""), 1)
    rows["single-row inserts of 200 clients"] = (1, SINGLE, 200)
    found = {name: [] for name in rows}
    for _ in range(arguments.rounds):
        for name, (size, text, clients) in rows.items():
            found[name].append(size * pgbench(database, text, clients))
    base = statistics.median(found["single-row inserts of 200 clients"])
    for name, rates in found.items():
        median = statistics.median(rates)
        print(f"{name}: {median:.0f}/s, {median / base:.2f} of single-row inserts; load average {os.getloadavg()[0]:.1f}", flush=True)
finally:
    database.process.terminate()
    database.process.wait(30)
