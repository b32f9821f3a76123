"""Holds that a far end that hangs delays no read of a secret: one of each kind hangs for a while, and the p99 of reads stays within 1.2 times of what it is without.

  far_end_hangs.py KALLISTO_BINARY

A far end that hangs takes connections and says nothing; a PostgreSQL, where there is one, also stops (SIGSTOP) with open sessions. 32 clients ask for credentials or log in meanwhile. The time of reads is taken in windows by a
process of its own, calm ones before and after those in which the far end hangs; in calm ones as many clients ask for what is refused at once. Compared are the medians of the windows' p99, best of five where the machine is busy.

FAR_END_HANG_SECS is how long each hangs, 6 when nobody says. FAR_END_KINDS names those that are tried.
"""

import concurrent.futures
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

from far_ends.postgresql import ROOT, ROOT_PASSWORD, Postgres
from far_ends.processes import check, end_all, find_tool, make_folder, ok
from far_ends.servers import Cluster

BINARY = os.path.realpath(sys.argv[1]) if len(sys.argv) > 1 else ""
HANG_SECS = float(os.environ.get("FAR_END_HANG_SECS", "6"))
WINDOW_SECS = 1.0
CLIENTS, PAUSE_SECS = 32, 0.25
RATIO_MAX, TRIES = 1.2, 10
CREATE = "CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}'"


def read_for(port, token, secs):
    """Reads a secret over one connection; the p99 of each window, in milliseconds."""
    wire = socket.create_connection(("127.0.0.1", port))
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = f"GET /v1/secret/data/hang HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {token}\r\n\r\n".encode()
    ends = time.perf_counter() + secs
    while time.perf_counter() < ends:
        times, window = [], time.perf_counter() + WINDOW_SECS
        while time.perf_counter() < window:
            begun = time.perf_counter()
            wire.sendall(request)
            answer = wire.recv(1 << 16)
            times.append(time.perf_counter() - begun)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"not a secret: {answer[:200]}")
        times.sort()
        print(f"{times[len(times) * 99 // 100] * 1000:.4f}", flush=True)


