"""The volumes of a pod, laid out in folders as the kubelet does: claims, secrets, configuration, the token of the service account, empty folders."""

import base64
import os
import pathlib
import shutil

from control import Refused

TOKEN_SECS = 3607


class NotYet(Exception):
    """Something that the pod wants is not there yet."""


def lay(api, pod, folder):
    """Folders by the names of the volumes."""
    guard = pod["spec"].get("securityContext", {})
    group = guard.get("fsGroup", 0)
    made = {}
    for volume in pod["spec"].get("volumes", []):
        made[volume["name"]] = place = folder / volume["name"]
        if "persistentVolumeClaim" in volume:
            made[volume["name"]] = claimed(api, pod, volume["persistentVolumeClaim"]["claimName"])
            if group and not (guard.get("fsGroupChangePolicy") == "OnRootMismatch" and made[volume["name"]].stat().st_gid == group):
                hand_all_to(made[volume["name"]], group)
        elif "emptyDir" in volume:
            place.mkdir(parents=True, exist_ok=True)
            hand_all_to(place, group)
        else:
            write_files(place, dict(files_of(api, pod, volume)), group)
    return made


def hand_all_to(place, group):
    """What fsGroup does: the group may read and write everything, and owns what comes."""
    for path in (place, *place.rglob("*")):
        os.chown(path, -1, group)
        path.chmod(path.stat().st_mode | (0o2770 if path.is_dir() else 0o660))


def claimed(api, pod, claim):
    space = pod["metadata"]["namespace"]
    name = api.get(f"/api/v1/namespaces/{space}/persistentvolumeclaims/{claim}")["spec"].get("volumeName")
    if not name:
        raise NotYet(f"the claim {claim} has no volume")
    place = pathlib.Path(api.get(f"/api/v1/persistentvolumes/{name}")["spec"]["hostPath"]["path"])
    place.mkdir(parents=True, exist_ok=True)
    return place


def files_of(api, pod, volume):
    """Contents and modes by path."""
    if "projected" in volume:
        mode = volume["projected"].get("defaultMode", 0o644)
        for source in volume["projected"]["sources"]:
            kind, wanted = next(iter(source.items()))
            for path, content in projected(api, pod, kind, wanted):
                yield path, (content, mode)
        return
    kind = next((kind for kind in ("secret", "configMap") if kind in volume), None)
    if kind is None:
        raise SystemExit(f"a volume of a kind that this kubelet does not know: {volume}")
    for path, content in projected(api, pod, kind, volume[kind]):
        yield path, (content, volume[kind].get("defaultMode", 0o644))


def projected(api, pod, kind, wanted):
    space = pod["metadata"]["namespace"]
    if kind == "serviceAccountToken":
        yield wanted["path"], token_of(api, pod)
    elif kind == "downwardAPI":
        yield from ((one["path"], field(pod, one["fieldRef"]["fieldPath"]).encode()) for one in wanted["items"])
    else:
        data = read(api, space, kind, wanted.get("name") or wanted["secretName"])
        paths = {one["key"]: one["path"] for one in wanted.get("items") or []} or {key: key for key in data}
        yield from ((path, data[key]) for key, path in paths.items())


def read(api, space, kind, name):
    """What a secret or a ConfigMap has, as bytes."""
    found = api.find(f"/api/v1/namespaces/{space}/{kind.lower()}s/{name}")
    if found is None:
        raise NotYet(f"there is no {kind} {name}")
    data = found.get("data") or {}
    return {key: base64.b64decode(value) if kind == "secret" else value.encode() for key, value in data.items()}


def token_of(api, pod):
    """A token of the pod's service account, which ends with the pod."""
    meta = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
    try:
        made = api.post(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": TOKEN_SECS, "boundObjectRef": bound}})
    except Refused as error:
        raise NotYet(str(error)) from None
    return made["status"]["token"].encode()


def field(pod, path):
    """What the downward API says."""
    value = pod
    for step in path.split("."):
        value = value[step]
    return value


def write_files(place, files, group):
    """As the kubelet does: files are links into a folder of this state of the volume, to which `..data` leads."""
    state = place / "..state"
    shutil.rmtree(place, ignore_errors=True)
    state.mkdir(parents=True)
    for path, (content, mode) in files.items():
        (state / path).parent.mkdir(parents=True, exist_ok=True)
        (state / path).write_bytes(content)
        os.chown(state / path, 0, group)
        (state / path).chmod(mode)
    (place / "..data").symlink_to("..state")
    for top in {pathlib.PurePath(path).parts[0] for path in files}:
        (place / top).symlink_to(f"..data/{top}")
