#!/usr/bin/env python3
"""How much PKI does per second of the server's processor, beside OpenBao in the same run; and what many certificates change.

    python3 bench/pki/measure.py KALLISTO BAO [--rounds N] [--seconds S] [--revoked N] [--stored N] [--floor PROGRAM]

Rates: both are dev servers (in memory, plain HTTP, no audit device), asked in turns over 32 connections that stay open, on each of which
a request is sent when the one before was answered; reads are sent 16 deep. A rate is requests over the processor seconds of the server
(user and system, of the whole process), so neither the client nor other programs of the machine are in it. Every answer is looked at.

`--floor` is the program of bench/pki/floor, built: what does nothing but the unavoidable part of the same requests, asked in the same turns.

RSA: a server whose mount has the 1,000 keys ready that it made ahead after an hour's demand, which is made first, is asked for 1,000
certificates at once.

Scale: a durable server of Kallisto, fsync before each answer. The latency of a revocation with 1,000 revoked and with as many as
`--revoked`, one at a time; its list; its start with and without `--stored` certificates. `--stored 0` leaves all of it out. What a tidy
and many issuers change is measured by scale.py.

Prints tables in Markdown. Ends what it started, by id.
"""

import argparse
import base64
import http.client
import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HOST, TOKEN = "127.0.0.1", "root"
THREADS, CONNECTIONS, DEPTH = 4, 8, 16
TICKS = os.sysconf("SC_CLK_TCK")
POOL, POOL_SECS_MAX = 1_000, 900
REVOCATIONS = 2_000
READY_SECS_MAX = 120


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Wire:
    """A connection on which requests are sent as bytes, many deep."""

    def __init__(self, port):
        self.socket = socket.create_connection((HOST, port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, requests):
        self.socket.sendall(b"".join(requests))

    def take(self):
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            self.more()
        head = self.rest[:end].lower()
        if b"transfer-encoding: chunked" in head:
            return int(head[9:12]), self.chunks(end + 4)
        at = head.find(b"content-length: ")
        length = int(head[at + 16:].split(b"\r\n", 1)[0]) if at >= 0 else 0
        while len(self.rest) < end + 4 + length:
            self.more()
        body, self.rest = self.rest[end + 4:end + 4 + length], self.rest[end + 4 + length:]
        return int(head[9:12]), body

    def chunks(self, at):
        body = b""
        while True:
            while (end := self.rest.find(b"\r\n", at)) < 0:
                self.more()
            length = int(self.rest[at:end], 16)
            while len(self.rest) < end + 4 + length:
                self.more()
            body += self.rest[end + 2:end + 2 + length]
            at = end + 4 + length
            if length == 0:
                self.rest = self.rest[at:]
                return body

    def more(self):
        part = self.socket.recv(1 << 18)
        assert part, "the server hung up"
        self.rest += part


def request(method, path, body=None, token=TOKEN):
    body = b"" if body is None else json.dumps(body).encode()
    return (f"{method} /v1/{path} HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {token}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


class Server:
    def __init__(self, name, command, port, env=None):
        self.name, self.port, self.token, self.command = name, port, TOKEN, command
        self.env = {**os.environ, "HOME": tempfile.mkdtemp(), **(env or {})}
        self.start()

    @staticmethod
    def dev(name, binary):
        port = free_port()
        options = ["server", "-dev", f"-dev-root-token-id={TOKEN}", f"-dev-listen-address={HOST}:{port}", "-dev-no-store-token"]
        server = Server(name, [binary, *options], port)
        server.until(200)
        return server

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)

    def stop(self):
        self.process.terminate()
        self.process.wait(120)

    def until(self, *codes):
        ends = time.monotonic() + READY_SECS_MAX
        while time.monotonic() < ends:
            try:
                if self.ask("GET", "sys/health")[0] in codes:
                    return
            except OSError:
                pass
            time.sleep(0.005)
        raise AssertionError(f"{self.name} does not start")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(HOST, self.port, timeout=120)
        connection.request(method, f"/v1/{path}", body=body and json.dumps(body), headers={"X-Vault-Token": self.token})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def make(self, path, body):
        status, answer = self.ask("POST", path, body)
        assert status in (200, 202, 204), (self.name, path, answer)
        return json.loads(answer) if answer else None

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def mount(self):
        """A mount with a root of ECDSA, roles, and one certificate that is revoked; what OCSP and sign are asked with."""
        self.make("sys/mounts/pki", {"type": "pki", "config": {"max_lease_ttl": "87600h"}})
        root = self.make("pki/root/generate/internal", {"common_name": "Root", "key_type": "ec", "ttl": "8760h"})["data"]
        for name, key_type, bits in [("ec", "ec", 256), ("ed25519", "ed25519", 0), ("rsa", "rsa", 2048)]:
            self.make(f"pki/roles/{name}", {"allow_any_name": True, "key_type": key_type, "key_bits": bits, "ttl": "720h"})
        leaf = self.make("pki/issue/ec", {"common_name": "revoked.example.com"})["data"]
        self.make("pki/revoke", {"serial_number": leaf["serial_number"]})
        leaf = self.make("pki/issue/ec", {"common_name": "good.example.com"})["data"]
        folder = tempfile.mkdtemp()
        for name, text in [("root", root["certificate"]), ("leaf", leaf["certificate"])]:
            with open(f"{folder}/{name}.pem", "w") as file:
                file.write(text)
        run = lambda *words: subprocess.run(words, check=True, capture_output=True, cwd=folder)
        run("openssl", "ocsp", "-issuer", "root.pem", "-cert", "leaf.pem", "-no_nonce", "-reqout", "ocsp.der")
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-subj",
            "/CN=a.example.com", "-addext", "subjectAltName=DNS:a.example.com", "-out", "csr.pem")
        with open(f"{folder}/ocsp.der", "rb") as file:
            self.ocsp = base64.b64encode(file.read()).decode().replace("/", "%2F").replace("+", "%2B")
        with open(f"{folder}/csr.pem") as file:
            self.csr = file.read()

    def rate(self, asked, depth, seconds, good):
        """Requests per second of the server's processor, and their number."""
        counts = [0] * THREADS
        ends = time.monotonic() + seconds

        def send(number):
            wires = [Wire(self.port) for _ in range(CONNECTIONS)]
            while time.monotonic() < ends:
                for wire in wires:
                    wire.send([asked] * depth)
                for wire in wires:
                    for _ in range(depth):
                        code, body = wire.take()
                        assert code == 200 and good in body, (self.name, code, body[:300])
                counts[number] += depth * CONNECTIONS

        before = self.processor_seconds()
        together(send, THREADS)
        used = self.processor_seconds() - before
        assert sum(counts) > 0 and used > 0, (self.name, counts)
        return sum(counts) / used


