#!/usr/bin/env python3
"""The Helm chart: linted, rendered with values of several kinds, and its configuration served from.

  chart.py KALLISTO HELM [SWAGGER]

SWAGGER is `api/openapi-spec/swagger.json` of Kubernetes (in the Go module k8s.io/kubernetes): with it every object has only fields that Kubernetes
knows, of the type that it wants.

A cluster is not needed: what Kubernetes would do with the rendered objects is done here as far as it is ours. The configuration that stands in the
ConfigMap is checked by the binary, a server is started with it and with the environment of the StatefulSet, and its probes are asked.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "contrib/helm/kallisto"
BINARY, HELM = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
KUBERNETES = "1.31.0"
# What the cluster itself says to a pod.
POD = {"KALLISTO_K8S_POD_NAME": "kallisto-0", "KALLISTO_K8S_NAMESPACE": "secrets", "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
SWAGGER = json.loads(pathlib.Path(sys.argv[3]).read_text())["definitions"] if len(sys.argv) > 3 else None
KINDS = {
    "as it comes": {},
    "one server": {"replicas": 1}, "no labels": {"serviceRegistration": {"enabled": False}, "preStopSleepSeconds": 0},
    "everything": {
        "replicas": 5, "tls": {"secretName": "kallisto-tls"}, "autoUnseal": {"type": "static", "secretName": "unseal"}, "auditStorage": {"enabled": True, "size": "5Gi", "className": "fast"},
        "service": {"type": "LoadBalancer", "annotations": {"a/b": "c"}, "resp": True}, "networkPolicy": {"enabled": True, "from": [{"podSelector": {"matchLabels": {"app": "web"}}}]},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}, "antiAffinity": "soft", "podAnnotations": {"x": "y"}, "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"}, "imagePullSecrets": [{"name": "registry"}], "env": [{"name": "KALLISTO_LOG_LEVEL", "value": "debug"}],
    },
}
REFUSED = {
    "two servers": {"replicas": 2}, "an unknown value": {"replica": 3}, "a static seal without a key": {"autoUnseal": {"type": "static"}}, "a service of no kind": {"service": {"type": "Cluster"}},
    "a pod that has no time left to end": {"preStopSleepSeconds": 30},
}


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    print("ok   ", what, flush=True)


def helm(*words, values, work):
    file = work / "values.yaml"
    file.write_text(json.dumps(values))
    return subprocess.run([HELM, *words, str(CHART), "-f", str(file), "--kube-version", KUBERNETES], capture_output=True, text=True, timeout=60)


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def put(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or b"{}")


def of_kind(objects, kind, name=None):
    return [one for one in objects if one["kind"] == kind and (name is None or one["metadata"]["name"] == name)]


def config_of(objects, work, port):
    """The configuration of the ConfigMap, with this machine's paths and a free port."""
    text = of_kind(objects, "ConfigMap")[0]["data"]["kallisto.hcl"]
    for folder in ("tls", "unseal", "data"):
        (work / folder).mkdir(exist_ok=True)
        text = text.replace(f"/kallisto/{folder}", str(work / folder))
    file = work / "kallisto.hcl"
    file.write_text(text.replace("[::]:8200", f"127.0.0.1:{port}").replace("[::]:6379", f"127.0.0.1:{free_port()}"))
    return file