class Hole:
    """Takes connections and says nothing."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.taken = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self):
        self.listener.close()
        for one in self.taken:
            one.close()


class Walk:
    def __init__(self, cluster):
        self.cluster, self.server, self.token = cluster, cluster.servers[0], cluster.token

    def ask(self, request):
        method, path, body = request
        try:
            return self.server.ask(method, path, body, token=self.token, timeout=120)[0]
        except OSError as error:
            return str(error)

    def windows(self, request, secs):
        """The p99 of reads while clients ask for something, and the codes that they get."""
        over, codes = threading.Event(), []

        def client():
            while not over.is_set():
                codes.append(self.ask(request))
                over.wait(PAUSE_SECS)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(client) for _ in range(CLIENTS)]
            time.sleep(0.5)
            reader = subprocess.run([sys.executable, __file__, "--read", str(self.server.port), self.token, str(secs)], capture_output=True, text=True, check=False)
            over.set()
            for one in clients:
                one.result()
        if reader.returncode:
            raise SystemExit(reader.stderr)
        return [float(line) for line in reader.stdout.split()], codes

    def compare(self, kind, hung, refused, hang, ease):
        """`hung` is what hangs between `hang` and `ease`, `refused` is what is refused at once."""
        told = []
        for _ in range(TRIES):
            calm = self.windows(refused, HANG_SECS / 2)[0]
            hang()
            during, codes = self.windows(hung, HANG_SECS)
            ease()
            calm += self.windows(refused, HANG_SECS / 2)[0]
            wrong = {code for code in codes if code != 503}
            if wrong or not codes:
                raise SystemExit(f"not so: who asks {kind} that hangs is told so: {wrong}")
            calm, during = statistics.median(calm), statistics.median(during)
            told.append((during / calm, during, calm, len(codes)))
            if during <= RATIO_MAX * calm:
                break
        ratio, during, calm, asked = min(told)
        check(ratio <= RATIO_MAX, f"{kind} hangs for {HANG_SECS:.0f} s: the p99 of reads is {during:.2f} ms, {calm:.2f} ms without, {ratio:.2f} times; {asked} clients were told (try {len(told)} of {TRIES})")

    def hole(self, kind, configure, hung, refused):
        hole = Hole()
        configure(hole.port)
        self.compare(kind, hung, refused, lambda: None, lambda: None)
        hole.close()

    def database(self, kind, connection, roles):
        done = self.cluster.done

        def configure(port):
            done("POST", f"database/config/{kind}", {**connection(port), "username": "u", "password": "p", "allowed_roles": "*", "verify_connection": False})
            done("POST", f"database/roles/{kind}", {"db_name": kind, "creation_statements": roles})
        self.hole(kind, configure, ("GET", f"database/creds/{kind}", None), ("GET", "database/creds/nobody", None))

    def databases(self):
        url = lambda kind, rest: lambda port: {"plugin_name": f"{kind}-database-plugin", "connection_url": rest.replace("PORT", str(port))}
        yield "postgresql", lambda: self.database("postgresql", url("postgresql", "postgresql://{{username}}:{{password}}@127.0.0.1:PORT/x?sslmode=disable"), CREATE)
        yield "mysql", lambda: self.database("mysql", url("mysql", "{{username}}:{{password}}@tcp(127.0.0.1:PORT)/"), "CREATE USER '{{name}}'@'%' IDENTIFIED BY '{{password}}'")
        yield "redis", lambda: self.database("redis", lambda port: {"plugin_name": "redis-database-plugin", "host": "127.0.0.1", "port": port}, '["+@read"]')

    def others(self):
        done = self.cluster.done
        bad = ("GET", "database/creds/nobody", None)

        def login(kind, config):
            def configure(port):
                done("POST", f"sys/auth/hung-{kind}", {"type": kind})
                done("POST", f"auth/hung-{kind}/config", config(port))
            return configure

        def engine(kind, path, config, role=None):
            def configure(port):
                done("POST", f"sys/mounts/{path}", {"type": kind})
                for at, body in [config(port)] + ([role] if role else []):
                    done("POST", f"{path}/{at}", body)
            return configure
        people = {"userdn": "dc=x", "userattr": "uid", "binddn": "cn=a,dc=x", "bindpass": "p", "connection_timeout": 5, "request_timeout": 10}
        ldif = "dn: cn={{.Username}},dc=x\nobjectClass: person\ncn: {{.Username}}\nsn: x\nuserPassword: {{.Password}}\n"
        deletion = "dn: cn={{.Username}},dc=x\nchangetype: delete\n"
        account = ("roles/r", {"allowed_kubernetes_namespaces": "*", "service_account_name": "app"})
        cluster = lambda scheme: lambda port: ("config", {"kubernetes_host": f"{scheme}://127.0.0.1:{port}", "service_account_jwt": "a.b.c", "disable_local_ca_jwt": True})
        yield "ldap logins", login("ldap", lambda port: {"url": f"ldap://127.0.0.1:{port}", **people}), ("POST", "auth/hung-ldap/login/alice", {"password": "p"}), bad
        yield "ldap", engine("ldap", "directory", lambda port: ("config", {"url": f"ldap://127.0.0.1:{port}", **people}), ("role/r", {"creation_ldif": ldif, "deletion_ldif": deletion})), ("GET", "directory/creds/r", None), bad
        yield "rabbitmq", engine("rabbitmq", "broker", lambda port: ("config/connection", {"connection_uri": f"http://127.0.0.1:{port}", "username": "u", "password": "p", "verify_connection": False}),
                                 ("roles/r", {"tags": "management"})), ("GET", "broker/creds/r", None), bad
        yield "kubernetes", engine("kubernetes", "pods", cluster("http"), account), ("POST", "pods/creds/r", {"kubernetes_namespace": "a"}), bad
        yield "https", engine("kubernetes", "tls-pods", cluster("https"), account), ("POST", "tls-pods/creds/r", {"kubernetes_namespace": "a"}), bad
        yield "github logins", login("github", lambda port: {"organization": "o", "organization_id": 1, "base_url": f"http://127.0.0.1:{port}/"}), ("POST", "auth/hung-github/login", {"token": "t"}), bad
        yield "okta logins", login("okta", lambda port: {"org_name": "o", "base_url": f"http://127.0.0.1:{port}", "api_token": "t"}), ("POST", "auth/hung-okta/login/a", {"password": "p"}), bad

    def stopped_postgresql(self, work):
        """One that stops with open sessions."""
        postgres, done = Postgres(work), self.cluster.done
        done("POST", "database/config/stopped", {"plugin_name": "postgresql-database-plugin", "connection_url": postgres.url(), "username": ROOT, "password": ROOT_PASSWORD, "allowed_roles": "*"})
        done("POST", "database/roles/stopped", {"db_name": "stopped", "creation_statements": CREATE})
        for _ in range(4):
            done("GET", "database/creds/stopped")

        def send(number):
            for pid in [postgres.process.pid, *postgres.children()]:
                os.kill(pid, number)
        self.compare("a PostgreSQL that stops", ("GET", "database/creds/stopped", None), ("GET", "database/creds/nobody", None), lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT))
        begun = time.monotonic()
        while self.ask(("GET", "database/creds/stopped", None)) != 200:
            time.sleep(0.2)
        ok(f"and makes users again {time.monotonic() - begun:.1f} s after it goes on")


def main():
    work = make_folder("far-end-hangs-")
    try:
        cluster = Cluster(BINARY, work, 1)
        walk = Walk(cluster)
        cluster.done("POST", "sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})
        cluster.done("POST", "secret/data/hang", {"data": {"a": "b"}})
        cluster.done("POST", "sys/mounts/database", {"type": "database"})
        wanted = [word.strip() for word in os.environ.get("FAR_END_KINDS", "").split(",") if word.strip()]
        for kind, run in walk.databases():
            if not wanted or kind in wanted:
                run()
        for kind, configure, hung, refused in walk.others():
            if not wanted or kind in wanted:
                walk.hole(kind, configure, hung, refused)
        if find_tool("initdb") and shutil.which("psql") and (not wanted or "stopped" in wanted):
            walk.stopped_postgresql(work)
        cluster.end()
    finally:
        end_all(work)


if sys.argv[1:2] == ["--read"]:
    read_for(int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
else:
    main()
