"""Drives the engine for Kubernetes against a stand-in for an API server, over TLS with an authority of its own.

  kubernetes_walk.py [BAO]

The stand-in keeps objects, checks every request as an API server would (token, form, namespace, owner), gives tokens, and refuses, hangs or answers
half when it is told to. What it has at the end is what was there before.
"""

import base64
import http.server
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

BAO = sys.argv[1] if len(sys.argv) > 1 else None
WORK = pathlib.Path(tempfile.mkdtemp(prefix="kubernetes-walk-"))
ADDRESS = os.environ.get("VAULT_ADDR", "")
TOKEN = os.environ.get("VAULT_TOKEN", "root")
JWT = "eyJhbGciOiJub25lIn0.canary-of-the-walk.e30"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KINDS = {"serviceaccounts": "ServiceAccount", "roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding", "clusterrolebindings": "ClusterRoleBinding"}


def ok(what):
    print("ok ", what, flush=True)


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    ok(what)


def ask(method, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", data, method=method)
    request.add_header("X-Vault-Token", TOKEN)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else {}


def done(method, path, body=None):
    code, answer = ask(method, path, body)
    if code not in (200, 204):
        raise SystemExit(f"{method} {path}: {code} {answer}")
    return answer


def make_authority():
    run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=WORK)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=walk", "-days", "2")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=api")
    (WORK / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "san")


class World:
    """What the stand-in has, and how it feels."""

    def __init__(self):
        self.lock = threading.Lock()
        self.objects = {"/api/v1/namespaces/test": {"metadata": {"name": "test", "labels": {"team": "red"}}},
                        "/api/v1/namespaces/test/serviceaccounts/sa": {"metadata": {"name": "sa", "namespace": "test"}}}
        self.moods, self.seen, self.uids, self.token_secs = [], [], 0, 0


WORLD = World()