def check_objects(name, objects, registers):
    sets, maps = of_kind(objects, "StatefulSet"), of_kind(objects, "ConfigMap")
    check(len(sets) == 1 and len(maps) == 1 and len(of_kind(objects, "Service")) == 2 + registers, f"{name}: one set of servers, one configuration, {2 + registers} services")
    chosen_active = [service["spec"]["selector"].pop("vault-active", None) for service in of_kind(objects, "Service")]
    roles, bound = of_kind(objects, "Role"), of_kind(objects, "RoleBinding")
    check(chosen_active.count("true") == len(roles) == len(bound) == registers, f"{name}: a service of the leader, and the right to say who that is, where that is told")
    pods = [f"kallisto-{number}" for number in range(sets[0]["spec"]["replicas"])]
    check(all(role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "resourceNames": pods, "verbs": ["patch"]}] for role in roles), f"{name}: the right is to patch these pods alone")
    pod = sets[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    guarded = container["securityContext"]
    slept = int(container["lifecycle"]["preStop"]["exec"]["command"][1]) if "lifecycle" in container else 0
    check(slept < pod["terminationGracePeriodSeconds"], f"{name}: a pod goes on for {slept} s when it is to end, and has time left")
    check(pod["securityContext"]["runAsNonRoot"] and guarded["readOnlyRootFilesystem"] and guarded["capabilities"] == {"drop": ["ALL"]} and not guarded["allowPrivilegeEscalation"], f"{name}: no root, no rights, nothing written but volumes")
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in sets[0]["spec"]["volumeClaimTemplates"]}
    address = next(variable["value"] for variable in container["env"] if variable["name"] == "KALLISTO_ADDR")
    check(address.endswith("://localhost:8200"), f"{name}: `kubectl exec` asks the server by a name that docs/kubernetes.md wants in its certificate: {address}")
    check(mounts == volumes, f"{name}: what is mounted is there: {sorted(mounts)}")
    labels = sets[0]["spec"]["template"]["metadata"]["labels"]
    chosen = [service["spec"]["selector"] for service in of_kind(objects, "Service")] + [sets[0]["spec"]["selector"]["matchLabels"]]
    check(all(labels.get(key) == value for one in chosen for key, value in one.items()), f"{name}: services and set find the pods")
    live = container["livenessProbe"]["httpGet"]["path"]
    states = ("sealedcode", "uninitcode", "haunhealthycode", "removedcode")
    check(all(f"{state}=204" in live for state in states), f"{name}: no state of a server that answers has it started again: {live}")
    if "audit" in mounts:
        check('audit_directories = ["/kallisto/audit"]' in maps[0]["data"]["kallisto.hcl"], f"{name}: audit devices may write to the volume for them")
    for monitor in of_kind(objects, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        scraped = [service["metadata"]["name"] for service in of_kind(objects, "Service") if all(service["metadata"]["labels"].get(key) == value for key, value in wanted.items())]
        check(len(scraped) == 1, f"{name}: every server is scraped once, by {scraped}")
    tested = of_kind(objects, "Pod")[0]["metadata"]["labels"]
    check(not all(tested.get(key) == value for key, value in chosen[0].items()), f"{name}: no service finds the pod of the test")


def strict(one):
    """Whether an object is of a kind that the schemas know; ends with what is wrong with it."""
    group, _, version = one["apiVersion"].rpartition("/")
    known = {"group": group, "version": version, "kind": one["kind"]}
    schema = next((found for found in SWAGGER.values() if known in found.get("x-kubernetes-group-version-kind", [])), None)
    if schema is None:
        return False
    faults = list(faults_of(one, schema, one["kind"]))
    if faults:
        raise SystemExit("\n".join(faults))
    return True


def faults_of(value, schema, at):
    # What is written in more than one way.
    if schema.get("$ref", "").endswith(("IntOrString", "Quantity", "Time", "RawExtension")):
        return
    if "$ref" in schema:
        schema = SWAGGER[schema["$ref"].rsplit("/", 1)[1]]
    wanted = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}.get(schema.get("type"), object)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        fields = schema.get("properties")
        yield from (f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value)
        for name, inner in value.items():
            if fields and name in fields:
                yield from faults_of(inner, fields[name], f"{at}.{name}")
            elif "additionalProperties" in schema:
                yield from faults_of(inner, schema["additionalProperties"], f"{at}.{name}")
            elif fields is not None:
                yield f"{at}: {name} is unknown"
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from faults_of(inner, schema["items"], f"{at}[{place}]")