class Floor(Server):
    """The program that does the unavoidable part of each request."""

    def __init__(self, binary):
        port = free_port()
        super().__init__("Floor", [binary, str(port)], port)
        self.ocsp = self.csr = "-" * 400
        ends = time.monotonic() + READY_SECS_MAX
        while time.monotonic() < ends:
            try:
                socket.create_connection((HOST, port)).close()
                return
            except OSError:
                time.sleep(0.005)
        raise AssertionError("the floor does not start")


def together(work, count):
    failed = []

    def one(number):
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if failed:
        raise failed[0]


def rates(kallisto, bao, floor, rounds, seconds):
    servers = []
    try:
        for name, binary in [("Kallisto", kallisto), ("OpenBao", bao)]:
            servers.append(Server.dev(name, binary))
            servers[-1].mount()
            servers[-1].make("secret/data/k", {"data": {"value": "v" * 128}})
        if floor:
            servers.append(Floor(floor))
        rows = [
            ("issue, EC P-256", 1, lambda server: request("POST", "pki/issue/ec", {"common_name": "a.example.com"}), b"PRIVATE KEY"),
            ("issue, Ed25519", 1, lambda server: request("POST", "pki/issue/ed25519", {"common_name": "a.example.com"}), b"PRIVATE KEY"),
            ("sign a CSR of EC P-256", 1, lambda server: request("POST", "pki/sign/ec", {"csr": server.csr, "common_name": "a.example.com"}), b"BEGIN CERTIFICATE"),
            ("read a KV secret", DEPTH, lambda server: request("GET", "secret/data/k"), b"vvvv"),
            ("read the revocation list", DEPTH, lambda server: request("GET", "pki/crl"), b"Root"),
            ("OCSP by GET", DEPTH, lambda server: request("GET", f"pki/ocsp/{server.ocsp}"), b"\x30"),
        ]
        found = {}
        for turn in range(rounds):
            for name, depth, of, good in rows:
                for server in servers:
                    found.setdefault((name, server.name), []).append(server.rate(of(server), depth, seconds, good))
            say(f"round {turn + 1} of {rounds}")
    finally:
        for server in servers:
            server.stop()
    heads = ["per second of the server's processor", "Kallisto", "OpenBao", "times"] + ["the unavoidable part alone", "times OpenBao"] * bool(floor)
    print(f"| {' | '.join(heads)} |\n|---|{'---:|' * (len(heads) - 1)}")
    for name, _, _, _ in rows:
        told = []
        for server in ("Kallisto", "OpenBao"):
            all_rates = found[name, server]
            told.append((statistics.median(all_rates), f"{min(all_rates):,.0f} to {max(all_rates):,.0f}"))
        (ours, our_range), (theirs, their_range) = told
        cells = [name, f"{ours:,.0f} ({our_range})", f"{theirs:,.0f} ({their_range})", f"{ours / theirs:.1f}"]
        if floor:
            least = statistics.median(found[name, "Floor"])
            cells += [f"{least:,.0f}", f"{least / theirs:.1f}"]
        print(f"| {' | '.join(cells)} |")
    print(flush=True)


