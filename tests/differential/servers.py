"""The two servers: a real `bao server -dev` and a `kallisto server -dev`, on free loopback ports.

Each is a process of this program's own, started with nothing of the caller's environment, in a
directory of its own, and ended by its id.
"""

import contextlib
import http.client
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

ROOT = "root"
START_SECONDS = 30
REQUEST_SECONDS = 30

# What OpenBao does only when it is told to: audit devices by request, and shares without a token.
BAO_CONFIG = """
unsafe_allow_api_audit_creation = true
listener "tcp" {{
  address = "127.0.0.1:{port}"
  tls_disable = true
  disable_unauthed_rekey_endpoints = false
  disable_unauthed_generate_root_endpoints = false
}}
"""


class Answer:
    """Status, headers by lower-case name, and body of one answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body


class Server:
    """One running server and one connection to it."""

    def __init__(self, name, process, port, log):
        self.name = name
        self.process = process
        self.port = port
        self.log = log
        self.connection = None
        self.captured = {}

    def ask(self, method, path, headers, body):
        """Sends one request; a connection that the server closed meanwhile is opened once more."""
        for last in (False, True):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(
                    "127.0.0.1", self.port, timeout=REQUEST_SECONDS
                )
            try:
                self.connection.request(method, path, body=body, headers=headers)
                reply = self.connection.getresponse()
                found = {name.lower(): value for name, value in reply.getheaders()}
                answer = Answer(reply.status, found, reply.read())
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.connection = None
                if last:
                    # No answer is an answer that can be compared.
                    return Answer(0, {}, b"")
                continue
            if reply.will_close:
                self.connection = None
            return answer

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(name, command, port, folder):
    """Starts `command` in `folder` and waits until it is unsealed."""
    log = folder / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"HOME": str(folder), "PATH": os.environ.get("PATH", "")},
        )
    server = Server(name, process, port, log)
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            mounts = server.ask("GET", "/v1/secret/config", {"X-Vault-Token": ROOT}, None)
            key = re.search(r"^Unseal Key: (\S+)", log.read_text(errors="replace"), re.M)
            if mounts.status == 200 and key:
                server.captured["unseal-key"] = key.group(1)
                return server
        server.connection = None
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise SystemExit(f"{name} did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.02)


def on_storage(folder):
    """What has our server keep its records in the database of KALLISTO_STORAGE_URL, in tables of its own."""
    url = os.environ.get("KALLISTO_STORAGE_URL")
    if not url:
        return []
    table = "differ_" + "".join(c if c.isalnum() else "_" for c in folder.parent.name)[:30]
    config = folder / "storage.hcl"
    config.write_text(
        f'storage "postgresql" {{\n  connection_url = "{url}"\n  table = "{table}"\n'
        f'  ha_table = "{table}_servers"\n  ha_enabled = "false"\n}}\n'
    )
    return [f"-config={config}"]


def is_of_storage(label, place):
    """Whether a difference is that our records are in a database: its name, and the routes of snapshots and members, which work there."""
    if not os.environ.get("KALLISTO_STORAGE_URL"):
        return False
    return place == "/storage_type" or "sys/storage/raft/" in label


@contextlib.contextmanager
def pair(bao, kallisto, folder):
    """Both servers, for as long as the block runs: first theirs, then ours."""
    folders = [pathlib.Path(folder) / name for name in ("bao", "kallisto")]
    for each in folders:
        each.mkdir(parents=True)
    port, other, own = free_port(), free_port(), free_port()
    config = folders[0] / "config.hcl"
    config.write_text(BAO_CONFIG.format(port=port))
    dev = ["server", "-dev", f"-dev-root-token-id={ROOT}", "-dev-no-store-token"]
    theirs = start(
        "bao",
        [bao, *dev, f"-dev-listen-address=127.0.0.1:{other}", f"-config={config}"],
        port,
        folders[0],
    )
    try:
        ours = start(
            "kallisto",
            [kallisto, *dev, f"-dev-listen-address=127.0.0.1:{own}", *on_storage(folders[1])],
            own,
            folders[1],
        )
    except BaseException:
        theirs.end()
        raise
    try:
        for server, place in zip((theirs, ours), folders):
            server.captured["folder"] = str(place)
        yield theirs, ours
    finally:
        theirs.end()
        ours.end()
