"""SSH through each of three servers, in the root namespace and in another one: the same answers, whoever is asked.

Of 64 who show a one-time password at once, spread over the servers, one is told that it is good. An audit device hears of all of it,
and of no private key and no password. Servers of its own; KALLISTO names the binary.
"""

import concurrent.futures
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

BINARY = os.environ["KALLISTO"]
work = pathlib.Path(tempfile.mkdtemp())
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKX3+zrQ9GRJOkjabqqcJjz3W1mXU73mSewfLIzdzAcU u@h"
SERVERS, RACERS, READY_SECS_MAX = range(3), 64, 60
# What differs from answer to answer.
OWN = {"request_id", "lease_id", "serial_number", "signed_key", "private_key", "key"}


def check(what, truth):
    assert truth, what
    print("ok ", what)


ports = [free_port() for _ in SERVERS]


def ask(server, method, path, body=None, token=None, namespace=""):
    headers = {"X-Vault-Namespace": namespace}
    if token:
        headers["X-Vault-Token"] = token
    request = urllib.request.Request(f"http://127.0.0.1:{ports[server]}/v1/{path}", method=method, headers=headers,
                                     data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read()
    try:
        return status, json.loads(text or b"null")
    except ValueError:
        return status, text.decode()


def until(what, holds):
    ends = time.monotonic() + READY_SECS_MAX
    while time.monotonic() < ends:
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(what)


def start(server):
    (work / f"data{server}").mkdir()
    config = work / f"server{server}.hcl"
    config.write_text(f"""storage "raft" {{
  path    = "{work}/data{server}"
  node_id = "server-{server}"
}}
listener "tcp" {{
  address         = "127.0.0.1:{ports[server]}"
  cluster_address = "127.0.0.1:{free_port()}"
  tls_disable     = true
}}
api_addr = "http://127.0.0.1:{ports[server]}"
""")
    log = open(work / f"log{server}", "w")
    return subprocess.Popen([BINARY, "server", f"-config={config}", "-log-level=warn"], stdout=log, stderr=log)


def without_own(value):
    if isinstance(value, dict):
        return {name: without_own(inner) for name, inner in value.items() if name not in OWN}
    return value


def walk(root, namespace):
    """Every route through every server."""
    def to(server, method, path, body=None, token=root):
        return ask(server, method, path, body, token, namespace)

    name = namespace or "root"
    made = [to(2, "POST", "sys/mounts/ssh", {"type": "ssh"})[0],
            to(1, "POST", "ssh/config/ca", {"key_type": "ed25519", "issuer_name": "one"})[0],
            to(2, "POST", "ssh/roles/r", {"key_type": "ca", "allow_user_certificates": True, "default_user": "x"})[0],
            to(1, "POST", "ssh/roles/otp", {"key_type": "otp", "default_user": "x", "cidr_list": "10.0.0.0/8"})[0],
            to(2, "POST", "ssh/config/zeroaddress", {"roles": "otp"})[0]]
    check(f"{name}: what is written through followers is written", made == [204, 200, 204, 204, 204])
    # What was written last.
    last = lambda server: to(server, "GET", "ssh/config/zeroaddress")[1]
    until("followers know the mount", lambda: all("otp" in json.dumps(last(server).get("data")) for server in SERVERS))
    for method, path, body, token in [
            ("GET", "ssh/public_key", None, None), ("GET", "ssh/issuer/one/public_key", None, None),
            ("GET", "ssh/config/ca", None, root), ("GET", "ssh/issuer/default", None, root), ("LIST", "ssh/issuers", None, root),
            ("GET", "ssh/config/issuers", None, root), ("LIST", "ssh/roles", None, root), ("GET", "ssh/roles/r", None, root),
            ("GET", "ssh/config/zeroaddress", None, root), ("POST", "ssh/sign/r", {"public_key": KEY}, root),
            ("POST", "ssh/issue/r", {"key_type": "ed25519"}, root), ("POST", "ssh/creds/otp", {"ip": "10.0.0.1"}, root),
            ("POST", "ssh/lookup", {"ip": "10.0.0.1"}, root), ("POST", "ssh/verify", {"otp": "verify-echo-request"}, None),
            ("POST", "ssh/config/issuers", {"default": "one"}, root), ("DELETE", "ssh/tidy/dynamic-keys", None, root)]:
        answers = [to(server, method, path, body, token) for server in SERVERS]
        same = all(without_own(answer) == without_own(answers[0][1]) for _, answer in answers)
        check(f"{name}: {method} {path} is answered alike by every server", [code for code, _ in answers] == [200] * 3 and same)
    for _ in range(3):
        otp = to(1, "POST", "ssh/creds/otp", {"ip": "10.0.0.1"})[1]["data"]["key"]
        with concurrent.futures.ThreadPoolExecutor(RACERS) as pool:
            codes = list(pool.map(lambda racer: to(racer % 3, "POST", "ssh/verify", {"otp": otp}, None)[0], range(RACERS)))
        check(f"{name}: of {RACERS} at three servers one is told that a password is good", sorted(codes) == [200] + [400] * (RACERS - 1))
        secrets.append(otp)
    for key_type in ("ed25519", "ec", "rsa"):
        secrets.extend(to(2, "POST", "ssh/issue/r", {"key_type": key_type})[1]["data"]["private_key"].splitlines()[1:-1])


def take_records(listener):
    """Keeps what the audit devices of all servers send."""
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=lambda: [heard.append(part) for part in iter(lambda: stream.recv(1 << 16), b"")], daemon=True).start()