def burst(server, count):
    """So many certificates of RSA-2048 at once: seconds on the clock, and of the server's processor."""
    asked = request("POST", "pki/issue/rsa", {"common_name": "a.example.com"})
    connections = 16
    serials = set()

    def send(number):
        wire = Wire(server.port)
        for _ in range(count // connections + (number < count % connections)):
            wire.send([asked])
            code, body = wire.take()
            assert code == 200, body
            serials.add(json.loads(body)["data"]["certificate"])

    before, began = server.processor_seconds(), time.monotonic()
    together(send, connections)
    taken, used = time.monotonic() - began, server.processor_seconds() - before
    assert len(serials) == count
    return taken, used


class Pool:
    """A server that makes RSA keys ahead while something else is measured."""

    def __init__(self, binary):
        self.server = Server.dev("Kallisto", binary)
        self.server.mount()
        self.first = burst(self.server, POOL)
        say(f"{POOL:,} keys of RSA without any ready: {self.first[0]:.0f} s")
        self.began = time.monotonic()

    def finish(self, bao):
        server = self.server
        try:
            while True:
                before = server.processor_seconds()
                time.sleep(5)
                if server.processor_seconds() - before < 0.1:
                    break
                assert time.monotonic() - self.began < POOL_SECS_MAX, "the keys are never ready"
            say(f"keys are ready {time.monotonic() - self.began:.0f} s later")
            ready = burst(server, POOL)
        finally:
            server.stop()
        theirs = Server.dev("OpenBao", bao)
        try:
            theirs.mount()
            count = POOL // 10
            others = burst(theirs, count)
        finally:
            theirs.stop()
        print("| certificates of RSA-2048 | per second | per second of the server's processor |\n|---|---:|---:|")
        for name, number, (taken, used) in [(f"Kallisto, {POOL:,} at once, keys ready", POOL, ready),
                                            (f"Kallisto, {POOL:,} at once, none ready", POOL, self.first), (f"OpenBao, {count} at once", count, others)]:
            print(f"| {name} | {number / taken:,.0f} | {number / used:,.0f} |")
        print(flush=True)


class Durable(Server):
    def __init__(self, binary):
        self.folder = tempfile.mkdtemp()
        port = free_port()
        with open(f"{self.folder}/c.hcl", "w") as file:
            file.write(f"""storage "raft" {{
  path = "{self.folder}/data"
  node_id = "a"
}}
listener "tcp" {{
  address = "{HOST}:{port}"
  cluster_address = "{HOST}:{free_port()}"
  tls_disable = true
}}
api_addr = "http://{HOST}:{port}"
""")
        os.mkdir(f"{self.folder}/data")
        super().__init__("Kallisto", [binary, "server", f"-config={self.folder}/c.hcl", "-log-level=warn"], port)
        self.until(501)
        keys = json.loads(self.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})[1])
        self.key, self.token = keys["keys"][0], keys["root_token"]
        self.unseal()

    def unseal(self):
        self.ask("PUT", "sys/unseal", {"key": self.key})
        self.until(200)

    def restart(self):
        """Seconds from the start of the process until it answers, and until it serves."""
        self.stop()
        began = time.monotonic()
        self.start()
        self.until(503)
        sealed = time.monotonic() - began
        self.unseal()
        return sealed, time.monotonic() - began

    def sign(self, count, role):
        """Signs as many, and says their serial numbers."""
        asked = request("POST", f"pki/sign/{role}", {"csr": self.csr, "common_name": "a.example.com", "format": "der"}, self.token)
        number = re.compile(rb'"serial_number":"([0-9a-f:]+)"')
        serials = []

        def send(at):
            wire = Wire(self.port)
            mine = []
            left = count // DEPTH + (at < count % DEPTH)
            while left:
                deep = min(left, DEPTH)
                wire.send([asked] * deep)
                for _ in range(deep):
                    code, body = wire.take()
                    assert code == 200, body
                    mine.append(number.search(body)[1].decode())
                left -= deep
            serials.extend(mine)

        together(send, DEPTH)
        assert len(set(serials)) == count
        return serials

    def revoke(self, serials):
        def send(at):
            wire = Wire(self.port)
            mine = serials[at::DEPTH]
            for first in range(0, len(mine), DEPTH):
                some = mine[first:first + DEPTH]
                wire.send([request("POST", "pki/revoke", {"serial_number": serial}, self.token) for serial in some])
                for _ in some:
                    code, body = wire.take()
                    assert code == 200, body

        together(send, DEPTH)

    def latencies(self, serials):
        """Of revocations one at a time, in milliseconds, sorted."""
        wire, all_ms = Wire(self.port), []
        for serial in serials:
            asked = request("POST", "pki/revoke", {"serial_number": serial}, self.token)
            began = time.perf_counter()
            wire.send([asked])
            code, body = wire.take()
            all_ms.append((time.perf_counter() - began) * 1e3)
            assert code == 200, body
        return sorted(all_ms)


