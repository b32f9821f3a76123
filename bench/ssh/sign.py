#!/usr/bin/env python3
"""How many keys a server signs per second of its processor, beside OpenBao in the same run.

    python3 bench/ssh/sign.py KALLISTO BAO [--rounds N] [--seconds S]

Both are dev servers: in memory, plain HTTP, no audit device. For each type of CA the same Ed25519 key of a user is signed again and
again over four connections that stay open, by both servers in turns. A rate is requests over the processor seconds of the server
(user and system, of the whole process), so neither the client nor other programs of the machine are in it. Every answer is looked
at; the last certificate of each is read by `ssh-keygen -L`. Prints medians of the rounds as a table in Markdown, and of each the
lowest and the highest.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time

HOST, TOKEN = "127.0.0.1", "root"
CONNECTIONS = 4
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKX3+zrQ9GRJOkjabqqcJjz3W1mXU73mSewfLIzdzAcU u@h"
CAS = [("ed25519", 0), ("ec", 256), ("ec", 384), ("rsa", 2048), ("rsa", 4096)]
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, name, binary):
        self.name, self.port = name, free_port()
        options = ["server", "-dev", f"-dev-root-token-id={TOKEN}", f"-dev-listen-address={HOST}:{self.port}", "-dev-no-store-token"]
        self.process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "HOME": tempfile.mkdtemp()})
        for _ in range(500):
            try:
                if self.ask("GET", "sys/health")[0] == 200:
                    break
            except OSError:
                time.sleep(0.02)
        for at, (key_type, bits) in enumerate(CAS):
            self.make(f"sys/mounts/ssh{at}", {"type": "ssh"})
            self.make(f"ssh{at}/config/ca", {"key_type": key_type, "key_bits": bits})
            self.make(f"ssh{at}/roles/r", {"key_type": "ca", "allow_user_certificates": True, "allowed_users": "*", "default_user": "x",
                                           "default_extensions": {"permit-pty": ""}, "ttl": "30m"})

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        connection.request(method, f"/v1/{path}", body=body and json.dumps(body), headers={"X-Vault-Token": TOKEN})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def make(self, path, body):
        status, answer = self.ask("POST", path, body)
        assert status in (200, 204), (self.name, path, answer)

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def sign(self, at, seconds):
        """Signs for a while: requests per second of the server's processor, and the last answer."""
        body = json.dumps({"public_key": KEY}).encode()
        counts, last = [0] * CONNECTIONS, [b""] * CONNECTIONS
        ends = time.monotonic() + seconds

        def send(number):
            connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
            while time.monotonic() < ends:
                connection.request("POST", f"/v1/ssh{at}/sign/r", body=body, headers={"X-Vault-Token": TOKEN})
                answer = connection.getresponse()
                last[number] = answer.read()
                assert answer.status == 200, last[number]
                counts[number] += 1

        before = self.processor_seconds()
        threads = [threading.Thread(target=send, args=(number,)) for number in range(CONNECTIONS)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        used = self.processor_seconds() - before
        assert sum(counts) > 0 and used > 0, (self.name, counts)
        with tempfile.NamedTemporaryFile("w", suffix="-cert.pub") as file:
            file.write(json.loads(last[0])["data"]["signed_key"])
            file.flush()
            subprocess.run(["ssh-keygen", "-L", "-f", file.name], check=True, stdout=subprocess.DEVNULL)
        return sum(counts) / used


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("kallisto")
    arguments.add_argument("bao")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2)
    given = arguments.parse_args()
    servers = []
    try:
        servers = [Server("Kallisto", given.kallisto)]
        servers.append(Server("OpenBao", given.bao))
        rates = {}
        for _ in range(given.rounds):
            for at in range(len(CAS)):
                for server in servers:
                    rates.setdefault((at, server.name), []).append(server.sign(at, given.seconds))
    finally:
        for server in servers:
            server.process.terminate()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {given.rounds} rounds of {given.seconds:g} s\n")
    print("| CA | Kallisto, signatures per processor second | OpenBao | times |\n|---|---|---|---|")
    for at, (key_type, bits) in enumerate(CAS):
        told = []
        for server in servers:
            all_rates = rates[at, server.name]
            told.append((statistics.median(all_rates), f"{min(all_rates):,.0f} to {max(all_rates):,.0f}"))
        (ours, our_range), (theirs, their_range) = told
        name = f"{key_type} {bits}" if bits else key_type
        print(f"| {name} | {ours:,.0f} ({our_range}) | {theirs:,.0f} ({their_range}) | {ours / theirs:.1f} |")


if __name__ == "__main__":
    main()
