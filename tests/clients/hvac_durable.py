"""hvac against a durable server: initialise, unseal with 3 of 5, write, restart, seal, read again.

Starts and ends its own server ($KALLISTO) on a directory of its own, on a port of the system's choice.
"""

import os
import pathlib
import subprocess
import tempfile

import hvac


def check(what, truth):
    assert truth, what
    print("ok ", what)


def start(config):
    """The process and the address it announces; the test as a whole is bounded by its caller."""
    process = subprocess.Popen([os.environ["KALLISTO"], "server", f"-config={config}"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.strip().startswith("Listener: "):
            return process, "http://" + line.split()[1]
    raise AssertionError("the server ended")


def stop(process):
    process.terminate()
    check("a clean stop", process.wait(timeout=30) == 0)


work = tempfile.TemporaryDirectory()
config = pathlib.Path(work.name, "server.hcl")
config.write_text(
    f'storage "raft" {{\n  path = "{work.name}/data"\n  node_id = "one"\n}}\n'
    'listener "tcp" {\n  address = "127.0.0.1:0"\n  tls_disable = true\n}\n'
)
server, url = start(config)
try:
    client = hvac.Client(url=url)
    check("not initialised", not client.sys.is_initialized() and client.sys.is_sealed())
    made = client.sys.initialize(secret_shares=5, secret_threshold=3)
    keys, client.token = made["keys"], made["root_token"]
    check("initialised, and sealed", client.sys.is_initialized() and client.sys.is_sealed())
    check("five different shares", len(set(keys)) == 5 and len(made["keys_base64"]) == 5)
    check("one share", client.sys.submit_unseal_key(keys[4])["progress"] == 1)
    check("the same again", client.sys.submit_unseal_key(keys[4])["progress"] == 1)
    check("another", client.sys.submit_unseal_key(keys[0])["progress"] == 2)
    check("the third unseals", client.sys.submit_unseal_key(keys[2])["sealed"] is False)

    client.sys.enable_secrets_engine("kv", path="team", options={"version": "2"})
    kv = client.secrets.kv.v2
    for version in (1, 2):
        written = kv.create_or_update_secret("db", {"password": f"p{version}"}, mount_point="team")
        check(f"version {version}", written["data"]["version"] == version)

    client.sys.seal()
    check("sealed", client.sys.is_sealed())
    try:
        kv.read_secret_version("db", mount_point="team", raise_on_deleted_version=True)
        raise AssertionError("a sealed server answered")
    except hvac.exceptions.VaultDown:
        print("ok  a sealed server reads nothing")
    check("unsealed by others", client.sys.submit_unseal_keys(keys[1:4])["sealed"] is False)

    def read(**which):
        found = kv.read_secret_version("db", mount_point="team", raise_on_deleted_version=True, **which)
        return found["data"]["data"]["password"]

    check("read after the seal", read() == "p2" and read(version=1) == "p1")
    stop(server)

    server, client.url = start(config)
    check("sealed after a restart", client.sys.is_sealed())
    client.sys.submit_unseal_keys([keys[0], keys[3], keys[4]])
    check("read after the restart", read() == "p2" and read(version=1) == "p1")
    check("key status", client.key_status["term"] >= 1)
    stop(server)
finally:
    server.kill()
