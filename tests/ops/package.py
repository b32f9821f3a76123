#!/usr/bin/env python3
"""The Debian package: made, looked at by lintian, installed, served from as the unit says, upgraded, removed and purged.

  package.py KALLISTO

Needs root and dpkg, since it really installs; a machine that has a package, a user or data of that name already is left alone. systemd need not
run: the lines of the installed unit are run as its user, with a NOTIFY_SOCKET as systemd gives one.
"""

import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = pathlib.Path("/etc/kallisto/kallisto.hcl")
DATA = pathlib.Path("/var/lib/kallisto")
UNIT = pathlib.Path("/lib/systemd/system/kallisto.service")
SECS_MAX = 60


def ok(what):
    print("ok   ", what, flush=True)


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    ok(what)


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def skip(why):
    print(f"*** SKIPPED: package: {why}", flush=True)
    raise SystemExit(0)


def user_is_there():
    try:
        return pwd.getpwnam("kallisto")
    except KeyError:
        return None


def mode(path):
    found = path.stat()
    return f"{stat.S_IMODE(found.st_mode):o} {pwd.getpwuid(found.st_uid).pw_name}"


class Service:
    """What systemd does with the unit: its lines, as its user."""

    def __init__(self, work):
        text = UNIT.read_text()
        line = lambda name: re.search(rf"^{name}=(.*)$", text, re.M).group(1).split()
        self.user = pwd.getpwnam(line("User")[0])
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = work / "notify"
        self.notified.bind(str(path))
        os.chmod(path, 0o777)
        self.notified.settimeout(SECS_MAX)
        self.env = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(path)}
        self.log = open(work / "server.log", "wb")
        print("     ", self.as_user(line("ExecStartPre")).stdout.strip().replace("\n", "\n      "), flush=True)
        self.process = subprocess.Popen(line("ExecStart"), env=self.env, stdout=self.log, stderr=self.log, **self.who())

    def who(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": [], "umask": 0o077, "cwd": "/"}

    def as_user(self, words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, env=self.env, **self.who())
        if done.returncode != 0:
            raise SystemExit(f"{words}: {done.stdout}{done.stderr}")
        return done

    def hears(self, word):
        ends = time.time() + SECS_MAX
        while time.time() < ends:
            try:
                if word in self.notified.recv(4096).decode():
                    return
            except TimeoutError:
                break
        raise SystemExit(f"the server does not say {word}: {pathlib.Path(self.log.name).read_text()[-2000:]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.hears("STOPPING=1")
        return self.process.wait(SECS_MAX)


class Client:
    def __init__(self, port, token=""):
        self.base, self.token = f"https://localhost:{port}/v1/", token
        self.tls = ssl.create_default_context(cafile=str(DATA / "tls/ca.pem"))

    def ask(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.base + path, data, method=method, headers={"X-Vault-Token": self.token})
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")


def walk(binary, work):
    sbom = work / "parts.json"
    sbom.write_text('{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": []}\n')
    env = {**os.environ, "DEB_COMPRESSION": "gzip"}
    package = run("bash", ROOT / "contrib/debian/build.sh", binary, sbom, work / "out", env=env).strip()
    if shutil.which("lintian"):
        run("lintian", "--allow-root", "--fail-on", "error,warning", package)
        ok("lintian has nothing to say")
    else:
        print("*** SKIPPED: lintian is not installed", flush=True)
    run("dpkg", "-i", package)
    user = user_is_there()
    check(user and user.pw_shell.endswith("nologin") and user.pw_uid < 1000, "a system user that nobody logs in as")
    check(mode(DATA) == "700 kallisto" and mode(CONFIG) == "640 root", "data is the user's, and the configuration is the administrator's")
    check(run("kallisto", "version").startswith("Kallisto"), "kallisto version")
    check(pathlib.Path("/usr/share/man/man1/kallisto-kv-get.1.gz").exists(), "a manual page of each command")
    check("kallisto" in pathlib.Path("/usr/share/bash-completion/completions/kallisto").read_text(), "completion for bash")
    run("kallisto", "operator", "validate-config", f"-config={CONFIG}")
    ok("the configuration is good as it comes")
    if shutil.which("systemd-analyze"):
        run("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", UNIT)
        ok("systemd-analyze security: an exposure of 2.0 at most")
    port, cluster = free_port(), free_port()
    CONFIG.write_text(CONFIG.read_text().replace(":8200", f":{port}").replace(":8201", f":{cluster}"))
    service = Service(work)
    try:
        service.hears("READY=1")
        ok("the service is ready")
        check(mode(DATA / "tls/key.pem") == "600 kallisto", "a key of its own, which nobody else reads")
        client = Client(port)
        check(client.ask("GET", "sys/health")[0] == 501, "it waits to be initialised, over TLS that its own authority vouches for")
        made = client.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})[1]
        client.ask("PUT", "sys/unseal", {"key": made["keys"][0]})
        client.token = made["root_token"]
        # It leads a moment after it is unsealed.
        ends = time.time() + SECS_MAX
        while client.ask("GET", "sys/health")[0] != 200 and time.time() < ends:
            time.sleep(0.1)
        check(client.ask("GET", "sys/health")[0] == 200, "initialised and unsealed")
        check(client.ask("POST", "sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})[0] == 204, "a mount")
        check(client.ask("POST", "secret/data/app", {"data": {"k": "v"}})[0] == 200, "a secret")
        key = (DATA / "tls/key.pem").read_bytes()
        check(service.stop() == 0, "it stops when it is told to")
        os.chmod(CONFIG, 0o440)
        os.chmod(DATA, 0o750)
        run("dpkg", "-i", package)
        check(mode(DATA) == "750 kallisto" and mode(CONFIG) == "440 root", "an upgrade leaves the rights as they were changed")
        check(f":{port}" in CONFIG.read_text(), "an upgrade leaves the configuration as it was changed")
        again = work / "again"
        again.mkdir()
        service = Service(again)
        service.hears("READY=1")
        check((DATA / "tls/key.pem").read_bytes() == key, "and the certificate")
        client = Client(port, client.token)
        client.ask("PUT", "sys/unseal", {"key": made["keys"][0]})
        found = client.ask("GET", "secret/data/app")[1]
        check(found["data"]["data"] == {"k": "v"}, "and the secret")
        service.stop()
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()
    run("dpkg", "-r", "kallisto")
    check((DATA / "data").is_dir() and CONFIG.exists() and user_is_there(), "a removal leaves data, configuration and user")
    run("dpkg", "-P", "kallisto")
    gone = not DATA.exists() and not CONFIG.exists() and not user_is_there()
    check(gone and not pathlib.Path("/usr/bin/kallisto").exists(), "a purge leaves nothing")


def ended(*_):
    raise SystemExit("it was ended from outside")


# Whoever ends this, the package goes.
signal.signal(signal.SIGTERM, ended)
if os.geteuid() != 0 or not shutil.which("dpkg"):
    skip("it is installed for real, which needs root and dpkg")
if not shutil.which("adduser") or not shutil.which("objdump"):
    skip("adduser and binutils are needed")
if user_is_there() or DATA.exists() or CONFIG.exists() or pathlib.Path("/usr/bin/kallisto").exists():
    skip("this machine has a Kallisto already, which is left alone")
folder = pathlib.Path(tempfile.mkdtemp(prefix="kallisto-package-"))
os.chmod(folder, 0o755)
try:
    walk(pathlib.Path(sys.argv[1]).resolve(), folder)
finally:
    subprocess.run(["dpkg", "-P", "kallisto"], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