class ApiServer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def tell(self, status, body, cut=None):
        text = json.dumps(body).encode() if not isinstance(body, bytes) else body
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[:cut])
        if cut is not None:
            self.close_connection = True

    def status(self, code, reason, message):
        self.tell(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        with WORLD.lock:
            WORLD.seen.append(f"{self.command} {path}")
            mood = WORLD.moods.pop(0) if WORLD.moods else None
        if mood == "proxy":
            return self.tell(404, b"<html>no such page</html>")
        if mood == "hang":
            time.sleep(20)
            self.close_connection = True
            return None
        if self.headers.get("Authorization") != f"Bearer {JWT}":
            return self.status(401, "Unauthorized", "Unauthorized")
        if mood == "forbid":
            return self.status(403, "Forbidden", f"{path} is forbidden for {JWT}")
        with WORLD.lock:
            code, told = self.act(path, body)
        if mood == "half":
            return self.tell(code, told, cut=9)
        if mood == "late":
            time.sleep(12)
        return self.tell(code, told)

    do_GET = do_POST = do_DELETE = answer

    def act(self, path, body):
        missing = (404, {"kind": "Status", "reason": "NotFound", "message": f"{path} not found", "code": 404})
        bad = lambda why: (422, {"kind": "Status", "reason": "Invalid", "message": why, "code": 422})
        if self.command == "GET":
            if path == "/version":
                return 200, {"major": "1", "minor": "34"}
            return (200, WORLD.objects[path]) if path in WORLD.objects else missing
        if self.command == "DELETE":
            found = WORLD.objects.pop(path, None)
            if found is None:
                return missing
            # As the garbage collector of a cluster: what it owned goes with it.
            uid = found["metadata"].get("uid")
            for other in [key for key, it in WORLD.objects.items() if any(o["uid"] == uid for o in it["metadata"].get("ownerReferences", []))]:
                del WORLD.objects[other]
            return 200, found
        given = json.loads(body)
        if path.endswith("/token"):
            if path.removesuffix("/token") not in WORLD.objects:
                return missing
            secs = given["spec"]["expirationSeconds"]
            if given["kind"] != "TokenRequest" or secs < 600:
                return bad("spec.expirationSeconds: may not specify a duration less than 10 minutes")
            secs = WORLD.token_secs or secs
            part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
            now = int(time.time())
            return 201, {"kind": "TokenRequest", "status": {"token": f"{part({'alg': 'RS256'})}.{part({'iat': now, 'exp': now + secs, 'aud': given['spec'].get('audiences')})}.c2ln"}}
        folder = path.rsplit("/", 1)[1]
        name, namespace = given["metadata"]["name"], given["metadata"].get("namespace")
        if given["kind"] != KINDS[folder] or (namespace and f"/namespaces/{namespace}/" not in path):
            return bad("the kind or the namespace is not that of the path")
        for owner in given["metadata"].get("ownerReferences", []):
            if not any(it["metadata"].get("uid") == owner["uid"] and it["metadata"]["name"] == owner["name"] for it in WORLD.objects.values()):
                return bad("the owner is not there")
        if f"{path}/{name}" in WORLD.objects:
            return 409, {"kind": "Status", "reason": "AlreadyExists", "message": f"{name} already exists", "code": 409}
        WORLD.uids += 1
        given["metadata"]["uid"] = f"00000000-0000-0000-0000-{WORLD.uids:012}"
        WORLD.objects[f"{path}/{name}"] = given
        return 201, given


def feel(*moods):
    with WORLD.lock:
        WORLD.moods, WORLD.seen = list(moods), []


def there():
    with WORLD.lock:
        return sorted(WORLD.objects)


def emptied(before, secs):
    for _ in range(secs * 4):
        if there() == before:
            return True
        time.sleep(0.25)
    return False


def walk(port):
    host = f"https://127.0.0.1:{port}"
    ca = (WORK / "ca.pem").read_text()
    before = there()
    done("POST", "sys/mounts/kubernetes", {"type": "kubernetes"})
    check(ask("GET", "kubernetes/config")[0] == 404, "there is no configuration at first")
    code, answer = ask("POST", "kubernetes/config", {"kubernetes_host": host})
    check(code == 400, f"a configuration says what is missing: {answer}")
    done("POST", "kubernetes/config", {"kubernetes_host": host, "service_account_jwt": JWT})
    code, answer = ask("GET", "kubernetes/check")
    check(code == 503 and host in str(answer), f"a server of an unknown authority is not asked: {answer}")
    done("POST", "kubernetes/config", {"kubernetes_ca_cert": ca})
    done("GET", "kubernetes/check")
    shown = done("GET", "kubernetes/config")["data"]
    check(shown == {"kubernetes_host": host, "kubernetes_ca_cert": ca, "disable_local_ca_jwt": False}, "the token of the configuration is never shown")
    code, answer = ask("POST", "kubernetes/config", {"kubernetes_host": "https://127.0.0.1:1"})
    check(code == 400 and "service_account_jwt" in str(answer), "another host needs the token again")
    for bad in ({}, {"allowed_kubernetes_namespaces": "*"}, {"allowed_kubernetes_namespaces": "*", "kubernetes_role_name": "view", "name_template": "fixed"}):
        if ask("POST", "kubernetes/roles/bad", bad)[0] != 400:
            raise SystemExit(f"{bad} is taken")
    ok("a role that cannot be is refused")
    done("POST", "kubernetes/roles/sa", {"allowed_kubernetes_namespaces": "test", "service_account_name": "sa", "token_default_ttl": "10m", "token_max_ttl": "1h"})
    done("POST", "kubernetes/roles/view", {"allowed_kubernetes_namespaces": "*", "kubernetes_role_name": "view", "kubernetes_role_type": "ClusterRole", "token_default_ttl": "20m"})
    done("POST", "kubernetes/roles/gen", {"allowed_kubernetes_namespace_selector": "matchLabels:\n  team: red\n", "token_default_ttl": "20m",
                                          "generated_role_rules": "rules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list]\n", "extra_labels": {"a": "b"}})
    made = done("POST", "kubernetes/creds/sa", {})
    check(made["lease_duration"] == 600 and not made["renewable"], "a token of an account that is there lives as long as its lease")
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    check(there() == before, "and makes nothing, and deletes nothing")
    made = done("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "test"})
    name = made["data"]["service_account_name"]
    mine = [path for path in there() if path not in before]
    check([path.split("/")[-2] for path in mine] == ["serviceaccounts", "rolebindings", "roles"] and all(path.endswith(name) for path in mine), f"a role, a binding and an account: {name}")
    account = WORLD.objects[mine[0]]["metadata"]
    check(account["ownerReferences"][0]["kind"] == "Role" and account["labels"]["a"] == "b" and account["labels"]["app.kubernetes.io/managed-by"] == "kallisto", "the role owns the account")
    check(WORLD.objects[mine[2]]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}], "rules in YAML are the rules of the role")
    check(ask("PUT", "sys/leases/renew", {"lease_id": made["lease_id"]})[0] == 400, "such a lease is not renewed")
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    check(there() == before, "revocation deletes all three")
    made = done("POST", "kubernetes/creds/view", {"kubernetes_namespace": "test", "cluster_role_binding": True})
    check(any("/clusterrolebindings/" in path for path in there()), "a binding in the whole cluster")
    done("PUT", "sys/leases/revoke-prefix/kubernetes/creds/view", {"sync": True})
    check(there() == before, "revoke-prefix leaves none")
    code, answer = ask("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "elsewhere"})
    check(code == 400 and "elsewhere" in str(answer), f"a namespace that is not there: {answer}")
    code, answer = ask("POST", "kubernetes/creds/sa", {"kubernetes_namespace": "other"})
    check(code == 400 and "allowed_kubernetes_namespaces" in str(answer), "a namespace that the role has not")
    WORLD.token_secs = 900
    made = done("POST", "kubernetes/creds/view", {"kubernetes_namespace": "test"})
    check(made["lease_duration"] == 900 and "15m0s is less than" in str(made["warnings"]), f"a lease ends with its token: {made['warnings']}")
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    WORLD.token_secs = 0

    # Refused, half answered or not answered at each step: nothing stays.
    for mood in ("forbid", "half"):
        for step in range(4):
            feel(*[None] * (step + 1), mood)
            code, answer = ask("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "test"})
            if code not in (400, 503) or host not in str(answer) or "canary" in str(answer):
                raise SystemExit(f"{mood} at {step}: {code} {answer}")
            if not emptied(before, 15):
                raise SystemExit(f"{mood} at {step}: {set(there()) - set(before)}")
    check(True, "an API server that refuses or answers half at any step leaves nothing behind")
    feel(None, "proxy")
    code, answer = ask("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "test"})
    check(code == 503 and there() == before, f"a proxy's page is no answer: {answer}")
    feel(None, None, "late")
    begun = time.time()
    code, answer = ask("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "test"})
    check(code == 503 and time.time() - begun < 30, f"one that answers too late is given up after {time.time() - begun:.0f} s")
    check(emptied(before, 60), "and what it made all the same is deleted")
    feel(None, "hang")
    slowest, stop = [0.0], threading.Event()

    def others():
        while not stop.is_set():
            started = time.time()
            done("GET", "sys/mounts/kubernetes")
            slowest[0] = max(slowest[0], time.time() - started)
    thread = threading.Thread(target=others)
    thread.start()
    begun = time.time()
    code, answer = ask("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "test"})
    took = time.time() - begun
    stop.set()
    thread.join()
    check(code == 503 and took > 5 and slowest[0] < 3, f"while it hangs for {took:.0f} s others are served: the slowest of their reads took {slowest[0] * 1000:.0f} ms")
    feel()

    # A configuration that is deleted under a lease, as Vault does: the lease waits for the next one.
    made = done("POST", "kubernetes/creds/view", {"kubernetes_namespace": "test"})
    done("DELETE", "kubernetes/config")
    code, answer = ask("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    check(code == 400 and "not configured" in str(answer), f"a lease without a configuration stays: {answer}")
    done("POST", "kubernetes/config", {"kubernetes_host": host, "service_account_jwt": JWT, "kubernetes_ca_cert": ca})
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    check(there() == before, "and ends with the next one")
    if BAO:
        said = subprocess.run([BAO, "write", "-format=json", "kubernetes/creds/view", "kubernetes_namespace=test"], capture_output=True, text=True, timeout=60)
        data = json.loads(said.stdout)["data"]
        check(data["service_account_token"].count(".") == 2, "bao write kubernetes/creds/view")
        done("PUT", "sys/leases/revoke-prefix/kubernetes/creds/view", {"sync": True})
    code, answer = ask("DELETE", "sys/mounts/kubernetes")
    check(code == 400 and "may still appear" in str(answer), "a mount does not go while something may still appear in the cluster")
    begun = time.time()
    while ask("DELETE", "sys/mounts/kubernetes")[0] not in (200, 204):
        if time.time() - begun > 120:
            raise SystemExit("it never goes")
        time.sleep(1)
    ok(f"and goes {time.time() - begun:.0f} s later")
    check(there() == before, "at the end there is what was there before")


if shutil.which("openssl") is None:
    print("*** SKIPPED: kubernetes: openssl is not installed", flush=True)
    raise SystemExit(0)
make_authority()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
# Connections that the server under test gives up are part of the walk.
server.handle_error = lambda *_: None
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(WORK / "server.pem", WORK / "server.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
try:
    walk(server.server_address[1])
finally:
    server.shutdown()
    shutil.rmtree(WORK, ignore_errors=True)
