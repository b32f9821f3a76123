#!/usr/bin/env python3
"""The labels of pods: three servers, each of which is told that it is a pod, and a stand-in for the API server.

  service_registration.py KALLISTO

The stand-in speaks TLS, checks the token, applies merge patches as the API server does, counts what is under way for each pod, and refuses or hangs
where it is told to. What the labels say is followed through a failover by SIGKILL, one by SIGTERM, a token that is replaced, and an API server that
is broken meanwhile. Nothing but Python's library is needed.
"""

import base64
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_ports  # noqa: E402

BINARY = str(pathlib.Path(sys.argv[1]).resolve())
NAMES = [f"kallisto-{number}" for number in range(3)]
PLAIN = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    print("ok   ", what, flush=True)


def until(condition, what, secs=60):
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > secs:
            raise SystemExit(f"not within {secs} s: {what}\n{json.dumps(API.labels, indent=1)}")
        time.sleep(0.02)
    print(f"ok    {what} ({time.monotonic() - start:.1f} s)", flush=True)


class Api:
    """What the stand-in knows."""

    def __init__(self):
        self.lock = threading.Lock()
        self.labels = {name: {"app": "kallisto"} for name in NAMES}
        self.tokens = {"canary-of-the-first-token"}
        self.mode = "good"
        self.calls, self.refused = 0, 0
        self.under_way = dict.fromkeys(NAMES, 0)
        self.under_way_max = 0

    def active(self):
        return [name for name, labels in self.labels.items() if labels.get("vault-active") == "true"]


API = Api()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def begin(self, name):
        with API.lock:
            API.calls += 1
            API.under_way[name] += 1
        # A call that the client gave up is under way here until its thread has seen that, which the machine may delay.
        ends = time.monotonic() + 4
        while API.under_way[name] > 1 and time.monotonic() < ends:
            time.sleep(0.02)
        with API.lock:
            API.under_way_max = max(API.under_way_max, API.under_way[name])

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def fail(self, status, reason, message):
        API.refused += 1
        self.answer(status, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": status})

    def do_PATCH(self):
        name = self.path.removeprefix("/api/v1/namespaces/secrets/pods/")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if name not in NAMES:
            return self.fail(404, "NotFound", f'pods "{name}" not found')
        self.begin(name)
        try:
            if API.mode == "hang":
                # As long as the client stays: it gives up, and its end of the connection says so.
                self.connection.settimeout(60)
                try:
                    self.connection.recv(1)
                except OSError:
                    pass
                return None
            if API.mode == "fail":
                return self.fail(500, "InternalError", "etcdserver: request timed out")
            if self.headers["Authorization"].removeprefix("Bearer ") not in API.tokens:
                return self.fail(401, "Unauthorized", "Unauthorized")
            if self.headers["Content-Type"] != "application/merge-patch+json":
                return self.fail(415, "UnsupportedMediaType", self.headers["Content-Type"])
            patch = json.loads(body)
            if set(patch) != {"metadata"} or set(patch["metadata"]) != {"labels"}:
                return self.fail(403, "Forbidden", "only labels")
            with API.lock:
                API.labels[name] = {**API.labels[name], **patch["metadata"]["labels"]}
            return self.answer(200, {"kind": "Pod", "metadata": {"name": name, "labels": API.labels[name]}})
        finally:
            with API.lock:
                API.under_way[name] -= 1


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


class Kallisto:
    def __init__(self, work, name, ports, joins, api_port):
        self.work, self.name, self.port = work / name, name, ports[0]
        self.base = f"http://127.0.0.1:{ports[0]}"
        self.work.mkdir()
        (self.work / "data").mkdir()
        join = "".join(f'  retry_join {{ leader_api_addr = "{one}" }}\n' for one in joins)
        (self.work / "config.hcl").write_text(
            f'storage "raft" {{\n  path = "{self.work}/data"\n  node_id = "{name}"\n{join}}}\nlistener "tcp" {{\n  address = "127.0.0.1:{ports[0]}"\n  cluster_address = "127.0.0.1:{ports[1]}"\n  tls_disable = true\n}}\n'
            f'api_addr = "{self.base}"\ncluster_addr = "https://127.0.0.1:{ports[1]}"\nservice_registration "kubernetes" {{\n  namespace = "of-the-file"\n}}\n'
            f'seal "static" {{\n  current_key_id = "1"\n  current_key = "file://{work}/unseal"\n}}\n'
        )
        # A variable of the environment wins over the file, in any of the three spellings.
        self.env = {
            "PATH": os.environ["PATH"], "VAULT_K8S_NAMESPACE": "secrets", "BAO_K8S_POD_NAME": name, "KALLISTO_K8S_SERVICE_ACCOUNT_DIR": str(work / "account"),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api_port),
        }

    def start(self):
        with open(self.work / "log", "ab") as log:
            self.process = subprocess.Popen([BINARY, "server", f"-config={self.work}/config.hcl"], env=self.env, stdout=log, stderr=log)
        return self

    def end(self, number):
        self.process.send_signal(number)
        start = time.monotonic()
        self.process.wait(60)
        return time.monotonic() - start

    def log(self):
        return (self.work / "log").read_text()

    def ask(self, method, path, body=None, token=""):
        request = urllib.request.Request(f"{self.base}/v1/{path}", None if body is None else json.dumps(body).encode(), {"X-Vault-Token": token}, method=method)
        with PLAIN.open(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def answers(self):
        try:
            return self.ask("GET", "sys/health?standbyok=true")["sealed"] is False
        except OSError:
            return False


def write_token(work, token):
    # As the kubelet does: the file is replaced, never half.
    (work / "account/token.new").write_text(token)
    (work / "account/token.new").rename(work / "account/token")


def begin(work):
    (work / "account").mkdir()
    subprocess.run([BINARY, "operator", "make-certificate", f"-dir={work}/made"], check=True, capture_output=True)
    shutil.copy(work / "made/ca.pem", work / "account/ca.crt")
    write_token(work, "canary-of-the-first-token\n")
    (work / "unseal").write_bytes(base64.b64encode(os.urandom(32)))
    (work / "unseal").chmod(0o600)
    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "made/cert.pem", work / "made/key.pem")
    # The handshake is the thread's of the connection.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def leads(servers):
    """Who says so itself."""
    return [name for name, server in servers.items() if server.ask("GET", "sys/leader").get("is_self")]


