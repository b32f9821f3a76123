#!/usr/bin/env python3
"""A real Prometheus scrapes three servers that are loaded and lose their leader; every query of the dashboard and every alert has data.

    tests/ops/metrics_walk.py KALLISTO [DASHBOARD OF ANOTHER SERVER]

Needs prometheus, promtool and openssl. Everything is on loopback, in a folder of its own, and ended by id.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_ports  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CONTRIB = os.path.join(HERE, "..", "..", "contrib")
NAMES = ["one", "two", "three"]
# Names that Vault gave and that no rule of names allows: dashboards ask for them as they are.
VAULT_SPELLED = {
    "vault_raft_commitTime",
    "vault_raft_leader_lastContact",
    "vault_raft_storage_follower_last_heartbeat_ms",
}
# Queries of OpenBao's dashboard about what does not exist here: Go's runtime, Consul, rollbacks.
FOREIGN = re.compile(r"_runtime_|_consul_|_route_rollback_")
LOAD_SECS = 18
checks = failures = 0


def check(good, what):
    global checks, failures
    checks += 1
    failures += not good
    print("ok   " if good else "FAIL ", what, flush=True)


def until(ask, secs=20):
    """What `ask` tells once that is good, else the last: a scrape that took a second too long leaves a hole in every figure."""
    ends = time.time() + secs
    while True:
        good, told = ask()
        if good or time.time() > ends:
            return good, told
        time.sleep(0.5)


anyone = ssl.create_default_context()
anyone.check_hostname = False
anyone.verify_mode = ssl.CERT_NONE


def call(url, method="GET", body=None, token=None, timeout=15):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data=data, method=method)
    if token:
        request.add_header("X-Vault-Token", token)
    with urllib.request.urlopen(request, timeout=timeout, context=anyone) as answer:
        return answer.read()


class Cluster:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.running = binary, folder, {}
        ports = free_ports(2 * len(NAMES))
        self.api = dict(zip(NAMES, ports[::2]))
        self.peer = dict(zip(NAMES, ports[1::2]))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
             "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"],
            check=True, capture_output=True)

    def url(self, name, path):
        return f"https://127.0.0.1:{self.api[name]}/v1/{path}"

    def start(self, name):
        data = f"{self.folder}/{name}"
        os.makedirs(data, exist_ok=True)
        with open(f"{self.folder}/{name}.hcl", "w", encoding="utf-8") as config:
            config.write(f'''
storage "raft" {{
  path    = "{data}"
  node_id = "{name}"
}}
listener "tcp" {{
  address         = "127.0.0.1:{self.api[name]}"
  cluster_address = "127.0.0.1:{self.peer[name]}"
  tls_cert_file = "{self.folder}/cert.pem"
  tls_key_file  = "{self.folder}/key.pem"
  telemetry {{ unauthenticated_metrics_access = true }}
}}
telemetry {{
  usage_gauge_period = "10s"
}}
api_addr     = "https://127.0.0.1:{self.api[name]}"
cluster_addr = "https://127.0.0.1:{self.peer[name]}"
''')
        log = open(f"{self.folder}/{name}.log", "ab")
        self.running[name] = subprocess.Popen(
            [self.binary, "server", f"-config={self.folder}/{name}.hcl"], stdout=log, stderr=log)
        for _ in range(200):
            try:
                call(self.url(name, "sys/seal-status"))
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise SystemExit(open(f"{self.folder}/{name}.log", encoding="utf-8").read())

    def stop_all(self):
        for process in self.running.values():
            process.kill()
            process.wait()

    def unseal(self, name):
        call(self.url(name, "sys/unseal"), "PUT", {"key": self.key})

    def leader(self):
        for name in self.running:
            try:
                call(self.url(name, "sys/health"), timeout=2)
                return name
            except (urllib.error.URLError, OSError):
                continue
        return None

    def form(self):
        for name in NAMES:
            self.start(name)
        made = json.loads(call(self.url("one", "sys/init"), "PUT", {"secret_shares": 1, "secret_threshold": 1}))
        self.key, self.token = made["keys_base64"][0], made["root_token"]
        self.unseal("one")
        ca = open(f"{self.folder}/cert.pem", encoding="utf-8").read()
        for name in NAMES[1:]:
            call(self.url(name, "sys/storage/raft/join"), "PUT",
                 {"leader_api_addr": f"https://127.0.0.1:{self.api['one']}", "leader_ca_cert": ca})
            self.unseal(name)
        for _ in range(300):
            try:
                state = json.loads(call(self.url("one", "sys/storage/raft/autopilot/state"), token=self.token))["data"]
                if state["healthy"] and len(state["voters"]) == 3:
                    return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.2)
        raise SystemExit("the three servers did not become three voters")

    def settle(self):
        root = self.token
        call(self.url("one", "sys/audit/main"), "PUT", {"type": "file", "options": {"file_path": "stdout"}}, root)
        call(self.url("one", "sys/mounts/secret"), "POST", {"type": "kv", "options": {"version": "2"}}, root)
        # What alerts about backups look at.
        call(self.url("one", "sys/storage/raft/snapshot-auto/config/hourly"), "POST", {
            "interval": "1h", "retain": 2, "storage_type": "local",
            "path_prefix": f"{self.folder}/snapshots", "local_max_space": 100_000_000}, root)
        call(self.url("one", "sys/auth/userpass"), "POST", {"type": "userpass"}, root)
        call(self.url("one", "auth/userpass/users/ada"), "POST", {"password": "pw", "policies": "reader"}, root)
        call(self.url("one", "sys/policies/acl/reader"), "PUT",
             {"policy": 'path "secret/*" { capabilities = ["read", "list"] }'}, root)

    def load(self, until):
        """Everything that figures are of, at any server."""
        names, at = list(self.running), 0
        while time.time() < until:
            at += 1
            name = names[at % len(names)]
            try:
                token = json.loads(call(self.url(name, "auth/userpass/login/ada"), "POST", {"password": "pw"}))["auth"]["client_token"]
                call(self.url(name, f"secret/data/app/{at}"), "POST", {"data": {"a": "b"}}, self.token)
                call(self.url(name, f"secret/data/app/{at}"), token=token)
                call(self.url(name, "secret/metadata/app?list=true"), token=token)
                call(self.url(name, f"secret/data/app/{at}"), "DELETE", token=self.token)
                call(self.url(name, "sys/policies/acl/reader"), token=self.token)
                call(self.url(name, "sys/policies/acl/reader"), "PUT",
                     {"policy": 'path "secret/*" { capabilities = ["read", "list"] }'}, self.token)
                call(self.url(name, "auth/token/lookup-self"), token=token)
                call(self.url(name, "auth/token/renew-self"), "POST", {}, token)
                call(self.url(name, "auth/token/revoke-self"), "POST", {}, token)
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
            time.sleep(0.05)


class Prometheus:
    def __init__(self, folder, cluster):
        [port] = free_ports(1)
        self.at = f"http://127.0.0.1:{port}"
        targets = [f"127.0.0.1:{cluster.api[name]}" for name in NAMES]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [os.path.abspath(f"{CONTRIB}/prometheus/kallisto.rules.yml")],
            "scrape_configs": [{
                "job_name": "kallisto", "scheme": "https", "metrics_path": "/v1/sys/metrics",
                "params": {"format": ["prometheus"]}, "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": targets}]}],
        }
        with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as out:
            json.dump(config, out)
        log = open(f"{folder}/prometheus.log", "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
        for _ in range(600):
            try:
                call(f"{self.at}/-/ready")
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise SystemExit("prometheus did not start")

    def query(self, expression):
        text = urllib.parse.urlencode({"query": expression})
        return json.loads(call(f"{self.at}/api/v1/query?{text}"))["data"]["result"]

    def alerts(self):
        found = json.loads(call(f"{self.at}/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in found}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def expressions(dashboard):
    """Every query of a dashboard, wherever it stands."""
    if isinstance(dashboard, dict):
        if isinstance(dashboard.get("expr"), str):
            yield dashboard["expr"]
        for value in dashboard.values():
            yield from expressions(value)
    elif isinstance(dashboard, list):
        for value in dashboard:
            yield from expressions(value)


def without_data(prometheus, queries):
    """Those of the queries that nothing is found for."""
    def ask():
        empty = [query for query in queries if not prometheus.query(filled_in(query))]
        return not empty, empty
    return until(ask)[1]


def one_leads(prometheus):
    def ask():
        sums = [float(one["value"][1]) for one in prometheus.query("sum(vault_core_active)")]
        return sums == [1.0], sums
    return until(ask)


def filled_in(expression, mount="secret"):
    for name, value in [("job", "kallisto"), ("metrics_prefix", "vault"), ("mountpoint", mount), ("node", "127.0.0.1")]:
        expression = expression.replace("${" + name + "}", value).replace("$" + name, value)
    return expression.replace("$__rate_interval", "15s").replace("[1h]", "[1m]")


def main():
    binary, others = sys.argv[1], sys.argv[2:]
    folder = tempfile.mkdtemp(prefix="kallisto-ops-")
    os.chmod(folder, 0o700)
    cluster = Cluster(os.path.abspath(binary), folder)
    prometheus = None
    try:
        cluster.form()
        cluster.settle()
        prometheus = Prometheus(folder, cluster)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(cluster.load, [time.time() + LOAD_SECS] * 2))
        for name in NAMES:
            text = call(cluster.url(name, "sys/metrics?format=prometheus"))
            judged = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
            found = {line.split(" ")[0] for line in (judged.stdout + judged.stderr).decode().splitlines() if line}
            check(not found - VAULT_SPELLED, f"promtool finds nothing at {name} but names that Vault spelled so: {sorted(found)}")
        print(f"      {len(text.splitlines())} lines a scrape")
        dashboard = json.load(open(f"{CONTRIB}/grafana/kallisto.json", encoding="utf-8"))
        queries = sorted(set(expressions(dashboard)))
        empty = without_data(prometheus, queries)
        check(not empty, f"{len(queries)} queries of the dashboard have data, before: {empty}")
        rules = json.loads(call(f"{prometheus.at}/api/v1/rules"))["data"]["groups"][0]["rules"]
        for rule in rules:
            series = sorted(set(re.findall(r"\b(?:vault|kallisto|process)_\w+", rule["query"])))
            absent = without_data(prometheus, series)
            check(not absent and rule["health"] == "ok", f"{rule['name']} has something to look at: {absent}")
        # Those that wait for their time are told too: one of a scrape that was missed goes with the next.
        is_quiet, told = until(lambda: (lambda told: (not told, told))(prometheus.alerts() - {"KallistoLeadChangesOften"}))
        check(is_quiet, f"no alert while all is well: {sorted(told)}")
        holds, sums = one_leads(prometheus)
        check(holds, f"one server leads: {sums}")
        gone = until(lambda: (lambda name: (name is not None, name))(cluster.leader()))[1]
        cluster.running[gone].terminate()
        cluster.running.pop(gone).wait()
        print(f"      {gone} led and was stopped")
        cluster.load(time.time() + LOAD_SECS)
        holds, sums = one_leads(prometheus)
        check(holds, f"one server leads behind the failover: {sums}")
        check(gone != cluster.leader(), "another one")
        left = lambda: [float(one["value"][1]) for one in prometheus.query("max(vault_autopilot_failure_tolerance)")]
        holds, found = until(lambda: (lambda found: (found == [0.0], found))(left()))
        check(holds, f"no further server may fail: {found}")
        empty = without_data(prometheus, queries)
        check(not empty, f"{len(queries)} queries of the dashboard have data, behind the failover: {empty}")
        wanted = {"KallistoDown", "KallistoNoToleranceLeft"}
        holds, due = until(lambda: (lambda due: (wanted <= due, due))(prometheus.alerts()))
        check(holds, f"the alerts are due that should be: {sorted(due)}")
        for path in others:
            foreign = sorted(set(expressions(json.load(open(path, encoding="utf-8")))))
            apply = [query for query in foreign if not FOREIGN.search(query)]
            empty = without_data(prometheus, apply)
            check(not empty, f"{len(apply)} of {len(foreign)} queries of {os.path.basename(path)} apply and have data: {empty}")
    finally:
        if prometheus:
            prometheus.stop()
        cluster.stop_all()
        if failures:
            for name in NAMES:
                print(f"--- {name}", open(f"{folder}/{name}.log", encoding="utf-8").read()[-1500:])
        subprocess.run(["rm", "-rf", folder], check=False)
    print(f"{checks - failures} of {checks} hold")
    return bool(failures)


sys.exit(main())
