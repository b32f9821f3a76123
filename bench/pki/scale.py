#!/usr/bin/env python3
"""What many certificates to tidy, and many issuers, change for a durable server of Kallisto.

    python3 bench/pki/scale.py KALLISTO [--certificates N] [--issuers N] [--rounds N] [--seconds S] [--rate N]

Tidy: a server with `--certificates` that have ended. The load tool of the program, `kallisto bench http`, reads KV at `--rate` for
`--seconds`, `--rounds` times without a tidy and as often while one runs (a round in which it ended is said to be such, and not
counted). Then the server is killed while the tidy runs (with SIGKILL) and started again: the tidy has to go on by itself, and to delete
what is left, and no certificate that has not ended.

Issuers: a mount with 1 issuer and with `--issuers`, all with keys: the latency of issuing by the first and the last, of the list of
issuers and of a revocation list, and the start.

`--certificates 0` or `--issuers 0` leaves a part out. Prints tables in Markdown. Ends what it started, by id.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

from measure import HOST, Durable, Wire, quantile, request, say

TIDY_SECS_MAX = 1_800
ENDS_SECS = 30
ASKED = 300


def reads(server, binary, given, prepare):
    words = [binary, "bench", "http", f"-address=http://{HOST}:{server.port}", f"-token={server.token}", "-json", f"-rate={given.rate}",
             f"-duration={given.seconds}", "-connections=8", *(["-prepare"] if prepare else [])]
    told = subprocess.run(words, capture_output=True, text=True, env=server.env)
    assert told.returncode in (0, 2), told.stderr
    return json.loads(told.stdout)


def tidy_status(server):
    return json.loads(server.ask("GET", "pki/tidy-status")[1])["data"]


def stored(server):
    """How many certificates are stored, by pages."""
    count, after = 0, ""
    while True:
        code, body = server.ask("LIST", f"pki/certs?limit=10000{after}")
        if code == 404:
            return count
        keys = json.loads(body)["data"]["keys"]
        count, after = count + len(keys), f"&after={keys[-1]}"


def tidy(given):
    server = Durable(given.kallisto)
    try:
        server.mount()
        server.make("sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})
        server.make("pki/roles/short", {"allow_any_name": True, "key_type": "any", "ttl": f"{ENDS_SECS}s", "not_before_duration": "1s"})
        kept = stored(server)
        began = time.monotonic()
        server.sign(given.certificates, "short")
        say(f"{given.certificates:,} signed in {time.monotonic() - began:.0f} s")
        time.sleep(ENDS_SECS + 10)
        rounds = {"without": [], "with": []}
        for turn in range(given.rounds):
            rounds["without"].append(reads(server, given.kallisto, given, turn == 0))
        server.make("pki/tidy", {"tidy_cert_store": True, "tidy_revoked_certs": True, "safety_buffer": "1s"})
        for turn in range(given.rounds):
            told = reads(server, given.kallisto, given, False)
            if tidy_status(server)["state"] != "Running":
                print(f"the tidy ended during round {turn + 1}: it is not counted")
                break
            rounds["with"].append(told)
        deleted = tidy_status(server).get("cert_store_deleted_count")
        server.process.kill()
        server.process.wait()
        server.start()
        server.until(503)
        server.unseal()
        began = time.monotonic()
        while (status := tidy_status(server))["state"] == "Running" and time.monotonic() - began < TIDY_SECS_MAX:
            time.sleep(0.5)
        left = stored(server)
        print(f"| reads of KV at {given.rate:,} a second, {given.seconds} s each | rounds | p50, ms | p99, ms | p99.9, ms |\n|---|---:|---:|---:|---:|")
        medians = {}
        for name, told in rounds.items():
            if not told:
                continue
            row = []
            for share in ("p50_us", "p99_us", "p99_9_us"):
                of = sorted(one["reads"][share] / 1e3 for one in told)
                medians[name, share] = statistics.median(of)
                row.append(f"{statistics.median(of):.2f} ({of[0]:.2f} to {of[-1]:.2f})")
            print(f"| {name} a tidy | {len(told)} | {' | '.join(row)} |")
        if rounds["with"]:
            print(f"\np99 with a tidy: {medians['with', 'p99_us'] / medians['without', 'p99_us']:.2f} times that without")
        print(f"\nkilled when {deleted:,} of {given.certificates:,} were deleted; started again it went on by itself, and was {status['state']} "
              f"{time.monotonic() - began:.0f} s later; {left} certificates are left of {kept + given.certificates:,}, {kept} of which have not ended\n", flush=True)
        assert left == kept, "a tidy deletes what has ended, and nothing else"
    finally:
        server.process.kill()
        server.process.wait()


def latencies(server, asked):
    wire, all_ms = Wire(server.port), []
    for _ in range(ASKED):
        began = time.perf_counter()
        wire.send([asked])
        code, body = wire.take()
        all_ms.append((time.perf_counter() - began) * 1e3)
        assert code == 200, body
    all_ms.sort()
    return f"{quantile(all_ms, 0.5):.2f} / {quantile(all_ms, 0.99):.2f}"


def issuers(given):
    server = Durable(given.kallisto)
    try:
        server.mount()
        rows = []
        made = 1
        for count in (1, given.issuers):
            began = time.monotonic()
            while made < count:
                server.make("pki/root/generate/internal", {"common_name": f"Root {made}", "key_type": "ec", "ttl": "8760h", "issuer_name": f"i{made}"})
                made += 1
            spent = time.monotonic() - began
            asked = lambda path, method="GET", body=None: latencies(server, request(method, path, body, server.token))
            last = "default" if made == 1 else f"i{made - 1}"
            body = {"common_name": "a.example.com"}
            row = [f"{spent:.1f}", asked("pki/issue/ec", "POST", body), asked(f"pki/issuer/{last}/issue/ec", "POST", body), asked("pki/issuers", "LIST"),
                   asked(f"pki/issuer/{last}/crl/der"), asked(f"pki/ocsp/{server.ocsp}")]
            _, serves = server.restart()
            rows.append((count, *row, f"{serves:.2f}"))
            say(f"{count:,} issuers")
        print("| issuers | made in, s | issue by the first, p50 / p99 ms | by the last | list of issuers | revocation list of the last | OCSP | start until it serves, s |\n"
              "|---:|---:|---:|---:|---:|---:|---:|---:|")
        for row in rows:
            print(f"| {row[0]:,} | {' | '.join(row[1:])} |")
        print(flush=True)
    finally:
        server.process.kill()
        server.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("kallisto")
    arguments.add_argument("--certificates", type=int, default=1_000_000)
    arguments.add_argument("--issuers", type=int, default=1_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--rate", type=int, default=1_000)
    given = arguments.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors\n", flush=True)
    if given.issuers:
        issuers(given)
    if given.certificates:
        tidy(given)


if __name__ == "__main__":
    main()
