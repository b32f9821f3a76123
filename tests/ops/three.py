"""Three servers on loopback for the tests of this folder: begun, unsealed and joined, asked over HTTP, and ended by id."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_ports  # noqa: E402

WAIT_SECS = 120


def raft_config(data, api, peer, node="one", listener="", more=""):
    """The configuration of a server on loopback with storage "raft": its API at one port, its peers at another."""
    return f'''storage "raft" {{
  path    = "{data}"
  node_id = "{node}"
}}
listener "tcp" {{
  address         = "127.0.0.1:{api}"
  cluster_address = "127.0.0.1:{peer}"
  tls_disable     = true
  {listener}
}}
api_addr     = "http://127.0.0.1:{api}"
cluster_addr = "https://127.0.0.1:{peer}"
{more}
'''


class Cluster:
    def __init__(self, binary, work):
        self.binary, self.work, self.token = binary, work, None
        ports = free_ports(6)
        self.api, self.peer = ports[:3], ports[3:]
        self.servers = {}

    def start(self, at):
        folder = os.path.join(self.work, f"n{at}")
        os.makedirs(os.path.join(folder, "data"), exist_ok=True)
        config = os.path.join(folder, "server.hcl")
        with open(config, "w") as out:
            out.write(raft_config(f"{folder}/data", self.api[at], self.peer[at], node=f"n{at}"))
        log = open(os.path.join(folder, "log"), "a")
        self.servers[at] = subprocess.Popen([self.binary, "server", f"-config={config}"], stdout=log, stderr=log)

    def url(self, at):
        return f"http://127.0.0.1:{self.api[at]}/v1/"

    def call(self, path, method="GET", body=None, at=None, timeout=30):
        """The answer of the server `at`, or of the first that answers."""
        last = None
        for one in [at] if at is not None else list(self.servers):
            data = json.dumps(body).encode() if body is not None else None
            headers = {"X-Vault-Token": self.token} if self.token else {}
            asked = urllib.request.Request(self.url(one) + path, data=data, headers=headers, method=method)
            try:
                with urllib.request.urlopen(asked, timeout=timeout) as answer:
                    text = answer.read()
                    return json.loads(text) if text.startswith(b"{") else text.decode()
            except (urllib.error.URLError, OSError) as error:
                last = error
        raise last

    def until(self, what, ask, secs=WAIT_SECS):
        end, said = time.monotonic() + secs, None
        while time.monotonic() < end:
            try:
                said = ask()
                if said:
                    return said
            except (urllib.error.URLError, OSError, KeyError) as error:
                said = error
            time.sleep(0.3)
        raise AssertionError(f"{what}: not within {secs} s, last {said!r}")

    def begin_alone(self):
        self.start(0)
        self.until("the first server answers", lambda: self.call("sys/seal-status", at=0))
        made = self.call("sys/init", "POST", {"secret_shares": 1, "secret_threshold": 1}, at=0)
        self.token, self.share = made["root_token"], made["keys_base64"][0]
        self.call("sys/unseal", "POST", {"key": self.share}, at=0)
        self.until("the first server leads", lambda: self.call("sys/leader", at=0)["is_self"])

    def begin(self):
        self.begin_alone()
        for at in (1, 2):
            self.start(at)
            self.until(f"server {at} answers", lambda at=at: self.call("sys/seal-status", at=at))
            self.call("sys/storage/raft/join", "POST", {"leader_api_addr": f"http://127.0.0.1:{self.api[0]}"}, at=at)
            self.until(f"server {at} is unsealed", lambda at=at: self.unseal(at))
        voters = lambda: sum(one["voter"] for one in self.call("sys/storage/raft/configuration")["data"]["config"]["servers"]) == 3
        self.until("three servers have a vote", voters)

    def unseal(self, at):
        self.call("sys/unseal", "POST", {"key": self.share}, at=at, timeout=60)
        return not self.call("sys/seal-status", at=at)["sealed"]

    def leader(self):
        for at in self.servers:
            try:
                if self.call("sys/leader", at=at, timeout=3)["is_self"]:
                    return at
            except (urllib.error.URLError, OSError):
                continue
        return None

    def leads(self):
        """As `leader`, once somebody leads: a machine that stands still for a moment elects."""
        return self.until("somebody leads", lambda: (lambda at: None if at is None else [at])(self.leader()))[0]

    def metric(self, name, schedule):
        text = self.call("sys/metrics?format=prometheus", at=self.leads())
        found = re.search(rf'^{name}{{name="{schedule}"}} (\S+)$', text, re.M)
        return float(found.group(1)) if found else None

    def end(self):
        for server in self.servers.values():
            server.kill()
            server.wait()