def serve(objects, work):
    port = free_port()
    config = config_of(objects, work, port)
    container = of_kind(objects, "StatefulSet")[0]["spec"]["template"]["spec"]["containers"][0]
    # No API server is there: the server says so, and serves.
    env = {"PATH": os.environ["PATH"], "HOSTNAME": "kallisto-0", "POD_IP": "127.0.0.1", **POD, "KUBERNETES_SERVICE_PORT": str(free_port())}
    for variable in container["env"]:
        if "value" in variable:
            env[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: env[found.group(1)], variable["value"])
    env["KALLISTO_CLUSTER_ADDR"] = f"https://127.0.0.1:{free_port()}"
    words = [word.replace("/kallisto/config/kallisto.hcl", str(config)) for word in container["args"]]
    with open(work / "log", "wb") as log:
        server = subprocess.Popen([BINARY, *words], env=env, stdout=log, stderr=log, cwd=work)
    try:
        base = f"http://127.0.0.1:{port}"
        live, ready = (base + container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe"))
        for _ in range(200):
            if status(live) in (200, 204):
                break
            time.sleep(0.1)
        else:
            raise SystemExit((work / "log").read_text()[-2000:])
        check(status(live) == 204 and status(ready) == 501, "a server that is not initialised is alive and not ready")
        made = put(f"{base}/v1/sys/init", {"secret_shares": 1, "secret_threshold": 1})
        check(status(live) == 204 and status(ready) == 503, "a sealed one is alive and not ready")
        put(f"{base}/v1/sys/unseal", {"key": made["keys"][0]})
        # It leads a moment after it is unsealed.
        for _ in range(300):
            if status(ready) == 200:
                break
            time.sleep(0.1)
        check(status(live) == 200 and status(ready) == 200, "an unsealed one is both")
        said = subprocess.run([BINARY, "status", "-format=json"], env={**env, "KALLISTO_ADDR": base}, capture_output=True, text=True, timeout=30)
        check(said.returncode == 0 and not json.loads(said.stdout)["sealed"], "what `helm test` runs says so")
    finally:
        server.terminate()
        server.wait(30)


def main(work):
    for name, values in KINDS.items():
        linted = helm("lint", "--strict", values=values, work=work)
        check(linted.returncode == 0, f"{name}: helm lint --strict {linted.stdout if linted.returncode else ''}{linted.stderr}")
        made = helm("template", "kallisto", "--namespace", "secrets", "--api-versions", "monitoring.coreos.com/v1", values=values, work=work)
        if made.returncode != 0:
            raise SystemExit(made.stderr)
        objects = [one for one in yaml.safe_load_all(made.stdout) if one]
        check_objects(name, objects, values.get("serviceRegistration", {"enabled": True})["enabled"])
        if SWAGGER:
            checked = sum(strict(one) for one in objects)
            check(checked >= len(objects) - 1, f"{name}: {checked} objects have only what Kubernetes {KUBERNETES} knows")
        room = work / re.sub(r"\W", "-", name)
        room.mkdir()
        config = config_of(objects, room, 8200)
        if values.get("tls"):
            subprocess.run([BINARY, "operator", "make-certificate", f"-dir={room}/made"], check=True, capture_output=True)
            for made_as, mounted_as in (("cert.pem", "tls.crt"), ("key.pem", "tls.key"), ("ca.pem", "ca.crt")):
                shutil.copy(room / "made" / made_as, room / "tls" / mounted_as)
            (room / "unseal/key").write_bytes(base64.b64encode(os.urandom(32)))
        seen = subprocess.run([BINARY, "operator", "validate-config", f"-config={config}"], capture_output=True, text=True, timeout=30, env={"PATH": os.environ["PATH"], **POD, "KALLISTO_CLUSTER_ADDR": "https://kallisto-0:8201", "KALLISTO_API_ADDR": "https://kallisto-0:8200"})
        check(seen.returncode == 0, f"{name}: the configuration is one that a server takes {seen.stdout + seen.stderr if seen.returncode else ''}")
        if values.get("replicas") == 1:
            serve(objects, room)
    for name, values in REFUSED.items():
        check(helm("template", "kallisto", values=values, work=work).returncode != 0, f"refused: {name}")


folder = pathlib.Path(tempfile.mkdtemp(prefix="kallisto-chart-"))
try:
    main(folder)
finally:
    shutil.rmtree(folder, ignore_errors=True)
