#!/usr/bin/env python3
"""The charts of Vault and OpenBao, unchanged: what they run in a container is run with this binary under the name they call.

  foreign_charts.py KALLISTO HELM CHART...

CHART is a folder with the sources of hashicorp/vault-helm, or of charts/openbao of openbao/openbao-helm. Each is rendered as three servers with raft,
and as a dev server; the command, the environment, the configuration, the probe and the command of `helm test` are taken from what was rendered. There
is no cluster: places in the file system, ports and names are those of this machine, and everything else is as it was written.

Where buildah and runc are installed and this is root, the image of contrib/container is built, and one server of each chart runs in a container of it,
with the chart's user and without any change to its command, up to the command that Kubernetes runs before it ends a pod.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_ports  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENTRY = ROOT / "contrib/container/docker-entrypoint.sh"
BINARY, HELM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
CHARTS = [pathlib.Path(word).resolve() for word in sys.argv[3:]]
HA = {"injector": {"enabled": False}, "server": {"ha": {"enabled": True, "replicas": 3, "raft": {"enabled": True, "setNodeId": True}}, "logLevel": "debug", "logFormat": "json"}}
DEV = {"injector": {"enabled": False}, "server": {"dev": {"enabled": True}}}


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    print("ok   ", what, flush=True)


def until(condition, what, secs=40):
    end = time.monotonic() + secs
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"not within {secs} s: {what}")
        time.sleep(0.1)
    print("ok   ", what, flush=True)


def render(chart, values, work):
    file = work / "values.yaml"
    file.write_text(json.dumps(values))
    words = [HELM, "template", "release", str(chart), "--namespace", "secrets", "-f", str(file), "--kube-version", "1.31.0"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if made.returncode != 0:
        raise SystemExit(made.stderr)
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def of_kind(objects, kind):
    return [one for one in objects if one["kind"] == kind]


class Pod:
    """What a chart runs: a container of its StatefulSet."""

    def __init__(self, chart, objects):
        self.objects = objects
        self.spec = of_kind(objects, "StatefulSet")[0]["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self.command = [*self.container["command"], *self.container["args"]]
        # What the chart calls the server, and where it has its files.
        self.tool = re.search(r"docker-entrypoint\.sh (\w+) server", self.command[-1]).group(1)
        self.home = next(mount["mountPath"] for mount in self.container["volumeMounts"] if mount["name"] == "home")
        self.folder = f"/{pathlib.Path(self.home).name}"
        self.mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.chart = chart.name

    def config(self):
        maps = [one for one in of_kind(self.objects, "ConfigMap") if "extraconfig-from-values.hcl" in one["data"]]
        return maps[0]["data"]["extraconfig-from-values.hcl"] if maps else ""

    def env(self, name):
        """As Kubernetes would fill it."""
        fields = {"status.hostIP": "127.0.0.1", "status.podIP": "127.0.0.1", "metadata.name": name, "metadata.namespace": "secrets"}
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
        for variable in self.container["env"]:
            if "valueFrom" in variable:
                env[variable["name"]] = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                env[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: env[found.group(1)], str(variable.get("value") or ""))
        return env


class Process:
    """A server of a chart without a container."""

    def __init__(self, pod, number, work, ports):
        self.pod, self.name = pod, f"release-{pod.folder[1:]}-{number}"
        self.port, self.cluster_port = ports
        self.work = work / self.name
        (self.work / "bin").mkdir(parents=True)
        for folder in ("config", "data", "home", "tmp"):
            (self.work / folder).mkdir()
        for tool in ("kallisto", "vault", "bao"):
            (self.work / "bin" / tool).symlink_to(BINARY)
        (self.work / "config/extraconfig-from-values.hcl").write_text(self.here(pod.config()))
        self.env = {name: self.here(value) for name, value in pod.env(self.name).items()}
        self.env["PATH"] = f"{self.work}/bin:{os.environ['PATH']}"
        with open(self.work / "log", "wb") as log:
            words = [self.here(word) for word in pod.command]
            self.process = subprocess.Popen(words, env=self.env, stdout=log, stderr=log, cwd=self.work, start_new_session=True)

    def here(self, text):
        text = re.sub(r"https://[\w.-]+-internal:8201", f"https://127.0.0.1:{self.cluster_port}", text)
        for there, place in {
            "/usr/local/bin/docker-entrypoint.sh": str(ENTRY), "/tmp/storageconfig.hcl": f"{self.work}/tmp/storageconfig.hcl",
            f"{self.pod.folder}/config": f"{self.work}/config", f"{self.pod.folder}/data": f"{self.work}/data", self.pod.home: f"{self.work}/home",
            "[::]:8200": f"127.0.0.1:{self.port}", "[::]:8201": f"127.0.0.1:{self.cluster_port}", "127.0.0.1:8200": f"127.0.0.1:{self.port}",
        }.items():
            text = text.replace(there, place)
        return text

    def run(self, *words, env=None, **more):
        return subprocess.run(words, env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=60, cwd=self.work, **more)

    def probe(self):
        return self.run(*self.pod.container["readinessProbe"]["exec"]["command"]).returncode

    def log(self):
        return (self.work / "log").read_text()

    def end(self):
        # The shell and what it started: a session of its own, which is over when nobody of it is left.
        number, end = signal.SIGTERM, time.monotonic() + 20
        while True:
            self.process.poll()
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return
            number = signal.SIGKILL if time.monotonic() > end else 0
            time.sleep(0.05)


def three_servers(chart, work, running):
    pod = Pod(chart, render(chart, HA, work))
    ports = free_ports(6)
    servers = [Process(pod, number, work, ports[2 * number:2 * number + 2]) for number in range(3)]
    running.extend(servers)
    first = servers[0]
    until(lambda: all(one.probe() == 2 for one in servers), f"{pod.chart}: the probe says of three servers that they are there and sealed")
    made = first.run(pod.tool, "operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json")
    check(made.returncode == 0, f"{pod.chart}: `{pod.tool} operator init` {made.stderr}")
    made = json.loads(made.stdout)
    for one in servers:
        if one is not first:
            joined = one.run(pod.tool, "operator", "raft", "join", f"http://127.0.0.1:{first.port}")
            check(joined.returncode == 0, f"{pod.chart}: `{pod.tool} operator raft join` {joined.stderr}")
        unsealed = one.run(pod.tool, "operator", "unseal", made["unseal_keys_b64"][0])
        check(unsealed.returncode == 0, f"{pod.chart}: `{pod.tool} operator unseal` {unsealed.stderr}")
    until(lambda: all(one.probe() == 0 for one in servers), f"{pod.chart}: the probe says that all three are ready")
    token = {"VAULT_TOKEN": made["root_token"]}
    listed = first.run(pod.tool, "operator", "raft", "list-peers", "-format=json", env=token)
    peers = {one["node_id"] for one in json.loads(listed.stdout)["data"]["config"]["servers"]}
    check(peers == {one.name for one in servers}, f"{pod.chart}: the servers are called as their pods: {sorted(peers)}")
    tests = [one for one in of_kind(pod.objects, "Pod") if "server-test" in one["metadata"]["name"]]
    asked = first.run(*tests[0]["spec"]["containers"][0]["command"], env={"VAULT_ADDR": f"http://127.0.0.1:{first.port}"})
    check(asked.returncode == 0 and "sealed: false" in asked.stdout, f"{pod.chart}: what `helm test` runs is content")
    log = "".join(one.log() for one in servers)
    loggers = json.loads(first.run(pod.tool, "read", "-format=json", "sys/loggers", env=token).stdout)["data"]
    check('"@level":"' in log and set(loggers.values()) == {"debug"}, f"{pod.chart}: level and form of the log are the chart's")
    check("labels of this server's pod are not told" in log, f"{pod.chart}: service_registration is taken, and asks for the API server")
    check("unknown key" not in log and "is ignored" not in log, f"{pod.chart}: nothing in its configuration is unknown or ignored")
    for one in servers:
        one.end()
    check(all('asked to stop' in one.log() for one in servers), f"{pod.chart}: SIGTERM ends them")


def dev_server(chart, work, running):
    pod = Pod(chart, render(chart, DEV, work))
    server = Process(pod, 9, work, free_ports(2))
    running.append(server)
    until(lambda: server.probe() == 0, f"{pod.chart}: a dev server is ready")
    read = server.run(pod.tool, "secrets", "list", env={"VAULT_TOKEN": "root"})
    check(read.returncode == 0 and "secret/" in read.stdout, f"{pod.chart}: its root token is the chart's")
    server.end()


class Bundle:
    """A container of the image, run by runc with what the chart says."""

    def __init__(self, pod, image, work):
        self.pod, self.work, self.name = pod, work / pod.chart, f"kallisto-{os.getpid()}-{pod.folder[1:]}"
        (self.work / "rootfs").mkdir(parents=True)
        with tarfile.open(image) as archive:
            blob = lambda digest: archive.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}")
            index = json.load(archive.extractfile("index.json"))
            manifest = json.load(blob(index["manifests"][0]["digest"]))
            self.image = json.load(blob(manifest["config"]["digest"]))["config"]
            for layer in manifest["layers"]:
                with tarfile.open(fileobj=blob(layer["digest"])) as files:
                    files.extractall(self.work / "rootfs")
        subprocess.run(["runc", "spec"], cwd=self.work, check=True)
        user = pod.spec["securityContext"]
        binds = []
        for name, place in pod.mounts.items():
            folder = self.work / name
            folder.mkdir()
            # What fsGroup does.
            shutil.chown(folder, user["runAsUser"], user["runAsGroup"])
            options = ["rbind", "ro" if name == "config" else "rw"]
            binds.append({"destination": place, "type": "bind", "source": str(folder), "options": options})
        (self.work / "config/extraconfig-from-values.hcl").write_text(pod.config())
        spec = json.loads((self.work / "config.json").read_text())
        env = {**dict(one.split("=", 1) for one in self.image["Env"]), **pod.env("release-0")}
        spec["process"].update(
            terminal=False, args=pod.command, env=[f"{name}={value}" for name, value in env.items()], noNewPrivileges=True,
            user={"uid": user["runAsUser"], "gid": user["runAsGroup"], "additionalGids": [user["fsGroup"]]},
        )
        spec["root"]["readonly"] = False
        spec["mounts"].extend(binds)
        # Where groups of processes are not there, as inside of some containers, there is nothing to limit.
        spec["linux"].pop("resources", None)
        (self.work / "config.json").write_text(json.dumps(spec))
        with open(self.work / "log", "wb") as log:
            self.process = subprocess.Popen(["runc", "run", self.name], cwd=self.work, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def run(self, *words):
        return subprocess.run(["runc", "exec", self.name, *words], capture_output=True, text=True, timeout=60)

    def probe(self):
        return self.run(*self.pod.container["readinessProbe"]["exec"]["command"]).returncode

    def log(self):
        return (self.work / "log").read_text()

    def end(self):
        if self.process.poll() is None:
            subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, timeout=60)
            self.process.wait(30)


def digest(image):
    with tarfile.open(image) as archive:
        return json.load(archive.extractfile("index.json"))["manifests"][0]["digest"]


def in_a_container(chart, image, work, running):
    pod = Pod(chart, render(chart, HA, work))
    container = Bundle(pod, image, work)
    running.append(container)
    until(lambda: container.probe() == 2, f"{pod.chart}, in a container: the probe says that it is there and sealed")
    who = container.run("id").stdout
    check("uid=100" in who and "gid=1000" in who, f"{pod.chart}, in a container: it runs as the chart's user: {who.strip()}")
    made = json.loads(container.run(pod.tool, "operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json").stdout)
    container.run(pod.tool, "operator", "unseal", made["unseal_keys_b64"][0])
    until(lambda: container.probe() == 0, f"{pod.chart}, in a container: initialised and unsealed, it is ready")
    stop = container.run(*pod.container["lifecycle"]["preStop"]["exec"]["command"])
    check(stop.returncode == 0, f"{pod.chart}, in a container: the command before its end finds the server {stop.stderr}")
    container.process.wait(30)
    check("asked to stop" in container.log(), f"{pod.chart}, in a container: and ends it")


def entrypoint(work):
    """What the entry point makes of a container's words."""
    tools = work / "tools"
    tools.mkdir()
    for tool in ("kallisto", "vault", "bao"):
        (tools / tool).write_text(f'#!/bin/sh\necho "{tool} $* $KALLISTO_DEV_LISTEN_ADDRESS"\n')
        (tools / tool).chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    for words, made in {
        ("server", "-config=/a b.hcl"): "kallisto server -config=/a b.hcl 0.0.0.0:8200", ("server", "-dev"): "kallisto server -dev 0.0.0.0:8200",
        ("vault", "server", "-dev"): "vault server -dev 0.0.0.0:8200", ("bao", "status"): "bao status 0.0.0.0:8200", ("status",): "kallisto status 0.0.0.0:8200",
        ("--version",): "kallisto --version 0.0.0.0:8200", ("sh", "-c", "echo x"): "x", ("/bin/echo", "y"): "y",
    }.items():
        told = subprocess.run([str(ENTRY), *words], env=env, capture_output=True, text=True, timeout=10)
        check(told.stdout.strip() == made, f"{' '.join(words)} runs {told.stdout.strip()!r} {told.stderr}")
    told = subprocess.run([str(ENTRY), "server", "-dev"], env={**env, "VAULT_DEV_LISTEN_ADDRESS": "[::]:8200"}, capture_output=True, text=True, timeout=10)
    check(told.stdout.strip() == "kallisto server -dev", "an address that is given is left alone")


