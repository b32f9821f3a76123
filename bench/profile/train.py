"""What servers do while their profile is recorded: each kind of work that users wait for, a few seconds of each.

Counts, not times, are recorded, so the machine may be busy meanwhile. A load that cannot be run ends the recording: a profile without it would be
worse for that work, and nobody would see why.
"""

import importlib.util
import os
import pathlib
import shutil
import sys

import bulk
import driving
from drive import Run, prepare
from peers import Bench, KallistoDev, KallistoDurable, Skipped

SECONDS = 2
CONNECTIONS = "-connections=50"
SECRETS = 20_000
GROUPS = ["reads", "tls", "audit", "writes", "logins", "engines", "start", "cluster"]


def say(text):
    print(f"profile: {text}", file=sys.stderr, flush=True)


def must(run, server, kind, *arguments, **more):
    """A load of which every request has to succeed."""
    figures = run.load(server, kind, *arguments, **more)
    if figures["errors_total"]:
        raise Skipped(f"{kind} {arguments}: {figures['errors']}")
    say(f"{server.name}, {kind} {' '.join(arguments)}: {figures['good']:,} requests")


def timed(run, server, kind, *arguments, **more):
    must(run, server, kind, CONNECTIONS, f"-duration={SECONDS}", "-warm-up=0", *arguments, **more)


def read(run, server, token, depths=(1, 16)):
    for depth in depths:
        timed(run, server, "http", f"-pipeline={depth}", token=token)
        timed(run, server, "resp", f"-pipeline={depth}", token=token, address=server.resp_address)


def reads(run, tls=False):
    with KallistoDev(run.bench, tls) as server:
        token = prepare(run, server)
        read(run, server, token)
        must(run, server, "herd", "-clients=1000", token=token)
        if tls:
            return
        client = bulk.Client(server, token)
        client.ask(b"".join(bulk.command(b"SET", b"bench/k%d" % key, bulk.pem(key)) for key in range(bulk.PEM_KEYS)), bulk.PEM_KEYS)
        timed(run, server, "resp", "-pipeline=16", token=token, address=server.resp_address)
        for _ in range(20):
            server.ask("GET", "/v1/secret/metadata/bench?list=true")


def audit(run):
    for options in ({}, {"format": "compact"}):
        with KallistoDev(run.bench) as server:
            token = prepare(run, server)
            server.audit(**options)
            read(run, server, token)
            timed(run, server, "mixed", "-writes=50", token=token)


def writes(run):
    for mode in ("strict", "batch"):
        with KallistoDurable(run.bench, mode) as server:
            server.mount_kv()
            token = prepare(run, server)
            for depth in (1, 16):
                timed(run, server, "resp", "-writes=100", f"-pipeline={depth}", token=token, address=server.resp_address)
            for share in (100, 5):
                timed(run, server, "mixed", f"-writes={share}", token=token)
            client, value = bulk.Client(server, token), b"v" * bulk.VALUE_BYTES
            names = [b"bench/m%d" % key for key in range(bulk.KEYS)]
            for _ in range(5):
                client.ask(bulk.command(b"MSET", *[word for name in names for word in (name, value)]), 1)
                client.ask(b"".join(bulk.command(b"SET", name, value) for name in names), len(names))


def logins(run):
    for kind in ("service", "batch"):
        with KallistoDurable(run.bench) as server:
            server.mount_kv()
            prepare(run, server)
            must(run, server, "herd", "-clients=500", "-approle", f"-token-type={kind}")


def engines(run):
    """Work that is not a secret's read or write: each some hundred times, from one client."""
    with KallistoDev(run.bench) as server:
        ask = server.ask
        ask("POST", "/v1/sys/mounts/transit", {"type": "transit"})
        ask("POST", "/v1/transit/keys/one", {})
        ask("POST", "/v1/sys/mounts/pki", {"type": "pki"})
        ask("POST", "/v1/pki/root/generate/internal", {"common_name": "root", "key_type": "ec"})
        ask("POST", "/v1/pki/roles/one", {"allow_any_name": True, "key_type": "ec"})
        ask("POST", "/v1/sys/auth/userpass", {"type": "userpass"})
        for number in range(200):
            sealed = ask("POST", "/v1/transit/encrypt/one", {"plaintext": "aGVsbG8="})["data"]["ciphertext"]
            ask("POST", "/v1/transit/decrypt/one", {"ciphertext": sealed})
            ask("POST", "/v1/pki/issue/one", {"common_name": f"host-{number}.example.com", "ttl": "1h"})
            made = ask("POST", "/v1/auth/token/create", {"policies": ["default"], "ttl": "1h"})["auth"]
            ask("POST", "/v1/auth/token/lookup", {"token": made["client_token"]})
            ask("POST", "/v1/auth/token/revoke", {"token": made["client_token"]})
            ask("POST", f"/v1/secret/data/apps/a{number}", {"data": {"user": "u", "password": "p", "number": number}})
            ask("GET", f"/v1/secret/data/apps/a{number}?version=1")
            ask("GET", "/v1/secret/metadata/apps?list=true")
            ask("GET", "/v1/sys/mounts")
            ask("GET", "/v1/sys/metrics")


def start(run):
    with KallistoDurable(run.bench, "batch") as server:
        server.mount_kv()
        must(run, server, "http", "-prepare", "-duration=1", "-warm-up=0", pid=False, keys=SECRETS)
        for _ in range(2):
            server.stop()
            server.start()
            server.ask("GET", f"/v1/secret/data/bench/k{SECRETS - 1}")


def cluster(run):
    """A leader with two followers, of which one is asked too."""
    sources = pathlib.Path(run.options.root) / "bench/cluster/drive.py"
    spec = importlib.util.spec_from_file_location("cluster_drive", sources)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.KallistoCluster(run.bench) as nodes:
        leader = nodes.leader()
        for node in (leader, nodes.others(leader)[0]):
            for share in (50, 0):
                timed(run, node, "mixed", f"-writes={share}", "-prepare")


def main():
    options = driving.parse(__doc__, GROUPS)
    cores = tuple(int(core) for core in os.environ.get("CORES", "0,1").split(","))
    work = pathlib.Path(options.cache) / f"profile-{os.getpid()}"
    work.mkdir(parents=True)
    try:
        run = Run(Bench(os.environ["KALLISTO"], options.cache, work, cores), options)
        for name in options.groups:
            say(f"--- {name}")
            {"reads": reads, "tls": lambda run: reads(run, tls=True), "audit": audit, "writes": writes, "logins": logins,
             "engines": engines, "start": start, "cluster": cluster}[name](run)
    finally:
        shutil.rmtree(work, ignore_errors=True)


main()
