"""Vault's chart, unchanged, on the API server: installed, initialised and unsealed by hand, and rolled over pod by pod, as its documents say."""

import json

import cluster as common
from cluster import check, until

RELEASE = "vault"
NAMES = [f"{RELEASE}-{number}" for number in range(3)]
VALUES = {
    "injector": {"enabled": False},
    "server": {"image": {"repository": "registry.example.com/kallisto", "tag": "0.2.0"}, "ha": {"enabled": True, "replicas": 3, "raft": {"enabled": True, "setNodeId": True}}},
}


def walk(cluster, chart):
    cluster.helm("install", RELEASE, chart, values=VALUES)
    running = lambda: {name: pod for name, pod in cluster.pods(NAMES).items() if pod["status"]["phase"] == "Running"}
    until(lambda: sorted(running()) == NAMES, "Vault's chart: three pods run")
    until(lambda: all(pod["metadata"]["labels"].get("vault-sealed") == "true" for pod in running().values()), "Vault's chart: their labels say that they are sealed")
    made = json.loads(cluster.exec(NAMES[0], "vault", "operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json"))
    share, token = made["unseal_keys_b64"][0], made["root_token"]
    for name in NAMES:
        if name != NAMES[0]:
            cluster.exec(name, "vault", "operator", "raft", "join", f"http://{NAMES[0]}.{RELEASE}-internal:8200")
        cluster.exec(name, "vault", "operator", "unseal", share)
    until(lambda: cluster.ready(NAMES) == NAMES, "Vault's chart: joined and unsealed, three pods are ready")
    roll(cluster, chart, share, token)
    cluster.helm("test", RELEASE)
    check(True, "Vault's chart: helm test is content")


def roll(cluster, chart, share, token):
    """The chart has `OnDelete`: standbys first, the leader last, each unsealed before the next."""
    client = common.client_of(cluster, token, RELEASE)
    client.ask("POST", "sys/mounts/kv", {"type": "kv"})
    client.ask("PUT", "kv/before", {"value": "a"})
    changed = {**VALUES, "server": {**VALUES["server"], "annotations": {"example.com/changed": "yes"}}}
    cluster.helm("upgrade", RELEASE, chart, values=changed)
    until(lambda: cluster.endpoints(f"{RELEASE}-active") == cluster.active(NAMES) and len(cluster.active(NAMES)) == 1, "Vault's chart: its service of the leader has the leader alone")
    until(lambda: len(cluster.endpoints(f"{RELEASE}-standby")) == 2, "Vault's chart: its service of standbys has the two others")
    leader = cluster.active(NAMES)[0]
    for name in [*(name for name in NAMES if name != leader), leader]:
        old = cluster.pods(NAMES)[name]["metadata"]["uid"]
        cluster.api.delete(cluster.of(f"pods/{name}"))
        fresh = lambda name=name, old=old: cluster.pods(NAMES)[name]["metadata"]["uid"] != old and cluster.pods(NAMES)[name]["metadata"]["labels"].get("vault-sealed") == "true"
        until(fresh, f"Vault's chart: {name} is replaced, and sealed")
        cluster.exec(name, "vault", "operator", "unseal", share)
        until(lambda: cluster.ready(NAMES) == NAMES, f"Vault's chart: {name} is ready again")
    until(lambda: cluster.active(NAMES) and leader not in cluster.active(NAMES) and cluster.endpoints(f"{RELEASE}-active") == cluster.active(NAMES), "Vault's chart: another leads, and its service follows")
    until(lambda: client.ask("GET", "kv/before")["data"] == {"value": "a"}, "Vault's chart: what was written before is there")
