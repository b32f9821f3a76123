"""contrib/compose.yaml: as its schema wants it, and its servers as a cluster that starts by itself.

    python tests/ops/compose.py KALLISTO [SCHEMA]      needs PyYAML, and jsonschema for the schema

There is no container engine here. So the services are run as processes on loopback addresses, with the configuration, the environment and the
command of the file; names of services become addresses of this machine.
"""
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

from three import free_ports

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "..", "..", "contrib", "compose.yaml")
WAIT_SECS = 90


def expanded(value):
    """`${NAME:-default}` as Compose reads it, where nothing is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) if isinstance(value, str) else value


def check_schema(compose, schema):
    import jsonschema
    with open(schema) as text:
        jsonschema.Draft7Validator(json.load(text)).validate(compose)
    broken = copy.deepcopy(compose)
    broken["services"]["one"]["healthchek"] = {}
    assert list(jsonschema.Draft7Validator(json.load(open(schema))).iter_errors(broken)), "the schema sees nothing"
    print("ok    the file is as the specification's schema wants it")


def check_references(compose):
    services = compose["services"]
    assert len(services) == 3
    for name, service in services.items():
        assert all(secret in compose["secrets"] for secret in service["secrets"]), name
        assert all(config["source"] in compose["configs"] for config in service["configs"]), name
        assert all(volume.split(":")[0] in compose["volumes"] for volume in service["volumes"]), name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), f"{name}: a port without TLS on every address"
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"], name
    ports = [port.split(":")[1] for service in services.values() for port in service["ports"]]
    assert len(set(ports)) == 3, "each server has a port of its own"
    print("ok    secrets, configurations and volumes are there, and ports are on loopback")


def call(port, path, method="GET", body=None, token=None):
    data = json.dumps(body).encode() if body is not None else None
    headers = {"X-Vault-Token": token} if token else {}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/{path}", data=data, headers=headers, method=method)
    with urllib.request.urlopen(asked, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def wait(what, condition):
    end = time.monotonic() + WAIT_SECS
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"FAIL  {what}: not within {WAIT_SECS} s")


def run(compose, binary, work):
    names = list(compose["services"])
    api, peer = free_ports(3), free_ports(3)
    key = os.path.join(work, "seal.key")
    with open(key, "w") as out:
        out.write("00112233445566778899aabbccddeeff" * 2 + "\n")
    os.chmod(key, 0o400)

    def here(text, at):
        for number, name in enumerate(names):
            text = text.replace(f"//{name}:8200", f"//127.0.0.1:{api[number]}").replace(f"//{name}:8201", f"//127.0.0.1:{peer[number]}")
        text = text.replace("0.0.0.0:8200", f"127.0.0.1:{api[at]}").replace("0.0.0.0:8201", f"127.0.0.1:{peer[at]}")
        text = text.replace("127.0.0.1:8200", f"127.0.0.1:{api[at]}")
        return text.replace("/run/secrets/seal_key", key).replace("/kallisto/", f"{work}/{names[at]}/")

    servers = []
    try:
        for at, name in enumerate(names):
            service = compose["services"][name]
            for folder in ("config", "data"):
                os.makedirs(f"{work}/{name}/{folder}")
            for config in service["configs"]:
                with open(here(config["target"], at), "w") as out:
                    out.write(here(compose["configs"][config["source"]]["content"], at))
            environment = {"PATH": os.environ["PATH"], "HOME": work}
            environment.update({key: here(expanded(value), at) for key, value in service["environment"].items()})
            command = [binary] + [here(word, at) for word in service["command"]]
            log = open(f"{work}/{name}/log", "w")
            servers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        wait("the first server answers", lambda: call(api[0], "sys/init")["initialized"] is False)
        token = call(api[0], "sys/init", "PUT", {"recovery_shares": 1, "recovery_threshold": 1})["root_token"]
        for at in range(3):
            wait(f"server {names[at]} is unsealed", lambda at=at: call(api[at], "sys/seal-status")["sealed"] is False)
        members = lambda: call(api[0], "sys/storage/raft/configuration", token=token)["data"]["config"]["servers"]
        wait("three servers vote", lambda: sum(member["voter"] for member in members()) == 3)
        assert sorted(member["node_id"] for member in members()) == sorted(names)
        call(api[0], "sys/mounts/secret", "POST", {"type": "kv", "options": {"version": "2"}}, token)
        call(api[1], "secret/data/a", "POST", {"data": {"k": "v"}}, token)
        wait("the third server has the secret", lambda: call(api[2], "secret/data/a", token=token)["data"]["data"]["k"] == "v")
        health = compose["services"]["one"]["healthcheck"]["test"]
        assert health[:2] == ["CMD", "kallisto"]
        done = subprocess.run([binary] + health[2:], env={"KALLISTO_ADDR": f"http://127.0.0.1:{api[2]}"}, capture_output=True)
        assert done.returncode == 0, done
        print("ok    three servers of the file join by themselves, unseal by the key and answer; the health check says so")
    except BaseException:
        for name in names:
            with open(f"{work}/{name}/log") as log:
                print(f"--- {name}\n{log.read()[-2000:]}")
        raise
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(30)


def main():
    binary = os.path.abspath(sys.argv[1])
    with open(FILE) as text:
        compose = yaml.safe_load(text)
    check_references(compose)
    if len(sys.argv) > 2:
        check_schema(compose, sys.argv[2])
    else:
        print("*** SKIPPED: the schema of the Compose specification is not there (Go module github.com/compose-spec/compose-go/v2)")
    work = tempfile.mkdtemp(prefix="kallisto-compose-")
    try:
        run(compose, binary, work)
    finally:
        shutil.rmtree(work)


main()