def main(work, running):
    entrypoint(work)
    for chart in CHARTS:
        for kind, run in (("ha", three_servers), ("dev", dev_server)):
            room = work / chart.name / kind
            room.mkdir(parents=True)
            run(chart, room, running)
    if not (shutil.which("buildah") and shutil.which("runc") and os.geteuid() == 0):
        print("*** SKIPPED: the image: buildah or runc is not installed, or this is not root: nothing ran in a container", flush=True)
        return
    # Twice, from the same files: the same image.
    image = work / "image.tar"
    env = {**os.environ, "BUILDAH_FLAGS": "--isolation=chroot --storage-driver=vfs"}
    built = subprocess.run([str(ROOT / "contrib/container/build.sh"), BINARY, f"oci-archive:{image}"], env=env, capture_output=True, text=True, timeout=300)
    check(built.returncode == 0, f"the image is built {built.stderr[-2000:] if built.returncode else ''}")
    again = work / "again.tar"
    subprocess.run([str(ROOT / "contrib/container/build.sh"), BINARY, f"oci-archive:{again}"], env=env, capture_output=True, check=True, timeout=300)
    check(digest(again) == digest(image), f"and once more, with the same digest: {digest(image)}")
    (work / "containers").mkdir()
    for chart in CHARTS:
        in_a_container(chart, image, work / "containers", running)


folder = pathlib.Path(tempfile.mkdtemp(prefix="kallisto-charts-"))
started = []
try:
    main(folder, started)
except BaseException:
    for one in started:
        print(f"--- {one.name}\n{one.log()[-3000:]}")
    raise
finally:
    for one in started:
        one.end()
    shutil.rmtree(folder, ignore_errors=True)
