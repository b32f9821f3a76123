#!/usr/bin/env python3
"""Thousands of mounts, and as many namespaces as a server takes (1,000), in one whose machine gives it little memory, which is killed on the way.

  many.py KALLISTO [--mounts 10000] [--namespaces 1000] [--megabytes 512] [--kills 3]

The server runs in a memory cgroup of its own (version 1 or 2, made as root; elsewhere it runs without a limit, and that is said). Clients create mounts
and namespaces, with a secret in each tenth; meanwhile the server is killed (SIGKILL) and started again so many times. At the end every mount, namespace and
secret that was acknowledged is there, and one line says what it took.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

THREADS = 8
EVERY = 10
START_SECS_MAX = 120
REQUEST_SECS_MAX = 60


class Unanswered(Exception):
    """The server went away."""


class Cgroup:
    """A memory limit; `None` for a place where none can be made."""

    def __init__(self, megabytes):
        self.path, limit = None, megabytes << 20
        places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
                  ("/sys/fs/cgroup", "memory.max", "memory.peak")]
        for folder, self.limit_name, self.peak_name in places:
            path = pathlib.Path(folder) / f"kallisto-many-{os.getpid()}"
            with contextlib.suppress(OSError):
                path.mkdir()
                if (path / self.limit_name).exists():
                    (path / self.limit_name).write_text(str(limit))
                    self.path = path
                    return
                path.rmdir()
        print("SKIPPED: no memory cgroup can be made here: the server has no limit", file=sys.stderr)

    def enter(self):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        with contextlib.suppress(OSError, TypeError):
            return int((self.path / self.peak_name).read_text())
        return 0

    def remove(self):
        with contextlib.suppress(OSError):
            if self.path:
                self.path.rmdir()


class Server:
    def __init__(self, binary, folder, cgroup):
        self.binary, self.folder, self.cgroup, self.process = binary, folder, cgroup, None
        self.port, cluster = free_port(), free_port()
        (folder / "data").mkdir()
        (folder / "server.hcl").write_text(
            f'storage "raft" {{ path = "{folder}/data" node_id = "one" }}\n'
            f'listener "tcp" {{ address = "127.0.0.1:{self.port}" tls_disable = true }}\n'
            f'cluster_addr = "https://127.0.0.1:{cluster}"\napi_addr = "http://127.0.0.1:{self.port}"\n'
            "disable_mlock = true\n")
        self.local, self.token, self.key = threading.local(), "", None

    def ask(self, method, path, body=None, namespace=""):
        """Status and body of one request on this thread's connection."""
        headers = {"X-Vault-Token": self.token, **({"X-Vault-Namespace": namespace} if namespace else {})}
        try:
            connection = getattr(self.local, "connection", None)
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECS_MAX)
                self.local.connection = connection
            connection.request(method, f"/v1/{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException) as error:
            self.local.connection = None
            raise Unanswered(str(error)) from error

    def start(self):
        """Starts it, and returns how many seconds it took until it served."""
        begin = time.monotonic()
        log = open(self.folder / "server.log", "a")
        self.process = subprocess.Popen([self.binary, "server", f"-config={self.folder}/server.hcl", "-log-level=warn"],
                                        stdout=log, stderr=log, preexec_fn=self.cgroup.enter)
        while time.monotonic() - begin < START_SECS_MAX:
            if self.process.poll() is not None:
                raise SystemExit(f"the server ended: {(self.folder / 'server.log').read_text()[-2000:]}")
            with contextlib.suppress(Unanswered):
                status, health = self.ask("GET", "sys/health")
                if status == 200:
                    return time.monotonic() - begin
                if health and health.get("initialized") and health.get("sealed") and self.key:
                    self.ask("PUT", "sys/unseal", {"key": self.key})
                if health and not health.get("initialized"):
                    _, made = self.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
                    self.key, self.token = made["keys_base64"][0], made["root_token"]
            time.sleep(0.05)
        raise SystemExit("the server does not serve")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def insist(server, gate, *words, **more):
    """Asks until there is an answer that says what became of it; a name that is taken was taken by an earlier try."""
    while True:
        gate.wait()
        try:
            status, body = server.ask(*words, **more)
        except Unanswered:
            time.sleep(0.05)
            continue
        if status in (200, 204) or (status == 400 and ("already" in str(body) or "in use" in str(body))):
            return
        if status in (429, 503):
            time.sleep(0.05)
            continue
        raise SystemExit(f"{words[:2]}: {status} {body}")


def make(server, gate, kind, at):
    if kind == "mount":
        insist(server, gate, "POST", f"sys/mounts/kv-{at}", {"type": "kv-v2"})
        if at % EVERY == 0:
            insist(server, gate, "POST", f"kv-{at}/data/s", {"data": {"v": str(at)}})
    else:
        insist(server, gate, "POST", f"sys/namespaces/team-{at}", {})
        if at % EVERY == 0:
            insist(server, gate, "POST", "sys/mounts/kv", {"type": "kv-v2"}, namespace=f"team-{at}")
            insist(server, gate, "POST", "kv/data/s", {"data": {"v": str(at)}}, namespace=f"team-{at}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    for name, default in (("mounts", 10_000), ("namespaces", 1_000), ("megabytes", 512), ("kills", 3)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    options = arguments.parse_args()
    cgroup = Cgroup(options.megabytes)
    with tempfile.TemporaryDirectory(prefix="kallisto-many-") as folder:
        server = Server(str(pathlib.Path(options.binary).resolve()), pathlib.Path(folder), cgroup)
        try:
            run(server, cgroup, options)
        finally:
            if server.process and server.process.poll() is None:
                server.kill()
            time.sleep(0.2)
            cgroup.remove()


def run(server, cgroup, options):
    begin = time.monotonic()
    server.start()
    work = [("mount", at) for at in range(options.mounts)] + [("namespace", at) for at in range(options.namespaces)]
    gate, starts = threading.Event(), []
    gate.set()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        done = [pool.submit(make, server, gate, *one) for one in work]
        for kill in range(options.kills):
            due = len(work) * (kill + 1) // (options.kills + 1)
            while sum(one.done() for one in done) < due:
                time.sleep(0.1)
            gate.clear()
            server.kill()
            starts.append(server.start())
            gate.set()
            print(f"{due} of {len(work)} made, killed, serving again after {starts[-1]:.1f} s", flush=True)
        for one in done:
            one.result()
    server.kill()
    starts.append(server.start())
    mounts = server.ask("GET", "sys/mounts")[1]["data"]
    assert all(f"kv-{at}/" in mounts for at in range(options.mounts)), "a mount is gone"
    spaces = set(server.ask("LIST", "sys/namespaces")[1]["data"]["keys"])
    assert all(f"team-{at}/" in spaces for at in range(options.namespaces)), "a namespace is gone"
    for at in range(0, options.mounts, EVERY):
        assert server.ask("GET", f"kv-{at}/data/s")[1]["data"]["data"]["v"] == str(at), f"secret of mount {at}"
    for at in range(0, options.namespaces, EVERY):
        found = server.ask("GET", "kv/data/s", namespace=f"team-{at}")[1]["data"]["data"]["v"]
        assert found == str(at), f"secret of namespace {at}"
    peak = cgroup.peak() >> 20
    print(f"ok    {options.mounts} mounts, {options.namespaces} namespaces, {options.kills + 1} kills: nothing lost; at most {peak} of "
          f"{options.megabytes} MiB (files in the page cache included); last start {starts[-1]:.1f} s; {time.monotonic() - begin:.0f} s")


main()
