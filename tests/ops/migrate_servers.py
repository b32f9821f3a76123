"""Servers for the tests of `kallisto migrate`, what is asked of them, and how many checks were good.

`run` is given the two binaries by the script that is called.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from three import free_ports, raft_config

KALLISTO, BAO = (os.path.abspath(path) for path in sys.argv[1:3])
checks = failures = 0
processes = []
work = tempfile.mkdtemp(prefix="kallisto-migrate-")


def check(good, what, more=""):
    global checks, failures
    checks += 1
    failures += not good
    print("ok   " if good else "FAIL ", what, "" if good else more, flush=True)


class Server:
    """A server and a token for it."""

    def __init__(self, address, token=None):
        self.address, self.token, self.shares = address, token, []

    def ask(self, method, path, body=None, token=None):
        request = urllib.request.Request(f"{self.address}/v1/{path}", method=method)
        request.add_header("X-Vault-Token", token or self.token or "")
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=60) as reply:
                text, status = reply.read(), reply.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text.strip() else {}

    def good(self, method, path, body=None, token=None):
        status, answer = self.ask(method, path, body, token)
        if status >= 300:
            raise SystemExit(f"{method} {self.address} {path}: {status} {answer}")
        return answer

    def upgraded(self, mount):
        """Waits until a new mount of version 2 takes requests: a real server has it do so a moment later."""
        for _ in range(300):
            status, answer = self.ask("GET", f"{mount}/config")
            if status == 200:
                return
            time.sleep(0.2)
        raise SystemExit(f"{self.address} {mount}: {status} {answer}")

    def wait(self):
        for _ in range(300):
            try:
                return self.ask("GET", "sys/seal-status")
            except OSError:
                time.sleep(0.2)
        raise SystemExit(f"{self.address} does not answer")


def start(*arguments, name):
    with open(f"{work}/{name}.log", "ab") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, env={"PATH": os.environ["PATH"], "HOME": work})
    processes.append(process)
    return process


def start_bao(shares=1, threshold=1, name="bao"):
    api, peer = free_ports(2)
    os.makedirs(f"{work}/{name}")
    with open(f"{work}/{name}.hcl", "w", encoding="utf-8") as config:
        config.write(raft_config(f"{work}/{name}", api, peer, more="disable_mlock = true\nraw_storage_endpoint = true"))
    start(BAO, "server", f"-config={work}/{name}.hcl", name=name)
    server = Server(f"http://127.0.0.1:{api}")
    server.wait()
    keys = server.good("PUT", "sys/init", {"secret_shares": shares, "secret_threshold": threshold})
    for key in keys["keys"][:threshold]:
        server.good("PUT", "sys/unseal", {"key": key})
    server.token, server.shares = keys["root_token"], keys["keys"]
    for _ in range(600):
        if server.ask("GET", "sys/mounts")[0] == 200 and server.ask("GET", "sys/leader")[1].get("is_self"):
            return server
        time.sleep(0.1)
    raise SystemExit("bao does not lead")


def start_kallisto(name):
    (api,) = free_ports(1)
    start(KALLISTO, "server", "-dev", "-dev-root-token-id=root", "-dev-no-store-token", f"-dev-listen-address=127.0.0.1:{api}", name=name)
    server = Server(f"http://127.0.0.1:{api}", "root")
    server.wait()
    return server


def fill_app(server):
    """Mounts of both versions, and a secret of twelve versions, the third deleted and the fifth destroyed."""
    mount = {"type": "kv", "options": {"version": "2"}, "description": "of teams", "config": {"max_lease_ttl": "72h", "listing_visibility": "unauth"}}
    server.good("POST", "sys/mounts/secret", mount)
    server.good("POST", "sys/mounts/one", {"type": "kv"})
    server.upgraded("secret")
    server.good("POST", "secret/config", {"max_versions": 15, "delete_version_after": "720h"})
    server.good("POST", "secret/metadata/app", {"custom_metadata": {"owner": "ada"}, "max_versions": 20})
    for number in range(1, 13):
        server.good("POST", "secret/data/app", {"data": {"n": number, "text": "ü\n\"'"}})
    server.good("POST", "secret/delete/app", {"versions": [3]})
    server.good("POST", "secret/destroy/app", {"versions": [5]})
    server.good("POST", "secret/data/gone", {"data": {"x": 1}})
    server.good("DELETE", "secret/data/gone")
    server.good("POST", "secret/metadata/empty", {"custom_metadata": {"only": "metadata"}})
    server.good("POST", "one/a/b", {"ttl": "1h", "number": 1.50})


def environment(source, target, token=None):
    return {
        "PATH": os.environ["PATH"], "HOME": work, "NO_COLOR": "1", "VAULT_ADDR": target.address, "VAULT_TOKEN": target.token,
        "VAULT_SOURCE_ADDR": source.address, "VAULT_SOURCE_TOKEN": token or source.token,
    }


def migrate(source, target, *flags, token=None):
    return migrate_in(environment(source, target, token), *flags)


def migrate_in(variables, *flags):
    done = subprocess.run(
        [KALLISTO, "migrate", "-format=json", *flags], env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {"counts": {}, "not_moved": [], "differing": [], "notes": []}
    return done.returncode, report, done.stderr


def run(main):
    """Runs a test, ends the servers that it began, and the process by what came of it."""
    try:
        main()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
    print(f"{checks} checks, {failures} failed")
    sys.exit(1 if failures or not checks else 0)