def quantile(sorted_ms, share):
    return sorted_ms[min(len(sorted_ms) - 1, math.ceil(share * len(sorted_ms)) - 1)]


def scale(binary, revoked, stored):
    server = Durable(binary)
    try:
        server.mount()
        empty = server.restart()
        rows = []
        done, made = 1, 0
        for size in (1_000, 10_000, 100_000, revoked):
            if size > revoked or size <= done:
                continue
            more = size - done
            server.revoke(server.sign(more, "ec"))
            made += more + REVOCATIONS
            found = server.latencies(server.sign(REVOCATIONS, "ec"))
            done = size + REVOCATIONS
            began = time.monotonic()
            code, der = server.ask("GET", "pki/crl")
            listed = time.monotonic() - began
            rows.append((size, quantile(found, 0.5), quantile(found, 0.99), listed, len(der)))
            say(f"{size:,} revoked: p50 {rows[-1][1]:.2f} ms, p99 {rows[-1][2]:.2f} ms")
        print("| revoked before | p50, ms | p99, ms | list served after, s | its size, MB |\n|---|---:|---:|---:|---:|")
        for size, median, slow, listed, length in rows:
            print(f"| {size:,} | {median:.2f} | {slow:.2f} | {listed:.2f} | {length / 1e6:.2f} |")
        print(f"\np99 with {rows[-1][0]:,} beside {rows[0][0]:,}: {rows[-1][2] / rows[0][2]:.2f} times\n", flush=True)
        with_revoked = server.restart()
        began = time.monotonic()
        server.ask("GET", "pki/crl")
        say(f"after a start the list is served in {time.monotonic() - began:.2f} s")
        server.sign(max(0, stored - made), "ec")
        say(f"{stored:,} are stored")
        full = server.restart()
        print("| start with | until it answers, s | until it serves, s |\n|---|---:|---:|")
        for name, (answers, serves) in [("3 certificates", empty), (f"{made:,} certificates, all revoked", with_revoked), (f"{stored:,} certificates", full)]:
            print(f"| {name} | {answers:.2f} | {serves:.2f} |")
        print(flush=True)
    finally:
        server.process.kill()
        server.process.wait()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("kallisto")
    arguments.add_argument("bao")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--revoked", type=int, default=500_000)
    arguments.add_argument("--stored", type=int, default=1_000_000)
    arguments.add_argument("--no-rates", action="store_true")
    arguments.add_argument("--no-rsa", action="store_true")
    arguments.add_argument("--floor")
    given = arguments.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {given.rounds} rounds of {given.seconds:g} s\n", flush=True)
    if not given.no_rates:
        rates(given.kallisto, given.bao, given.floor, given.rounds, given.seconds)
    pool = None if given.no_rsa else Pool(given.kallisto)
    try:
        if given.stored:
            scale(given.kallisto, given.revoked, given.stored)
    finally:
        if pool:
            pool.finish(given.bao)


if __name__ == "__main__":
    main()
