"""What happens to a cluster that runs: its leader is killed, it grows to five servers and shrinks again, and it is given TLS."""

import os
import signal
import subprocess

from cluster import CHART, NAMES, SET, check, guard, members, until

FIVE = [f"{SET}-{number}" for number in range(5)]


def leader_is_killed(cluster, client):
    """The process, not the pod: the kubelet starts the container again."""
    dead = cluster.active()[0]
    os.kill(cluster.nodes.pod(dead).first(), signal.SIGKILL)
    until(lambda: cluster.active() and dead not in cluster.active() and len(cluster.active()) == 1, "the leader's process is killed: the label is another pod's")
    until(lambda: cluster.endpoints(f"{SET}-active") == cluster.active(), "and the service of the leader has that pod alone")
    until(lambda: cluster.ready() == NAMES, "the container was started again, and its pod is ready")
    restarts = {name: pod["status"]["containerStatuses"][0]["restartCount"] for name, pod in cluster.pods().items()}
    check(restarts == {name: int(name == dead) for name in NAMES}, f"no other container was: {restarts}")
    client.ask("PUT", "kv/after-kill", {"value": "a"})


def five_and_three_again(cluster, client, values):
    cluster.helm("upgrade", SET, str(CHART), values={**values, "replicas": 5})
    until(lambda: cluster.ready(FIVE) == FIVE and cluster.rolled(), "helm upgrade to five servers: five pods are ready", secs=300)
    until(lambda: members(client) == [(name, True) for name in FIVE], "all five are members, and vote")
    until(lambda: guard(cluster)["disruptionsAllowed"] == 2, "and two of them may be away")
    until(lambda: all(pod["metadata"]["labels"].get("vault-sealed") == "false" for pod in cluster.pods(FIVE).values()), "the new ones may label their pods too")
    token = {"KALLISTO_TOKEN": client.token}
    for name in FIVE[:2:-1]:
        cluster.exec(NAMES[0], "kallisto", "operator", "raft", "remove-peer", name, env=token)
    cluster.helm("upgrade", SET, str(CHART), values=values)
    until(lambda: sorted(cluster.pods(FIVE)) == NAMES and cluster.ready() == NAMES and cluster.rolled(), "two are removed as members, and helm upgrade to three: three pods are ready", secs=300)
    until(lambda: members(client) == [(name, True) for name in NAMES], "and three servers are members, and vote")


def tls(cluster, client, values):
    """As docs/kubernetes.md says, while clients are away: they have to change from http to https with the servers."""
    names = [f"*.{SET}-internal", f"*.{SET}-internal.secrets.svc", f"{SET}.secrets.svc"]
    made = cluster.work / "certificate"
    subprocess.run([str(cluster.image / "usr/bin/kallisto"), "operator", "make-certificate", f"-dir={made}", *(f"-name={name}" for name in names)], check=True, capture_output=True)
    data = {there: (made / here).read_text() for there, here in (("tls.crt", "cert.pem"), ("tls.key", "key.pem"), ("ca.crt", "ca.pem"))}
    cluster.api.post(cluster.of("secrets"), {"metadata": {"name": "kallisto-tls"}, "type": "kubernetes.io/tls", "stringData": data})
    cluster.helm("upgrade", SET, str(CHART), values={**values, "tls": {"secretName": "kallisto-tls"}})
    until(cluster.rolled, "helm upgrade to TLS: three pods of the new revision are ready", secs=300)
    told = {"KALLISTO_ADDR": f"https://{SET}.secrets.svc:8200", "KALLISTO_TOKEN": client.token}
    for name in NAMES:
        value = os.urandom(8).hex()
        cluster.exec(name, "kallisto", "write", f"kv/tls-{name}", f"value={value}", env=told)
        read = until(lambda name=name: cluster.exec(name, "kallisto", "read", "-field=value", f"kv/tls-{name}", env=told), f"{name} writes and reads through the service, with the certificate's name")
        check(read.strip() == value, "what was written")
    cluster.helm("test", SET)
    check(True, "helm test with TLS: its pod is content")
