"""Plays scheduler and kubelet for a few nodes that do not exist: every pod of the API server is bound, and run on this machine.

A container is a process in namespaces of its own (container.py), in the file tree of the image. What is honoured: command, arguments and environment with
their `$(VARIABLES)` and those of services, volumes, user and groups, read-only roots, probes, `preStop`, the grace period, restarts, anti-affinity of
the kind "one a node". What is not: init containers, more than one container in a pod, limits of memory and processor, startup probes.

`Nodes` looks at the API server a few times a second, and has a thread for each pod.
"""

import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import threading
import time

import volumes
from control import Refused
from network import HOST

LOOK_SECS = 0.2
RESTART_SECS = 10
CONTAINER = str(pathlib.Path(__file__).with_name("container.py"))
SPACES = ("--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
PATH = "/usr/local/bin:/usr/bin:/bin"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def children(number):
    """Of a process that has one thread."""
    return [int(word) for word in pathlib.Path(f"/proc/{number}/task/{number}/children").read_text().split()]


class Nodes:
    def __init__(self, api, network, image, work, count):
        self.api, self.network, self.image, self.work = api, network, pathlib.Path(image), pathlib.Path(work)
        self.work.mkdir()
        self.names = [f"node-{number}" for number in range(count)]
        self.pods, self.faults, self.over = {}, [], threading.Event()
        for name in self.names:
            api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.over.wait(LOOK_SECS):
            try:
                self.network.follow(self.api.items("/api/v1/services"), self.api.items("/apis/discovery.k8s.io/v1/endpointslices"))
                listed = self.api.items("/api/v1/pods")
                for pod in listed:
                    self.look_at(pod, listed)
            except (OSError, Refused, KeyError) as error:
                self.faults.append(f"{now()} {error!r}")

    def look_at(self, pod, listed):
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        if not pod["spec"].get("nodeName"):
            self.schedule(pod, listed)
        elif uid not in self.pods:
            self.pods[uid] = Pod(self, pod)
        elif meta.get("deletionTimestamp"):
            self.pods[uid].end_within(meta["deletionGracePeriodSeconds"])

    def schedule(self, pod, listed):
        """One pod of a kind on each node; the claims of a pod have their volumes before it is bound."""
        space, kind = pod["metadata"]["namespace"], kind_of(pod)
        taken = {one["spec"].get("nodeName") for one in listed if kind is not None and kind_of(one) == kind}
        free = [name for name in self.names if name not in taken]
        claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["spec"].get("volumes", []) if "persistentVolumeClaim" in one]
        bound = [self.api.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}")["status"].get("phase") for name in claims]
        if free and all(phase == "Bound" for phase in bound):
            name = pod["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": free[0]}
            self.api.post(f"/api/v1/namespaces/{space}/pods/{name}/binding", {"metadata": {"name": name}, "target": target})

    def pod(self, name):
        """The pod of this name that runs."""
        found = [one for one in self.pods.values() if one.name == name and not one.gone.is_set()]
        return found[-1] if found else None

    def end(self):
        self.over.set()
        self.thread.join(30)
        for pod in self.pods.values():
            pod.end_within(1)
        for pod in self.pods.values():
            pod.gone.wait(30)


def kind_of(pod):
    return pod["metadata"].get("labels", {}).get("app.kubernetes.io/name")


class Probe:
    """A probe of a container, and what it said so often that it counts."""

    def __init__(self, spec, good):
        self.spec, self.good = spec, good
        self.next = time.monotonic() + spec.get("initialDelaySeconds", 0)
        self.same = 0

    def due(self):
        return time.monotonic() >= self.next

    def ask(self, pod):
        said = self.http(pod) if "httpGet" in self.spec else pod.run(self.spec["exec"]["command"], secs=self.spec["timeoutSeconds"]).returncode == 0
        self.next = time.monotonic() + self.spec["periodSeconds"]
        self.same = 0 if said == self.good else self.same + 1
        if self.same >= self.spec["successThreshold" if said else "failureThreshold"]:
            self.good, self.same = said, 0

    def http(self, pod):
        wanted, secs = self.spec["httpGet"], self.spec["timeoutSeconds"]
        port = wanted["port"]
        if isinstance(port, str):
            port = next(one["containerPort"] for one in pod.container["ports"] if one["name"] == port)
        if wanted.get("scheme") == "HTTPS":
            # The kubelet looks at no certificate.
            asked = http.client.HTTPSConnection(pod.address, port, timeout=secs, context=ssl._create_unverified_context())
        else:
            asked = http.client.HTTPConnection(pod.address, port, timeout=secs)
        try:
            asked.request("GET", wanted["path"])
            return 200 <= asked.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()