secrets, heard = [], []
servers = []
device = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=take_records, args=(device,), daemon=True).start()
try:
    servers = [start(server) for server in SERVERS]
    until("the first server listens", lambda: ask(0, "GET", "sys/init")[0] == 200)
    keys = ask(0, "PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})[1]
    ask(0, "PUT", "sys/unseal", {"key": keys["keys"][0]})
    until("the first server serves", lambda: ask(0, "GET", "sys/health")[0] == 200)
    for server in (1, 2):
        until("a server listens", lambda: ask(server, "GET", "sys/init")[0] == 200)
        ask(server, "POST", "sys/storage/raft/join", {"leader_api_addr": f"http://127.0.0.1:{ports[0]}"})
        ask(server, "PUT", "sys/unseal", {"key": keys["keys"][0]})
        until("a server follows", lambda: ask(server, "GET", "sys/health?standbyok=true&perfstandbyok=true")[0] == 200)
    root = keys["root_token"]
    options = {"address": "127.0.0.1:%d" % device.getsockname()[1], "socket_type": "tcp"}
    check("there is an audit device", ask(0, "POST", "sys/audit/socket", {"type": "socket", "options": options}, root)[0] == 204)
    walk(root, "")
    check("there is another namespace", ask(1, "POST", "sys/namespaces/team", {}, root)[0] == 200)
    walk(root, "team")
    otp = ask(1, "POST", "ssh/creds/otp", {"ip": "10.0.0.1"}, root, "team")[1]["data"]["key"]
    check("a password of a namespace is good in no other", ask(2, "POST", "ssh/verify", {"otp": otp})[0] == 400)
    check("and good in its own", ask(2, "POST", "ssh/verify", {"otp": otp}, None, "team")[0] == 200)
    # A key of a CA that is taken in through a follower.
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", work / "ca"], check=True)
    private = (work / "ca").read_text()
    body = {"private_key": private, "public_key": (work / "ca.pub").read_text()}
    check("a CA is taken in through a follower", ask(2, "POST", "ssh/config/ca", body, root)[0] == 200)
    secrets += [otp, *private.splitlines()[1:-1]]
    records = lambda: b"".join(heard).decode()
    until("the last request is heard of", lambda: records().count('"ssh/config/ca"') >= 4)
    found = [secret for secret in secrets if len(secret) > 16 and secret in records()]
    check(f"none of {len(secrets)} passwords and lines of private keys is written down", "ssh/verify" in records() and not found)
finally:
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait()
