#!/usr/bin/env python3
"""Secrets and folders out of a snapshot that is loaded next to three running servers: what it takes, what comes back, and what a crash leaves.

    tests/ops/recover_walk.py KALLISTO

Everything is on loopback, in a folder of its own, and ended by id. What is asked is asked over HTTP as clients of Vault ask, and by
the command line.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from three import Cluster

LOAD = "sys/storage/raft/snapshot-load"
# Secrets of the folder that a crash is tried with, and how often.
FOLDER_SECRETS, CRASHES = 300, 5
failures = 0


def check(good, what):
    global failures
    failures += not good
    print("ok   " if good else "FAIL ", what, flush=True)


def main():
    work = tempfile.mkdtemp()
    cluster = Cluster(os.path.realpath(sys.argv[1]), work)
    try:
        cluster.begin()
        walk(cluster, work)
    finally:
        cluster.end()
        if failures:
            for at in range(3):
                print(f"--- server {at}", *open(os.path.join(work, f"n{at}", "log")).readlines()[-10:], sep="\n")
        shutil.rmtree(work, ignore_errors=True)
    return int(bool(failures))


def walk(cluster, work):
    def ask(path, method="GET", body=None, at=None, token=None, headers=None):
        """Status and answer."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        sent = {"X-Vault-Token": token or cluster.token, **(headers or {})}
        asked = urllib.request.Request(cluster.url(cluster.leads() if at is None else at) + path, data=data, headers=sent, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else text
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else text

    def cli(*words, at=None):
        env = {**os.environ, "VAULT_ADDR": f"http://127.0.0.1:{cluster.api[cluster.leads() if at is None else at]}", "VAULT_TOKEN": cluster.token}
        told = subprocess.run([cluster.binary, *words], env=env, capture_output=True, text=True, timeout=120)
        return told.returncode, told.stdout + told.stderr

    def put(path, **data):
        code, told = ask(f"kv/data/{path}", "POST", {"data": data})
        assert code == 200, (path, code, told)

    def current(path, at=None, query=""):
        code, told = ask(f"kv/data/{path}{query}", at=at)
        return told["data"]["data"] if code == 200 else None

    def load(name):
        with open(name, "rb") as file:
            return ask(LOAD, "POST", file.read())

    ask("sys/mounts/kv", "POST", {"type": "kv", "options": {"version": "2"}})
    ask("sys/mounts/one", "POST", {"type": "kv"})
    for number in range(1, 4):
        put("team/db", x=f"v{number}")
    ask("kv/delete/team/db", "POST", {"versions": [2]})
    ask("kv/metadata/team/db", "POST", {"custom_metadata": {"owner": "ada"}})
    put("team/deep/a", x="a")
    put("solo", x="then")
    ask("one/app", "POST", {"x": "then"})
    put("later", x="there")
    name = os.path.join(work, "then.snap")
    code, told = cli("operator", "raft", "snapshot", "save", name)
    check(code == 0, f"a snapshot is saved: {told.strip()}")
    metadata = ask("kv/metadata/team/db")[1]["data"]

    # What goes wrong since.
    ask("kv/metadata/team/db", "DELETE")
    ask("kv/metadata/team/deep/a", "DELETE")
    put("solo", x="spoilt")
    ask("kv/destroy/solo", "POST", {"versions": [1]})
    ask("one/app", "DELETE")
    ask("sys/rotate", "POST")
    put("later", x="still")

    leader = cluster.leads()
    follower = next(at for at in cluster.servers if at != leader)
    code, told = ask(LOAD, at=leader)
    check(code == 404, f"nothing is loaded: {code}")
    with open(name, "rb") as file:
        code, told = ask(LOAD, "POST", file.read(), at=follower)
    check(code in (200, 400), f"a follower takes the file or says where the leader is: {code} {told}")
    if code == 200:
        ask(f"{LOAD}/{told['data']['snapshot_id']}", "DELETE")
    code, told = ask(LOAD, "POST", open(name, "rb").read()[:-100])
    check(code == 400, f"a file that is cut short is refused: {told}")
    foreign = Cluster(cluster.binary, os.path.join(work, "foreign"))
    try:
        foreign.begin_alone()
        other = os.path.join(work, "other.snap")
        env = {**os.environ, "VAULT_ADDR": f"http://127.0.0.1:{foreign.api[0]}", "VAULT_TOKEN": foreign.token}
        subprocess.run([cluster.binary, "operator", "raft", "snapshot", "save", other], env=env, check=True, capture_output=True, timeout=60)
    finally:
        foreign.end()
    code, told = load(other)
    check(code == 400 and "another cluster" in str(told), f"one of another cluster is refused: {told}")

    code, told = cli("operator", "raft", "snapshot", "load", "-format=json", name)
    loaded = json.loads(told)["data"] if code == 0 else {}
    check(loaded.get("status") == "ready", f"it is loaded, after a rotation: {told}")
    snapshot = loaded["snapshot_id"]
    code, told = load(name)
    check(code == 400 and "unload it first" in str(told), f"there is room for one: {told}")

    query = f"?read_snapshot_id={snapshot}"
    for at in cluster.servers:
        check(current("team/db", at, query) == {"x": "v3"}, f"server {at} reads from it")
        code, told = ask(f"kv/metadata/team/{query}&list=true", at=at)
        check(code == 200 and told["data"]["keys"] == ["db", "deep/"], f"server {at} lists from it: {told}")
    check(current("team/db") is None and current("solo") == {"x": "spoilt"}, "what runs is as it was")
    check(ask(f"one/app{query}")[1]["data"] == {"x": "then"}, "version 1 is read from it")
    code, told = ask(f"kv/data/solo?read_snapshot_id=nosuch")
    check(code == 400 and "no snapshot nosuch is loaded" in str(told), f"another id is refused: {told}")
    code, told = ask(f"sys/mounts{query}")
    check(code == 400, f"what cannot be read from it says so: {told}")

    # Rights.
    policies = {
        "reader": 'path "kv/data/*" { capabilities = ["read", "update"] }',
        "recoverer": 'path "kv/data/solo" { capabilities = ["recover"] } path "kv/metadata/team/*" { capabilities = ["list"] } '
                     'path "kv/data/team/db" { capabilities = ["recover"] } path "sys/kallisto/kv/recover" { capabilities = ["update"] }',
    }
    tokens = {}
    for policy, text in policies.items():
        ask(f"sys/policies/acl/{policy}", "PUT", {"policy": text})
        tokens[policy] = ask("auth/token/create", "POST", {"policies": [policy]})[1]["auth"]["client_token"]
    header = {"X-Vault-Recover-Snapshot-Id": snapshot}
    code, told = ask("kv/data/solo", "POST", {"data": {"x": "not written"}}, token=tokens["reader"], headers=header)
    check(code == 403, f"update is no recover: {code}")
    folder = {"snapshot_id": snapshot, "path": "kv/team/"}
    code, told = ask("sys/kallisto/kv/recover", "POST", folder, token=tokens["recoverer"])
    check(code == 403 and current("team/db") is None, f"a folder takes the right to each secret, or nothing happens: {code}")
    code, told = ask("sys/kallisto/kv/recover", "POST", {**folder, "path": "kv/team/db", "overwrite": True}, token=tokens["recoverer"])
    check(code == 403, f"overwriting takes the right to delete: {code}")
    code, told = ask("kv/data/solo", "POST", b"", token=tokens["recoverer"], headers=header, at=follower)
    check(code == 200 and told["data"]["outcome"] == "changed", f"recover is enough, through a follower: {told}")
    check(told["data"]["restored_versions"] == [1] and told["data"]["new_version"] == 3, "the destroyed version is back, and a new one on top")
    check(current("solo") == {"x": "then"} and current("solo", query="?version=2") == {"x": "spoilt"}, "what was written since is kept")
    code, told = ask("kv/data/solo", "PUT", b"", headers=header)
    check(told["data"]["outcome"] == "unchanged", f"again, nothing changes: {told['data']}")

    # A folder, by the command line.
    code, told = cli("recover", f"-snapshot-id={snapshot}", "-dry-run", "kv/team/", at=follower)
    check(code == 0 and "Nothing was done. Would recover 2 secrets" in told and current("team/db") is None, f"dry run:\n{told}")
    code, told = cli("recover", f"-snapshot-id={snapshot}", "kv/team/", at=follower)
    check(code == 0 and told.count("created") == 2, f"recovered:\n{told}")
    check(ask("kv/metadata/team/db")[1]["data"] == metadata, "every version, time, state and the custom metadata are as they were")
    check(current("team/db", query="?version=1") == {"x": "v1"} and current("team/deep/a") == {"x": "a"}, "and the data")
    code, told = cli("recover", f"-snapshot-id={snapshot}", "one/app")
    check(ask("one/app")[1]["data"] == {"x": "then"}, f"version 1: {told}")
    code, told = ask(f"kv/data/copy?recover_snapshot_id={snapshot}", "POST", b"", headers={"X-Vault-Recover-Source-Path": "kv/data/team/db"})
    check(current("copy") == {"x": "v3"}, f"from another path: {told}")
    code, told = cli("recover", f"-snapshot-id={snapshot}", "-overwrite", "kv/later")
    check(current("later") == {"x": "there"} and ask("kv/metadata/later")[1]["data"]["current_version"] == 1, f"overwritten: {told}")
    code, told = ask("transit/keys/x", "POST", {}, headers=header)
    check(code >= 400, f"nothing is mounted there: {code}")
    code, told = cli("operator", "raft", "snapshot", "unload", snapshot, at=follower)
    check(code == 0 and ask(f"kv/data/solo{query}")[0] == 400, f"unloaded: {told.strip()}")

    crashes(cluster, work, ask, cli, put, load)


def crashes(cluster, work, ask, cli, put, load):
    """The leader is killed in the middle: all of a folder is there afterwards, or nothing."""
    for at in range(FOLDER_SECRETS):
        put(f"many/s{at}", x="x" * 20_000)
    name = os.path.join(work, "many.snap")
    cli("operator", "raft", "snapshot", "save", name)
    ask("sys/kallisto/kv/delete", "POST", {"path": "kv/many/", "purge": True})
    count = lambda: len(ask("kv/metadata/many?list=true")[1].get("data", {}).get("keys", []))
    seen, took = [], 0.5
    for turn in range(CRASHES):
        assert count() == 0, count()
        code, told = load(name)
        assert code == 200, told
        leader = cluster.leads()
        body = {"snapshot_id": told["data"]["snapshot_id"], "path": "kv/many/"}
        said = []

        def recover():
            begin = time.monotonic()
            try:
                said.append(ask("sys/kallisto/kv/recover", "POST", body, at=leader)[0])
            except (OSError, urllib.error.URLError) as error:
                said.append(type(error).__name__)
            said.append(time.monotonic() - begin)

        asking = threading.Thread(target=recover)
        asking.start()
        # The first runs to its end, to know how long that takes.
        if turn == 0:
            asking.join()
            took = said[1]
        else:
            time.sleep(random.uniform(0.3, 1.1) * took)
        cluster.servers[leader].kill()
        cluster.servers[leader].wait()
        asking.join()
        cluster.servers.pop(leader)
        cluster.until("another server leads", lambda: cluster.leader() is not None)
        # Before its first write a new leader may not have applied what the last one had in the log.
        cluster.until("it writes", lambda: ask("kv/data/settled", "POST", {"data": {"x": "y"}})[0] == 200)
        found = count()
        seen.append((said[0], found))
        check(found in (0, FOLDER_SECRETS), f"killed in the middle: {said[0]}, and {found} of {FOLDER_SECRETS} secrets are there")
        check(said[0] != 200 or found == FOLDER_SECRETS, "what was answered is there")
        cluster.start(leader)
        cluster.until("it is back", lambda at=leader: cluster.unseal(at))
        if found:
            ask("sys/kallisto/kv/delete", "POST", {"path": "kv/many/", "purge": True})
        code, told = ask(f"kv/data/many/s1?read_snapshot_id={body['snapshot_id']}")
        check(code == 400, f"the snapshot went with its leader, which is said: {told}")
    print(f"crashes, as the client heard and as it was: {seen}; a recovery of {FOLDER_SECRETS} secrets took {took:.2f} s")
    print(f"{failures} failed")


sys.exit(main())