class Pod:
    def __init__(self, nodes, pod):
        self.nodes, self.object = nodes, pod
        meta, self.spec = pod["metadata"], pod["spec"]
        self.name, self.space, self.uid = meta["name"], meta["namespace"], meta["uid"]
        self.container = self.spec["containers"][0]
        self.folder = nodes.work / f"{self.name}-{self.uid[:8]}"
        self.folder.mkdir()
        self.path = f"/api/v1/namespaces/{self.space}/pods/{self.name}"
        self.process, self.restarts, self.ready, self.started, self.told = None, 0, False, now(), None
        self.secs_to_end, self.grace, self.ending, self.gone = 0.0, None, threading.Event(), threading.Event()
        self.namespace, self.address = nodes.network.add_pod()
        threading.Thread(target=self.live, daemon=True).start()

    # What it runs.

    def begin(self):
        """Lays out the files of the container, and starts it."""
        root = self.folder / f"root{self.restarts}"
        subprocess.run(["cp", "-al", str(self.nodes.image), str(root)], check=True)
        for place in ("proc", "dev", "run/names"):
            (root / place).mkdir(parents=True)
        (root / "etc/hosts").symlink_to("/run/names/hosts")
        laid = volumes.lay(self.nodes.api, self.object, self.folder / "volumes")
        mounts = [{"source": str(self.nodes.network.folder), "target": "/run/names", "read_only": True}]
        for one in self.container.get("volumeMounts", []):
            source = laid[one["name"]] / one.get("subPath", "")
            mounts.append({"source": str(source), "target": one["mountPath"], "read_only": one.get("readOnly", False)})
        guard = {**self.spec.get("securityContext", {}), **self.container.get("securityContext", {})}
        self.made = {
            "root": str(root), "mounts": mounts, "hostname": self.name, "read_only": guard.get("readOnlyRootFilesystem", False), "user": guard.get("runAsUser", 10001),
            "group": guard.get("runAsGroup", 10001), "groups": [guard["fsGroup"]] if "fsGroup" in guard else [], "env": self.env(),
        }
        words = [*self.container.get("command", ["/usr/local/bin/docker-entrypoint.sh"]), *self.container.get("args", [])]
        self.probes = {kind: Probe(self.container[kind], good) for kind, good in (("readinessProbe", False), ("livenessProbe", True)) if kind in self.container}
        spec = self.write_spec("begin", words)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", *SPACES, sys.executable, CONTAINER, "begin", spec],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )

    def write_spec(self, name, words):
        filled = [re.sub(r"\$\((\w+)\)", lambda found: self.made["env"].get(found[1], found[0]), word) for word in words]
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({**self.made, "words": filled}))
        return str(file)

    def env(self):
        env = {"PATH": PATH, "HOME": "/tmp", "HOSTNAME": self.name, **self.services()}
        pod = {**self.object, "status": {"podIP": self.address, "hostIP": HOST}}
        for one in self.container.get("env", []):
            source = one.get("valueFrom", {})
            if "fieldRef" in source:
                env[one["name"]] = volumes.field(pod, source["fieldRef"]["fieldPath"])
            elif "secretKeyRef" in source:
                wanted = source["secretKeyRef"]
                env[one["name"]] = volumes.read(self.nodes.api, self.space, "secret", wanted["name"])[wanted["key"]].decode()
            else:
                env[one["name"]] = re.sub(r"\$\((\w+)\)", lambda found: env.get(found[1], found[0]), one.get("value", ""))
        return env

    def services(self):
        """The variables in which Kubernetes tells a container of services: those of its namespace, and that of the API server."""
        made = {}
        for service in self.nodes.api.items("/api/v1/services"):
            space, address = service["metadata"]["namespace"], service["spec"].get("clusterIP", "None")
            of_cluster = service["metadata"]["name"] == "kubernetes" and space == "default"
            if address == "None" or not (of_cluster or (space == self.space and self.spec.get("enableServiceLinks", True))):
                continue
            name, ports = service["metadata"]["name"].upper().replace("-", "_"), service["spec"]["ports"]
            made |= {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0]["port"]), f"{name}_PORT": f"tcp://{address}:{ports[0]['port']}"}
            for port in ports:
                start = f"{name}_PORT_{port['port']}_TCP"
                made |= {start: f"tcp://{address}:{port['port']}", f"{start}_PROTO": "tcp", f"{start}_PORT": str(port["port"]), f"{start}_ADDR": address}
                if "name" in port:
                    made[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
        return made

    def first(self):
        """The number of the container's first process, outside of its namespace."""
        found = children(self.process.pid)
        return found[0] if found else None

    def run(self, words, secs=60, env=None):
        """A command in the container, as `kubectl exec` and probes run it."""
        spec = self.write_spec(f"enter-{threading.get_ident()}", ["env", *(f"{name}={value}" for name, value in (env or {}).items()), *words])
        enter = ["nsenter", f"--target={self.first()}", "--net", "--mount", "--pid", "--uts", "--ipc", sys.executable, CONTAINER, "enter", spec]
        process = subprocess.Popen(enter, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            said = process.communicate(timeout=secs)
        except subprocess.TimeoutExpired:
            # `nsenter` ends with its child; without it the child would be nobody's, and its namespace could not end.
            for child in children(process.pid):
                os.kill(child, signal.SIGKILL)
            said = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, *said)

    # How it lives.

    def live(self):
        try:
            while not self.ending.is_set() and not self.tried_to_begin():
                self.ending.wait(1)
            while not self.ending.is_set() and self.look():
                self.ending.wait(0.1)
            # What a pod ran that is run once is over; its object stays.
            self.ending.wait()
            self.stop()
            self.nodes.api.delete(self.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})
        except (OSError, Refused, subprocess.SubprocessError) as error:
            self.nodes.faults.append(f"{now()} {self.name}: {error!r}")
        finally:
            self.kill()
            self.nodes.network.remove_pod(self.namespace)
            self.gone.set()

    def tried_to_begin(self):
        try:
            self.begin()
            self.tell("Running")
            return True
        except volumes.NotYet as error:
            self.nodes.faults.append(f"{now()} {self.name}: {error}")
            return False

    def look(self):
        """Asks the probes that are due; ends when nothing runs any more."""
        code = self.process.poll()
        if code is not None:
            return self.restart_after(code)
        for probe in self.probes.values():
            if probe.due():
                probe.ask(self)
        if not self.probe_says("livenessProbe"):
            self.nodes.faults.append(f"{now()} {self.name}: not alive")
            self.stop()
            return True
        self.ready = self.probe_says("readinessProbe")
        self.tell("Running")
        return True

    def probe_says(self, kind):
        return self.probes[kind].good if kind in self.probes else True

    def restart_after(self, code):
        self.ready = False
        if self.spec["restartPolicy"] == "Never":
            self.tell("Failed" if code else "Succeeded")
            return False
        self.nodes.faults.append(f"{now()} {self.name}: ended with {code}")
        self.tell("Running")
        if self.restarts:
            self.ending.wait(RESTART_SECS)
        self.restarts += 1
        if not self.ending.is_set():
            self.begin()
        return True

    def end_within(self, secs):
        self.grace = secs
        self.ending.set()

    def stop(self):
        """`preStop`, SIGTERM, and SIGKILL when the grace period is over; readiness is told meanwhile."""
        grace = self.spec["terminationGracePeriodSeconds"] if self.grace is None else self.grace
        end = time.monotonic() + grace
        if self.process is None or self.process.poll() is not None:
            return
        hook = self.container.get("lifecycle", {}).get("preStop", {}).get("exec")
        if hook:
            self.run(hook["command"], secs=grace)
        first = self.first()
        if first is not None:
            os.kill(first, signal.SIGTERM)
        while self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        self.secs_to_end = grace - (end - time.monotonic())
        if self.process.poll() is None:
            self.nodes.faults.append(f"{now()} {self.name}: killed after {grace} s")
            self.kill()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            # The first of its namespace takes all others with it.
            os.kill(self.first() or self.process.pid, signal.SIGKILL)
            self.process.wait()

    # What it says.

    def tell(self, phase):
        ready = "True" if self.ready else "False"
        running = self.process is not None and self.process.poll() is None
        state = {"running": {"startedAt": self.started}} if running else {"terminated": {"exitCode": self.process.returncode or 0}}
        said = (phase, ready, running, self.restarts)
        if said == self.told:
            return
        condition = lambda kind, status: {"type": kind, "status": status, "lastTransitionTime": now()}
        self.nodes.api.merge(f"{self.path}/status", {"status": {
            "phase": phase, "podIP": self.address, "podIPs": [{"ip": self.address}], "hostIP": HOST, "startTime": self.started,
            "conditions": [condition("PodScheduled", "True"), condition("Initialized", "True"), condition("ContainersReady", ready), condition("Ready", ready)],
            "containerStatuses": [{
                "name": self.container["name"], "image": self.container["image"], "imageID": "", "ready": self.ready, "restartCount": self.restarts, "started": running, "state": state,
            }],
        }})
        self.told = said

    def log(self):
        file = self.folder / "log"
        return file.read_text(errors="replace") if file.exists() else ""
