"""Servers of this repository as processes: one, or a cluster of three; killed by SIGKILL and started again on the same directory."""

import json
import signal
import urllib.error
import urllib.request

from far_ends.processes import check, free_port, is_listening, start, until


class Server:
    def __init__(self, binary, work, name):
        self.binary, self.work, self.name, self.port = binary, work, name, free_port()
        self.place = work / name
        self.place.mkdir()
        self.config = work / f"{name}.hcl"
        self.config.write_text(
            f'storage "raft" {{\n path = "{self.place}"\n node_id = "{name}"\n}}\n'
            f'listener "tcp" {{\n address = "127.0.0.1:{self.port}"\n cluster_address = "127.0.0.1:{free_port()}"\n tls_disable = true\n}}\n'
            f'api_addr = "http://127.0.0.1:{self.port}"\ndisable_mlock = true\n')
        self.process = None

    def run(self):
        for _ in range(20):
            self.process = start([self.binary, "server", f"-config={self.config}", "-log-level=warn"], self.work / f"{self.name}.log", cwd=self.work)
            if is_listening(self.port, self.process):
                return
        raise SystemExit(f"{self.name} does not listen: {(self.work / f'{self.name}.log').read_text()[-2000:]}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def wait(self):
        self.process.wait(30)

    def ask(self, method, path, body=None, token=None, timeout=60):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/{path}", data, method=method)
        if token:
            request.add_header("X-Vault-Token", token)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                code, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            code, text = error.code, error.read()
        return code, json.loads(text) if text else {}


class Cluster:
    """One server or several, and the key and the root token of them."""

    def __init__(self, binary, work, count):
        self.servers = [Server(binary, work, f"server-{number}") for number in range(count)]
        first = self.servers[0]
        first.run()
        keys = first.ask("POST", "sys/init", {"secret_shares": 1, "secret_threshold": 1})[1]
        self.key, self.token = keys["keys"][0], keys["root_token"]
        self.unseal(first)
        until("the first server leads", lambda: self.leader() is first)
        for server in self.servers[1:]:
            server.run()
            server.ask("POST", "sys/storage/raft/join", {"leader_api_addr": f"http://127.0.0.1:{first.port}"})
            self.unseal(server)
            until("a server follows", lambda: server.ask("GET", "sys/health?standbyok=true&perfstandbyok=true")[0] == 200)
        if count > 1:
            voters = lambda: [one["voter"] for one in self.ask("GET", "sys/storage/raft/configuration")[1]["data"]["config"]["servers"]]
            until("all vote", lambda: voters().count(True) == count)

    def unseal(self, server):
        server.ask("POST", "sys/unseal", {"key": self.key})

    def leader(self):
        for server in self.servers:
            try:
                if server.ask("GET", "sys/leader", timeout=5)[1].get("is_self"):
                    return server
            except (OSError, ValueError):
                continue
        return None

    def wait_for_leader(self):
        """The leader, once it serves."""
        found = []

        def serves():
            found[:] = [self.leader()]
            return found[0] and found[0].ask("GET", "sys/mounts", token=self.token, timeout=5)[0] == 200
        until("somebody leads", serves)
        return found[0]

    def follower(self, leader, number=0):
        others = [server for server in self.servers if server is not leader]
        return others[number % len(others)]

    def restart(self, server):
        """Starts one that was killed."""
        server.wait()
        server.run()
        self.unseal(server)
        ready = lambda: server.ask("GET", "sys/health?standbyok=true&perfstandbyok=true", timeout=5)[0] == 200
        until(f"{server.name} is back", ready)

    def ask(self, method, path, body=None, **more):
        """Asks whoever leads; what was not answered is asked again."""
        for _ in range(20):
            leader = self.wait_for_leader()
            try:
                return leader.ask(method, path, body, **{"token": self.token, **more})
            except (OSError, ValueError):
                continue
        raise SystemExit(f"{method} {path}: no answer")

    def done(self, method, path, body=None, **more):
        code, answer = self.ask(method, path, body, **more)
        if code not in (200, 204):
            raise SystemExit(f"{method} {path}: {code} {answer}")
        return answer

    def leases(self, prefix):
        """The ids of the leases below a path."""
        found = self.ask("GET", f"sys/leases/lookup/{prefix}?list=true")[1]
        return {f"{prefix}/{key}" for key in found.get("data", {}).get("keys", [])}

    def end(self):
        for server in self.servers:
            server.process.terminate()
        for server in self.servers:
            server.wait()
        check(True, "the servers end when they are told to")
