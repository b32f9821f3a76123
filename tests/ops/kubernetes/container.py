"""Becomes the process of a container, inside of namespaces that whoever runs this has made.

  container.py begin SPEC    mounts the container's file system from SPEC (JSON, written by node.py), and becomes its command
  container.py enter SPEC    becomes its command in the file system that a `begin` in the same namespaces has mounted

As a runtime of containers does: the root is the image, read-only where the pod wants that; volumes are bound where they belong; /dev has six devices;
no capability and no new privilege is left to a user that is not root.
"""

import ctypes
import json
import os
import pathlib
import sys

READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
CAP_BOUND_DROP, NO_NEW_PRIVILEGES = 24, 38
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind=None, flags=0):
    words = [None if word is None else str(word).encode() for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {source} at {target}")


def bind(source, target, read_only):
    mount(source, target, flags=BIND | RECURSIVE)
    if read_only:
        mount(None, target, flags=BIND | REMOUNT | READ_ONLY)


def make_devices(folder):
    mount("tmpfs", folder, "tmpfs")
    for name in DEVICES:
        (folder / name).touch()
        mount(f"/dev/{name}", folder / name, flags=BIND)


def mount_all(spec, root):
    mount(None, "/", flags=RECURSIVE | PRIVATE)
    bind(root, root, False)
    for volume in spec["mounts"]:
        place = root / volume["target"].lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        bind(volume["source"], place, volume["read_only"])
    mount("proc", root / "proc", "proc")
    make_devices(root / "dev")
    if spec["read_only"]:
        mount(None, root, flags=BIND | REMOUNT | READ_ONLY)
    libc.sethostname(spec["hostname"].encode(), len(spec["hostname"]))


def become(spec, root):
    os.chroot(root)
    os.chdir("/")
    os.umask(0o022)
    os.setgroups(spec["groups"])
    if spec["user"] != 0:
        # Those that this kernel does not know are refused, which is as good.
        for capability in range(64):
            libc.prctl(CAP_BOUND_DROP, capability, 0, 0, 0)
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    os.setresgid(spec["group"], spec["group"], spec["group"])
    os.setresuid(spec["user"], spec["user"], spec["user"])
    os.execvpe(spec["words"][0], spec["words"], spec["env"])


def main(how, file):
    spec = json.loads(pathlib.Path(file).read_text())
    root = pathlib.Path(spec["root"])
    if how == "begin":
        mount_all(spec, root)
    become(spec, root)


main(*sys.argv[1:])
