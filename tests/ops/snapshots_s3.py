#!/usr/bin/env python3
"""Scheduled snapshots to an S3 server that nobody here wrote, while the way there fails: what status, metrics and retention say of it.

    tests/ops/snapshots_s3.py KALLISTO [VERSITYGW]

versitygw is a Go module (go install github.com/versity/versitygw/cmd/versitygw@latest). Three servers, the gateway and a proxy between
them, all on loopback, in a folder of their own, and ended by id. curl signs what this file asks of the gateway.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from three import Cluster, free_ports

SECRET = "a-secret-key-not-to-be-seen"
STATUS = "sys/storage/raft/snapshot-auto/status/"
CONFIG = "sys/storage/raft/snapshot-auto/config/"
# SHA-256 of no bytes, which the gateway wants to be told.
NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
# A snapshot of these is longer than a part of eight MiB, so that it goes as several.
SECRETS, SECRET_BYTES = 24, 700_000
failures = 0


def check(good, what):
    global failures
    failures += not good
    print("ok   " if good else "FAIL ", what, flush=True)


class Proxy(threading.Thread):
    """Passes connections on, and fails as it is told."""

    def __init__(self, port, to):
        super().__init__(daemon=True)
        self.to, self.mode, self.sent = to, "pass", 0
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)

    def set(self, mode):
        self.mode, self.sent = mode, 0

    def run(self):
        while True:
            self.pass_on(self.listener.accept()[0])

    def pass_on(self, client):
        if self.mode == "refuse":
            client.close()
            return
        far = socket.create_connection(("127.0.0.1", self.to))
        # Only these hold the two ends: they are closed when both have ended. One that is shut down and not closed takes no more of an upload, and
        # whoever sends that waits until its own patience is over.
        threading.Thread(target=self.pump, args=(client, far, True), daemon=True).start()
        threading.Thread(target=self.pump, args=(far, client, False), daemon=True).start()

    def pump(self, source, to, is_up):
        body = 0
        try:
            while data := source.recv(1 << 16):
                body += len(data)
                if is_up:
                    self.sent += len(data)
                if self.mode == "refuse" or (self.mode == "cut" and is_up and body > 3 << 20):
                    break
                # What was asked was done, and nobody hears of it: the answers to long requests are lost.
                if self.mode == "deaf" and not is_up and self.sent > 8 << 20:
                    break
                if self.mode == "slow":
                    time.sleep(0.01 if is_up else 0.05)
                if self.mode == "crawl" and is_up and body > 1 << 16:
                    time.sleep(0.2)
                to.sendall(data)
        except OSError:
            pass
        for one in (source, to):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main():
    binary = os.path.realpath(sys.argv[1])
    gateway = sys.argv[2] if len(sys.argv) > 2 else shutil.which("versitygw")
    if not gateway or not shutil.which("curl"):
        print("*** SKIPPED: snapshots to S3 under faults: there is no versitygw (go install github.com/versity/versitygw/cmd/versitygw@latest) or no curl")
        return 0
    work = tempfile.mkdtemp()
    cluster, others = Cluster(binary, work), []
    try:
        walk(cluster, gateway, work, others)
    except BaseException:
        check(False, "the walk came to its end")
        raise
    finally:
        cluster.end()
        for one in others:
            one.kill()
            one.wait()
        if failures:
            for at in range(3):
                path = os.path.join(work, f"n{at}", "log")
                if os.path.exists(path):
                    print(f"--- server {at}", *open(path).readlines()[-12:], sep="\n")
        shutil.rmtree(work, ignore_errors=True)
    return int(bool(failures))


def walk(cluster, gateway, work, others):
    far_port, proxy_port = free_ports(2)
    bucket = os.path.join(work, "s3", "backups")
    os.makedirs(os.path.join(work, "s3"))
    env = {**os.environ, "ROOT_ACCESS_KEY": "AKIDEXAMPLE", "ROOT_SECRET_KEY": SECRET}
    os.makedirs(os.path.join(work, "meta"))
    log = open(os.path.join(work, "gateway.log"), "w")
    asked = [gateway, "--port", f"127.0.0.1:{far_port}", "posix", "--sidecar", os.path.join(work, "meta"), os.path.join(work, "s3")]
    others.append(subprocess.Popen(asked, env=env, stdout=log, stderr=log))

    def s3(query, method="GET"):
        asked = ["curl", "-sS", "-X", method, "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"AKIDEXAMPLE:{SECRET}", "-H", f"x-amz-content-sha256: {NOTHING}", f"http://127.0.0.1:{far_port}/{query}"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout

    cluster.until("the gateway answers", lambda: "<" in s3(""))
    s3("backups", "PUT")
    check(os.path.isdir(bucket), "the bucket is there")
    proxy = Proxy(proxy_port, far_port)
    proxy.start()
    cluster.begin()
    cluster.call("sys/mounts/kv", "POST", {"type": "kv", "options": {"version": "2"}})
    for at in range(SECRETS):
        cluster.call(f"kv/data/s{at}", "POST", {"data": {"x": os.urandom(SECRET_BYTES // 2).hex()}})

    def configure(name, **more):
        body = {"interval": "10s", "retain": 2, "storage_type": "aws-s3", "aws_s3_bucket": "backups", "aws_s3_region": "us-east-1",
                "aws_s3_endpoint": f"http://127.0.0.1:{proxy_port}", "aws_s3_force_path_style": True, "path_prefix": f"{name}/",
                "aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": SECRET, **more}
        cluster.call(CONFIG + name, "POST", body)

    def status(name="far"):
        return cluster.call(STATUS + name)["data"]

    def objects(name="far"):
        return sorted(re.findall(rf"<Key>({name}/[^<]*)</Key>", s3(f"backups?list-type=2&prefix={name}%2F")))

    def uploads():
        return re.findall(r"<UploadId>([^<]*)<", s3("backups?uploads="))

    def verified(since):
        found = status()
        is_new = found["last_snapshot_verified"] and found["last_snapshot_index"] > since and not found["last_snapshot_error"]
        return found if is_new else None

    def failures_counted():
        """Who leads, and how many failures it has counted: another server counts from nothing."""
        return cluster.leader(), cluster.metric("kallisto_snapshots_failures_total", "far") or 0

    def failed(before):
        found, (leader, count) = status(), failures_counted()
        known = before[1] if leader == before[0] else 0
        return found if int(found["consecutive_errors"]) > 0 and count > known else None

    def note():
        """Something new to be in the next snapshot; where the log is then."""
        cluster.call("kv/data/note", "POST", {"data": {"at": str(time.time())}})
        return status()["last_snapshot_index"]

    def keeps_two(what, left=0):
        cluster.until(f"{what}: two are kept", lambda: len(objects()) == 2 and int(status()["snapshots_kept"]) == 2)
        newest = objects()[-1]
        check(status()["last_snapshot_url"].endswith(newest), f"{what}: the newest object is the one that was verified last")
        path = os.path.join(work, "newest.snap")
        shutil.copy(os.path.join(bucket, newest), path)
        shares = os.path.join(work, "shares")
        with open(shares, "w") as out:
            out.write(cluster.share + "\n")
        told = subprocess.run([cluster.binary, "operator", "raft", "snapshot", "verify", f"-shares-file={shares}", path], capture_output=True, text=True, timeout=120)
        check(told.returncode == 0, f"{what}: every record of it opens{'' if told.returncode == 0 else ': ' + told.stderr}")
        # A part that was on its way when its upload was given up may bring it back: the next snapshot gives it up again.
        cluster.until(f"{what}: no more than {left} uploads are left open", lambda: len(uploads()) <= left, 60)

    configure("far")
    cluster.until("the first snapshot is verified", lambda: verified(0))
    cluster.until("there are two", lambda: len(objects()) == 2)
    keeps_two("usual")
    check(int(status()["last_snapshot_bytes"]) > 16 << 20, "it is long enough to go in parts")

    configure("wrong", aws_secret_access_key="another")
    said = cluster.until("a wrong key is told", lambda: status("wrong")["last_snapshot_error"])
    check("403" in said and "SignatureDoesNotMatch" in said, f"wrong key: {said}")
    check(not objects("wrong") and not status("wrong")["last_snapshot_verified"], "wrong key: nothing is there, and nothing is called verified")
    cluster.call(CONFIG + "wrong", "DELETE")

    for mode, what in [("refuse", "outage"), ("cut", "cut upload"), ("deaf", "lost answer")]:
        since, before, there = note(), failures_counted(), objects()
        # One that is under way may get through, whatever is done to the wire, and be verified seconds later.
        cluster.until(f"{what}: none is being made", lambda: not status()["running"])
        at = time.time()
        proxy.set(mode)
        found = cluster.until(f"{what}: it is told", lambda: failed(before))
        check(found["last_snapshot_error"] and found["last_snapshot_verified"], f"{what}: {found['last_snapshot_error']}")
        check(cluster.metric("kallisto_snapshots_last_verified_time_seconds", "far") <= at + 1, f"{what}: the time of the last good one stays, for the alert")
        check(set(there[-1:]) <= set(objects()), f"{what}: the last good one stays")
        proxy.set("pass")
        cluster.until(f"{what}: it goes on", lambda: verified(since))
        keeps_two(what)

    since = note()
    proxy.set("slow")
    cluster.until("slow: it is made", lambda: verified(since))
    proxy.set("pass")
    keeps_two("slow")

    since, leader = note(), cluster.leader()
    proxy.set("crawl")
    cluster.until("an upload is under way", lambda: proxy.sent > 9 << 20)
    killed = cluster.servers.pop(leader)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    cluster.until("another server leads", lambda: cluster.leader() is not None)
    check(cluster.leader() != leader, f"leader killed: server {cluster.leader()} leads after {leader}")
    check(status()["last_snapshot_verified"], "leader killed: the status is known to the next one")
    proxy.set("pass")
    cluster.until("leader killed: the next one goes on", lambda: verified(since))
    # Nobody but the one that was killed knows of its upload: to others it may be another cluster's, until it is a day old.
    keeps_two("leader killed", left=1)
    logs = "".join(open(os.path.join(work, f"n{at}", "log")).read() for at in range(3))
    check(SECRET not in logs, "the key is in no log")
    print(f"{failures} failed")


sys.exit(main())
