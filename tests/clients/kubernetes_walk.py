"""Drives the engine for Kubernetes against a stand-in for an API server, over TLS with an authority of its own.

  kubernetes_walk.py [BAO]

The stand-in keeps objects, checks every request as an API server would (token, form, namespace, owner), gives tokens, and refuses, hangs or answers
half when it is told to. What it has at the end is what was there before.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from far_ends.kubernetes import JWT, WORLD, serve
from far_ends.processes import check, make_folder, ok, skip

BAO = sys.argv[1] if len(sys.argv) > 1 else None
WORK = make_folder("kubernetes-walk-")
ADDRESS = os.environ.get("VAULT_ADDR", "")
TOKEN = os.environ.get("VAULT_TOKEN", "root")


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
            if not emptied(before, 60):
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
    check(code == 503 and took > 5 and slowest[0] < 5, f"while it hangs for {took:.0f} s others are served: the slowest of their reads took {slowest[0] * 1000:.0f} ms")
    feel()

    # A configuration that only a lease needs goes by force alone; then the lease waits for the next one, as with Vault.
    made = done("POST", "kubernetes/creds/view", {"kubernetes_namespace": "test"})
    code, answer = ask("DELETE", "kubernetes/config")
    check(code == 400 and "force=true" in str(answer), f"a configuration that a lease needs stays: {answer}")
    done("DELETE", "kubernetes/config?force=true")
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
    skip("kubernetes: openssl is not installed")
    raise SystemExit(0)
server = serve(WORK)
try:
    walk(server.server_address[1])
finally:
    server.shutdown()
    shutil.rmtree(WORK, ignore_errors=True)
