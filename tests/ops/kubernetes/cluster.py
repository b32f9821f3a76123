"""What the walks ask of everything that runs: the API server by helm and by hand, the pods of a set, and a client of their service."""

import json
import os
import pathlib
import subprocess
import time

import network
from control import ControlPlane, Refused
from load import Client
from node import Nodes

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "contrib/helm/kallisto"
SPACE, SET, NODES = "secrets", "kallisto", 5
NAMES = [f"{SET}-{number}" for number in range(3)]


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    print("ok   ", what, flush=True)


def until(condition, what, secs=120):
    end, said = time.monotonic() + secs, None
    while time.monotonic() < end:
        try:
            said = condition()
            if said:
                print("ok   ", what, flush=True)
                return said
        except (OSError, KeyError, Refused) as error:
            said = error
        time.sleep(0.1)
    raise SystemExit(f"not within {secs} s: {what}; last {said!r}")


class Cluster:
    """What the walk asks of everything that runs."""

    def __init__(self, work, binary, helm, binaries):
        self.work, self.helm_binary = work, helm
        image = work / "image"
        subprocess.run([str(ROOT / "contrib/container/root.sh"), binary, str(image)], check=True, capture_output=True)
        self.network = network.Network(work / "names")
        self.plane = ControlPlane(binaries, work / "plane")
        self.api = self.plane.api
        self.image, self.nodes = image, None

    def start(self):
        self.plane.start()
        self.nodes = Nodes(self.api, self.network, self.image, self.work / "pods", NODES)
        self.api.post("/api/v1/namespaces", {"metadata": {"name": SPACE}})

    def helm(self, *words, values=None, secs=120):
        env = {"PATH": os.environ["PATH"], "KUBECONFIG": str(self.plane.kubeconfig), "HOME": str(self.work)}
        if values is not None:
            (self.work / "values.json").write_text(json.dumps(values))
            words = (*words, "-f", f"{self.work}/values.json")
        done = subprocess.run([self.helm_binary, "-n", SPACE, *words], env=env, capture_output=True, text=True, timeout=secs)
        if done.returncode != 0:
            raise SystemExit(f"helm {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def of(self, path):
        return f"/api/v1/namespaces/{SPACE}/{path}"

    def volumes(self, count, size):
        """Volumes by hand, as an administrator without a provisioner makes them."""
        for number in range(count):
            self.api.post("/api/v1/persistentvolumes", {"metadata": {"name": f"volume-{number}"}, "spec": {
                "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": f"{self.work}/volume-{number}"},
            }})

    def pods(self, names=NAMES):
        return {one["metadata"]["name"]: one for one in self.api.items(self.of("pods")) if one["metadata"]["name"] in names}

    def ready(self, names=NAMES):
        return sorted(name for name, pod in self.pods(names).items() if is_ready(pod))

    def active(self, names=NAMES):
        return sorted(name for name, pod in self.pods(names).items() if pod["metadata"]["labels"].get("vault-active") == "true")

    def address_of(self, service):
        return self.api.get(self.of(f"services/{service}"))["spec"]["clusterIP"]

    def endpoints(self, service):
        slices = self.api.items(f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices")
        found = [endpoint for one in slices if one["metadata"]["labels"]["kubernetes.io/service-name"] == service for endpoint in one["endpoints"] or [] if network.ready(endpoint)]
        return sorted(one["targetRef"]["name"] for one in found)

    def set(self):
        return self.api.get(f"/apis/apps/v1/namespaces/{SPACE}/statefulsets/{SET}")

    def rolled(self):
        status = self.set()
        told = status["status"]
        seen = told.get("observedGeneration") == status["metadata"]["generation"]
        return seen and told.get("updatedReplicas") == told.get("readyReplicas") == told["replicas"] and told["currentRevision"] == told["updateRevision"]

    def exec(self, name, *words, env=None):
        done = self.nodes.pod(name).run(list(words), env=env)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} in {name}: {done.stdout}{done.stderr}")
        return done.stdout

    def logs(self):
        pods = self.nodes.pods.values() if self.nodes else []
        faults = "\n".join(self.nodes.faults[-30:]) if self.nodes else ""
        return "\n".join([self.plane.logs(), *(f"--- {pod.folder.name}\n{pod.log()[-4000:]}" for pod in pods), f"--- nodes\n{faults}"])

    def end(self):
        if self.nodes:
            self.nodes.end()
        self.plane.end()


def is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def guard(cluster):
    return cluster.api.get(f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/{SET}")["status"]


def client_of(cluster, token, service=SET):
    """A client of the service, whose address answers a moment after the endpoints are there."""
    client = Client(f"http://{cluster.address_of(service)}:8200")
    client.token = token
    until(lambda: not client.ask("GET", "sys/seal-status")["sealed"], "the address of the service answers")
    return client


def members(client):
    found = client.ask("GET", "sys/storage/raft/configuration")["data"]["config"]["servers"]
    return sorted((one["node_id"], one["voter"]) for one in found)
