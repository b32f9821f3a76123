#!/usr/bin/env python3
"""Three pods on a real kube-apiserver: installed by helm, initialised, rolled over under load, rolled back, tested and uninstalled.

  walk.py KALLISTO HELM BINARIES [VAULT_HELM]

BINARIES is a folder with kube-apiserver and kube-controller-manager (build.sh), VAULT_HELM one with the sources of hashicorp/vault-helm. API server, controllers (StatefulSet, EndpointSlice, disruption, claims, tokens,
garbage), etcd and helm are the real ones. Scheduler, kubelet, kube-proxy and DNS are played by node.py and network.py, since there is no
container runtime: a container is the tree of the image in namespaces of its own, without limits of memory and processor.

Needs root, and Debian's etcd-server, iproute2, openssl and busybox-static.
"""

import base64
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import changes
import foreign
import network
from cluster import CHART, NAMES, SET, Cluster, check, client_of, guard, is_ready, members, until
from load import Load

VALUES = {"image": {"repository": "registry.example.com/kallisto"}, "autoUnseal": {"type": "static", "secretName": "kallisto-unseal"}}


def install(cluster):
    """As docs/kubernetes.md says, with a seal that needs nobody."""
    key = base64.b64encode(os.urandom(32)).decode()
    cluster.api.post(cluster.of("secrets"), {"metadata": {"name": "kallisto-unseal"}, "stringData": {"key": key}})
    notes = cluster.helm("install", SET, str(CHART), values=VALUES)
    check("kallisto operator init" in notes, "helm install: the notes say what comes next")
    until(lambda: sorted(cluster.pods()) == NAMES and all(pod["status"]["phase"] == "Running" for pod in cluster.pods().values()), "three pods run")
    until(lambda: all(pod["metadata"]["labels"].get("vault-initialized") == "false" for pod in cluster.pods().values()), "their labels say that they are not initialised")
    check(cluster.ready() == cluster.active() == cluster.endpoints(SET) == [], "and none is ready, leads, or is an endpoint of the service")


def initialise(cluster):
    made = json.loads(cluster.exec(NAMES[0], "kallisto", "operator", "init", "-format=json"))
    until(lambda: cluster.ready() == NAMES, "initialised: three pods are ready")
    until(lambda: len(cluster.active()) == 1, "one of them is labelled as the leader")
    until(lambda: cluster.endpoints(SET) == NAMES, "the service has all three as endpoints")
    until(lambda: cluster.endpoints(f"{SET}-active") == cluster.active(), "the service of the leader has it alone")
    budget = until(lambda: guard(cluster) if guard(cluster)["disruptionsAllowed"] else None, "the PodDisruptionBudget allows a disruption")
    check((budget["expectedPods"], budget["currentHealthy"], budget["desiredHealthy"], budget["disruptionsAllowed"]) == (3, 3, 2, 1), "of one pod, while two others are healthy")
    return made["root_token"]


class Watch:
    """Looks at the cluster while it rolls: never is more than one pod away, and what the leader's service has."""

    def __init__(self, cluster):
        self.cluster, self.ready_least, self.leaders, self.active_most = cluster, 3, [], 0

    def look(self):
        pods = self.cluster.pods()
        self.ready_least = min(self.ready_least, sum(is_ready(pod) for pod in pods.values()))
        active = sorted(name for name, pod in pods.items() if pod["metadata"]["labels"].get("vault-active") == "true")
        self.active_most = max(self.active_most, len(active))
        if active and active != self.leaders[-1:]:
            self.leaders.extend(active[-1:])
        return self.cluster.rolled()