def slowest_of_reads(server, token, secs):
    slowest, count, end = 0.0, 0, time.monotonic() + secs
    while time.monotonic() < end:
        start = time.monotonic()
        server.ask("GET", "kv/a", token=token)
        slowest, count = max(slowest, time.monotonic() - start), count + 1
    return slowest, count


def walk(work, servers):
    ports = free_ports(6)
    api_port = begin(work)
    bases = [f"http://127.0.0.1:{port}" for port in ports[:3]]
    for number, name in enumerate(NAMES):
        others = bases[:number] + bases[number + 1:]
        servers[name] = Kallisto(work, name, (ports[number], ports[number + 3]), others, api_port).start()
    first = servers[NAMES[0]]
    said = lambda name: {key.removeprefix("vault-"): value for key, value in API.labels[name].items() if key.startswith("vault-")}
    until(lambda: all(said(name).get("initialized") == "false" for name in NAMES), "three pods say that they are neither initialised nor unsealed")
    check(all(said(name)["sealed"] == "true" and said(name)["active"] == "false" for name in NAMES), "and nobody leads")
    made = first.ask("PUT", "sys/init", {"recovery_shares": 1, "recovery_threshold": 1})
    token = made["root_token"]
    until(lambda: all(said(name)["sealed"] == "false" and said(name)["initialized"] == "true" for name in NAMES), "all three say that they are unsealed")
    until(lambda: len(API.active()) == 1, "one leads")
    labels = API.labels[NAMES[0]]
    check(labels["app"] == "kallisto" and {key.replace("openbao", "vault"): value for key, value in labels.items() if key.startswith("openbao")} == {f"vault-{key}": value for key, value in said(NAMES[0]).items()}, "labels that were there stay, and OpenBao's names say the same")
    check(labels["vault-version"] and labels["vault-perf-standby"] == "false", f"the version is {labels['vault-version']}")
    first.ask("POST", "sys/mounts/kv", {"type": "kv"}, token)
    until(lambda: len(first.ask("GET", "sys/storage/raft/configuration", token=token)["data"]["config"]["servers"]) == 3, "three servers are members")
    until(lambda: all(one["voter"] for one in first.ask("GET", "sys/storage/raft/configuration", token=token)["data"]["config"]["servers"]), "and vote")

    dead = API.active()[0]
    first_calls = API.calls
    servers[dead].end(signal.SIGKILL)
    until(lambda: set(API.active()) - {dead}, "killed: another pod says that it leads")
    check(len(API.active()) == 2 and dead in API.active(), "who was killed says what it said: Kubernetes takes a pod that is gone out of the service")
    servers[dead].start()
    until(lambda: len(API.active()) == 1 and dead not in API.active() and said(dead)["sealed"] == "false", "it comes back as a standby, and says so")
    check(API.calls - first_calls <= 12, f"{API.calls - first_calls} calls for it")

    ended = API.active()[0]
    before = API.calls
    secs = servers[ended].end(signal.SIGTERM)
    check(said(ended) == {**said(ended), "active": "false", "sealed": "true", "initialized": "false"}, f"ended by SIGTERM in {secs:.1f} s: its pod says that it is none any more")
    until(lambda: len(API.active()) == 1 and ended not in API.active(), "another leads")
    servers[ended].start()
    until(lambda: said(ended)["sealed"] == "false", "it is back")
    time.sleep(1)
    check(API.calls - before <= 10, f"{API.calls - before} calls for it: nothing is told twice")

    API.tokens = {"canary-of-the-second-token"}
    write_token(work, "canary-of-the-second-token")
    leader = API.active()[0]
    servers[leader].ask("PUT", "sys/step-down", token=token)
    until(lambda: len(API.active()) == 1 and leader not in API.active(), "a token that was replaced is used from then on")

    leader = API.active()[0]
    API.mode = "fail"
    refused = API.refused
    servers[leader].ask("PUT", "sys/step-down", token=token)
    until(lambda: API.refused - refused >= 4, "an API server that fails is asked again")
    time.sleep(3)
    check(API.refused - refused <= 12, f"{API.refused - refused} times, with pauses between")
    API.mode = "good"
    until(lambda: len(API.active()) == 1 and leader not in API.active(), "and is told once it answers")

    leader = API.active()[0]
    other = servers[next(name for name in NAMES if name != leader)]
    other.ask("PUT", "kv/a", {"b": "c"}, token)
    quiet, _ = slowest_of_reads(other, token, 2)
    API.mode = "hang"
    servers[leader].ask("PUT", "sys/step-down", token=token)
    until(lambda: any(API.under_way.values()), "an API server that hangs is waited for")
    slowest, count = slowest_of_reads(other, token, 4)
    # Who waited for it would wait until it is given up, after five seconds.
    check(slowest < 2.5, f"and no request waits for it: of {count} reads the slowest took {slowest * 1000:.0f} ms, {quiet * 1000:.0f} ms before")
    secs = other.end(signal.SIGTERM)
    check(secs < 8, f"and neither does the end of a server: {secs:.1f} s")
    API.mode = "good"
    other.start()
    until(lambda: all(server.answers() for server in servers.values()), "all three are unsealed again")
    told = lambda: not any(API.under_way.values()) and API.active() == leads(servers) and all(said(name)["sealed"] == "false" for name in NAMES)
    until(told, "all is told once it answers", secs=90)
    check(API.under_way_max == 1, "never more than one call of a pod was under way")
    logs = "".join(server.log() for server in servers.values())
    check("canary" not in logs, "no token is in a log")
    check("are not told; trying again" in logs, "what failed is in the log")
    for name in NAMES:
        servers[name].end(signal.SIGTERM)
    check(all(said(name)["sealed"] == "true" for name in NAMES) and not API.active(), "all ended: nobody leads")


folder = pathlib.Path(tempfile.mkdtemp(prefix="kallisto-labels-"))
running = {}
try:
    walk(folder, running)
except BaseException:
    for one in running.values():
        print(f"--- {one.name}\n{one.log()[-3000:]}")
    raise
finally:
    for one in running.values():
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
    shutil.rmtree(folder, ignore_errors=True)
