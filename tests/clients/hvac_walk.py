"""hvac against a dev server: every call of kv.v2 and kv.v1, and the system calls that exist."""

import os

import hvac

client = hvac.Client(url=os.environ["VAULT_ADDR"], token=os.environ["VAULT_TOKEN"])
kv = client.secrets.kv.v2


def check(what, truth):
    assert truth, what
    print("ok ", what)


def refused(what, kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        print("ok ", what, "->", type(error).__name__)
        return error
    raise AssertionError(what + " was not refused")


check("authenticated", client.is_authenticated())
check("a bad token is not", not hvac.Client(url=client.url, token="bad").is_authenticated())
check("health", client.sys.read_health_status(method="GET")["initialized"])
check("health by HEAD", client.sys.read_health_status(method="HEAD").status_code == 200)
check("seal status", client.sys.is_sealed() is False and client.sys.is_initialized() is True)
check("leader", client.sys.read_leader_status()["ha_enabled"] is False)
check("lookup self", client.auth.token.lookup_self()["data"]["policies"] == ["root"])
check("lookup", client.auth.token.lookup(client.token)["data"]["path"] == "auth/token/root")
refused("lookup of an unknown token", hvac.exceptions.Forbidden, client.auth.token.lookup, "hvs.none")

mounts = client.sys.list_mounted_secrets_engines()["data"]
check("secret/ is kv version 2", mounts["secret/"]["options"]["version"] == "2")

# kv.v2
kv.configure(max_versions=5, cas_required=False, delete_version_after="0s")
check("configuration", kv.read_configuration()["data"]["max_versions"] == 5)
check("first version", kv.create_or_update_secret("app", {"a": "1"})["data"]["version"] == 1)
check("second, with cas", kv.create_or_update_secret("app", {"a": "2", "b": [1, {"c": None}]}, cas=1)["data"]["version"] == 2)
refused("a wrong cas", hvac.exceptions.InvalidRequest, kv.create_or_update_secret, "app", {"a": "3"}, cas=1)
read = kv.read_secret_version("app", raise_on_deleted_version=True)["data"]
check("latest", read["data"] == {"a": "2", "b": [1, {"c": None}]} and read["metadata"]["version"] == 2)
check("an older one", kv.read_secret_version("app", version=1, raise_on_deleted_version=True)["data"]["data"] == {"a": "1"})
check("read_secret", kv.read_secret("app", raise_on_deleted_version=True)["data"]["data"]["a"] == "2")
check("patch", kv.patch("app", {"a": "9", "b": None})["data"]["version"] == 3)
# hvac patches by reading and writing, so its None is stored as a null.
check("patched", kv.read_secret_version("app", raise_on_deleted_version=True)["data"]["data"] == {"a": "9", "b": None})
# hvac has no call for subkeys yet.
subkeys = client.adapter.get("/v1/secret/subkeys/app?version=2")["data"]["subkeys"]
check("subkeys", subkeys == {"a": None, "b": None})
refused("a patch of nothing", hvac.exceptions.InvalidPath, kv.patch, "never", {"a": "1"})
refused("a cas of 0 on what is there", hvac.exceptions.InvalidRequest, kv.create_or_update_secret, "app", {}, cas=0)
kv.delete_latest_version_of_secret("app")
error = refused("a deleted version", hvac.exceptions.InvalidPath, kv.read_secret_version, "app", raise_on_deleted_version=True)
gone = kv.read_secret_version("app", raise_on_deleted_version=False)["data"]
check("its metadata", gone["data"] is None and gone["metadata"]["deletion_time"] != "")
kv.undelete_secret_versions("app", [3])
check("undeleted", kv.read_secret_version("app", raise_on_deleted_version=True)["data"]["data"]["a"] == "9")
kv.delete_secret_versions("app", [1, 2])
kv.destroy_secret_versions("app", [1])
versions = kv.read_secret_metadata("app")["data"]["versions"]
check("destroyed and deleted", versions["1"]["destroyed"] and versions["2"]["deletion_time"] != "" and not versions["2"]["destroyed"])
kv.update_metadata("app", max_versions=3, cas_required=True, delete_version_after="1h", custom_metadata={"owner": "ada"})
metadata = kv.read_secret_metadata("app")["data"]
check("metadata", metadata["max_versions"] == 3 and metadata["cas_required"] and metadata["custom_metadata"] == {"owner": "ada"})
check("life of a version", metadata["delete_version_after"] == "1h0m0s")
refused("cas is required now", hvac.exceptions.InvalidRequest, kv.create_or_update_secret, "app", {"a": "x"})
kv.create_or_update_secret("team/one", {"x": 1})
kv.create_or_update_secret("team/two/three", {"x": 1})
check("list", kv.list_secrets("")["data"]["keys"] == ["app", "team/"])
check("list a folder", kv.list_secrets("team")["data"]["keys"] == ["one", "two/"])
refused("list of nothing", hvac.exceptions.InvalidPath, kv.list_secrets, "none")
kv.delete_metadata_and_all_versions("app")
refused("removed", hvac.exceptions.InvalidPath, kv.read_secret_version, "app", raise_on_deleted_version=True)
for at in range(12):
    kv.create_or_update_secret("many", {"at": at})
metadata = kv.read_secret_metadata("many")["data"]
check("old versions are trimmed", sorted(map(int, metadata["versions"])) == [8, 9, 10, 11, 12] and metadata["oldest_version"] == 8)
big = {"big": 123456789012345678901234567890, "text": "\"quoted\" <a>&\\ é \u0000"}
kv.create_or_update_secret("odd", big)
check("odd values come back", kv.read_secret_version("odd", raise_on_deleted_version=True)["data"]["data"] == big)

# kv.v1 and mounts
client.sys.enable_secrets_engine("kv", path="one", options={"version": "1"}, description="d", config={"default_lease_ttl": "1h"})
one = client.secrets.kv.v1
one.create_or_update_secret("a/b", {"x": "y", "ttl": "30s"}, mount_point="one")
read = one.read_secret("a/b", mount_point="one")
check("kv version 1", read["data"] == {"x": "y", "ttl": "30s"} and read["lease_duration"] == 30)
check("its list", one.list_secrets("", mount_point="one")["data"]["keys"] == ["a/"])
one.delete_secret("a/b", mount_point="one")
refused("its delete", hvac.exceptions.InvalidPath, one.read_secret, "a/b", mount_point="one")
client.sys.tune_mount_configuration("one", description="tuned", max_lease_ttl="2h")
check("tune", client.sys.read_mount_configuration("one")["data"]["max_lease_ttl"] == 7200)
check("described", client.sys.list_mounted_secrets_engines()["data"]["one/"]["description"] == "tuned")
refused("mount twice", hvac.exceptions.InvalidRequest, client.sys.enable_secrets_engine, "kv", path="one")
client.sys.disable_secrets_engine("one")
check("unmounted", "one/" not in client.sys.list_mounted_secrets_engines()["data"])
refused("no such mount", hvac.exceptions.InvalidPath, one.read_secret, "a", mount_point="one")
check("generic read and write", client.write("secret/data/g", data={"k": "v"}) is not None and client.read("secret/data/g")["data"]["data"] == {"k": "v"})

client.sys.enable_audit_device("file", path="walk", description="d", options={"file_path": "discard"})
check("audit device listed", client.sys.list_enabled_audit_devices()["data"]["walk/"]["type"] == "file")
check("audit hash", client.sys.calculate_hash("walk", "x")["data"]["hash"].startswith("hmac-sha256:"))
check("audited read", client.read("secret/data/g")["data"]["data"] == {"k": "v"})
refused("audit path in use", hvac.exceptions.InvalidRequest, client.sys.enable_audit_device, "file", path="walk")
client.sys.disable_audit_device("walk")
check("audit device gone", "walk/" not in client.sys.list_enabled_audit_devices()["data"])

client.sys.create_namespace(path="hvac")
check("namespace listed", "hvac/" in client.sys.list_namespaces()["data"]["key_info"])
inside = hvac.Client(url=client.url, token=client.token, namespace="hvac")
inside.sys.enable_secrets_engine("kv", path="secret", options={"version": "2"})
inside.secrets.kv.v2.create_or_update_secret("app", {"a": "inside"})
check("a secret inside", inside.secrets.kv.v2.read_secret("app", raise_on_deleted_version=True)["data"]["data"] == {"a": "inside"})
inside.sys.create_or_update_policy("app", 'path "secret/*" { capabilities = ["read"] }')
bearer = inside.auth.token.create(policies=["app"])["auth"]["client_token"]
mine = hvac.Client(url=client.url, token=bearer, namespace="hvac")
check("its token reads", mine.read("secret/data/app")["data"]["data"] == {"a": "inside"})
outside = hvac.Client(url=client.url, token=bearer)
refused("and not outside", hvac.exceptions.Forbidden, outside.read, "secret/data/g")
client.sys.delete_namespace("hvac")
# hvac's read says None for what is not there.
check("nor once the namespace is deleted", mine.read("secret/data/app") is None)