def under_load(cluster, client, folder, what, change):
    """A change that rolls every pod, while a client writes and reads."""
    before = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    told = members(client)
    load, watch = Load(client, f"kv/{folder}"), Watch(cluster)
    until(lambda: len(load.written) > 5, f"{what}: a client writes and reads")
    start = time.monotonic()
    change()
    until(lambda: not cluster.rolled(), f"{what}: the rollout begins")
    until(watch.look, f"{what}: three pods of the new revision are ready", secs=300)
    secs = time.monotonic() - start
    until(lambda: len(cluster.active()) == 1 and cluster.endpoints(f"{SET}-active") == cluster.active(), f"{what}: one leads, and the service of the leader has it alone")
    load.end()
    after = {name: pod["metadata"]["uid"] for name, pod in cluster.pods().items()}
    check(set(after) == set(before) and not set(after.values()) & set(before.values()), f"{what}: every pod was replaced, in {secs:.0f} s; leaders by their labels: {watch.leaders}")
    check(watch.ready_least == 2, f"{what}: never fewer than {watch.ready_least} pods were ready")
    check(not load.lost, f"{what}: nothing acknowledged is lost or old {load.lost[:5] or ''}")
    print("      ", f"{what}: {load.says()}", flush=True)
    check(members(client) == told, f"{what}: the same three servers are members, and vote")
    ended = [pod for pod in cluster.nodes.pods.values() if pod.uid in before.values()]
    check(all(pod.secs_to_end < 20 for pod in ended), f"{what}: pods ended at most {max(pod.secs_to_end for pod in ended):.1f} s after they were told to")
    return load


def say_who_leads(cluster, client):
    """The labels say what the servers say."""
    said = client.ask("GET", "sys/ha-status")["nodes"]
    leads = [one["hostname"] for one in said if one["active_node"]]
    check(leads == cluster.active(), f"the label is that of the server that leads: {leads}")


def helm_test(cluster):
    cluster.helm("test", SET)
    check(True, "helm test: its pod asks the service, and is content")


def uninstall(cluster):
    cluster.helm("uninstall", SET)
    until(lambda: not cluster.api.items(cluster.of("pods")), "helm uninstall: the pods end")
    claims = {one["metadata"]["name"]: one["status"]["phase"] for one in cluster.api.items(cluster.of("persistentvolumeclaims"))}
    check({f"data-{name}": "Bound" for name in NAMES}.items() <= claims.items(), "the claims of their data stay")


def install_again(cluster, loads, token):
    """On the claims that stayed: all is there."""
    cluster.helm("install", SET, str(CHART), values=VALUES)
    until(lambda: cluster.ready() == NAMES, "helm install again: three pods are ready, without anybody")
    client = client_of(cluster, token)
    for load in loads:
        load.client = client
        load.end()
        check(not load.lost, f"all {len(load.written)} secrets of {load.folder} are there {load.lost[:5] or ''}")


def walk(cluster):
    cluster.start()
    # Of every pod that claims one: five of ours, three of the foreign chart.
    cluster.volumes(8, "10Gi")
    install(cluster)
    token = initialise(cluster)
    client = client_of(cluster, token)
    client.ask("POST", "sys/mounts/kv", {"type": "kv"})
    client.ask("PUT", "kv/first", {"value": "a"})
    check(client.ask("GET", "kv/first")["data"] == {"value": "a"}, "a secret is written and read through the service")
    until(lambda: members(client) == [(name, True) for name in NAMES], "three servers, named as their pods, are members, and vote")
    helm_test(cluster)
    changed = {**VALUES, "podAnnotations": {"example.com/changed": "yes"}, "env": [{"name": "KALLISTO_LOG_LEVEL", "value": "debug"}]}
    upgraded = under_load(cluster, client, "upgrade", "helm upgrade", lambda: cluster.helm("upgrade", SET, str(CHART), values=changed))
    say_who_leads(cluster, client)
    rolled_back = under_load(cluster, client, "rollback", "helm rollback", lambda: cluster.helm("rollback", SET))
    say_who_leads(cluster, client)
    changes.leader_is_killed(cluster, client)
    changes.five_and_three_again(cluster, client, VALUES)
    changes.tls(cluster, client, VALUES)
    uninstall(cluster)
    install_again(cluster, [upgraded, rolled_back], token)


def main(binary, helm, binaries, vault_helm=None):
    network.enter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    work = pathlib.Path(tempfile.mkdtemp(prefix="kallisto-kubernetes-"))
    cluster = Cluster(work, binary, helm, binaries)
    try:
        walk(cluster)
        if vault_helm:
            cluster.helm("uninstall", SET)
            foreign.walk(cluster, vault_helm)
        else:
            print("*** SKIPPED: Vault's chart on the API server: its sources were not given", flush=True)
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        cluster.end()
        shutil.rmtree(work, ignore_errors=True)


main(*(str(pathlib.Path(word).resolve()) for word in sys.argv[1:5]))
