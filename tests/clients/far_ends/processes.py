"""What walks share that start servers of their own: folders, ports, processes that end with the walk, and what a step says."""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from free_ports import free_port  # noqa: E402

STARTED = []


def ok(what):
    print("ok ", what, flush=True)


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    ok(what)


def skip(what):
    print(f"*** SKIPPED: {what}", flush=True)


def make_folder(prefix):
    """A folder for a walk, which ends its processes too when it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    work.chmod(0o755)
    return work


def user_for(*names):
    """Who runs a server: servers refuse root."""
    if os.getuid() != 0:
        return {}
    for name in names:
        try:
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    return {}


def start(command, log, **more):
    with open(log, "ab") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=out, **more)
    STARTED.append(process)
    return process


def is_listening(port, process=None, secs=30):
    """Whether somebody listens. A client that connects to a free port may get that very port for itself: that is nobody."""
    ends = time.monotonic() + secs
    while time.monotonic() < ends:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 and probe.getsockname() != probe.getpeername():
                return True
        if process and process.poll() is not None:
            return False
        time.sleep(0.02)
    return False


def until(what, holds, secs=60, pause=0.05):
    """Waits until something holds, and says for how long."""
    begun = time.monotonic()
    while time.monotonic() < begun + secs:
        try:
            if holds():
                return time.monotonic() - begun
        except OSError:
            pass
        time.sleep(pause)
    raise SystemExit(f"not in {secs} s: {what}")


def find_tool(name):
    found = shutil.which(name)
    if found:
        return found
    for place in ("/usr/lib/postgresql", "/usr/sbin"):
        for one in sorted(pathlib.Path(place).glob(f"**/{name}"), reverse=True):
            return str(one)
    return None


def end_all(work):
    """Ends what was started, by process, and removes the folder."""
    for process in reversed(STARTED):
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    shutil.rmtree(work, ignore_errors=True)
