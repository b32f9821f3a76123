"""Drives Kallisto's identity engine with hvac, a client that was made for Vault.

Entities, aliases, groups of both kinds, merging, lookups, and what they do to a token that logs in.
Prints a line per check and stops at the first that fails. VAULT_ADDR and VAULT_TOKEN say where and who.
"""

import os

import hvac
from hvac.exceptions import Forbidden, InvalidPath, InvalidRequest

root = hvac.Client(url=os.environ["VAULT_ADDR"], token=os.environ["VAULT_TOKEN"])
identity = root.secrets.identity


def check(what, holds):
    if not holds:
        raise SystemExit(f"FAIL {what}")
    print("ok", what)


def refused(what, error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error:
        check(what, True)
        return
    check(what, False)


def log_in():
    client = hvac.Client(url=os.environ["VAULT_ADDR"])
    answer = client.auth.userpass.login("id-joe", "secret-of-joe", mount_point="id-users")
    return client, answer["auth"]


def readable(client, path):
    try:
        client.secrets.kv.v2.read_secret_version(path, raise_on_deleted_version=True)
        return True
    except Forbidden:
        return False


# Entities.
made = identity.create_or_update_entity("id-bob", policies=["default"], metadata={"team": "x"})
bob = made["data"]["id"]
check("an entity is made", bool(bob))
identity.create_or_update_entity_by_name("ID-BOB", metadata={"team": "y"})
read = identity.read_entity(bob)["data"]
check("its name is one in every case", read["metadata"] == {"team": "y"})
check("it reads by name", identity.read_entity_by_name("id-bob")["data"]["id"] == bob)
identity.update_entity(bob, name="id-bob", disabled=False)
check("entities are listed with their names", identity.list_entities()["data"]["key_info"][bob]["name"])
check("and by name", "id-bob" in [n.lower() for n in identity.list_entities_by_name()["data"]["keys"]])
refused("root is no policy of theirs", InvalidRequest, identity.create_or_update_entity, "id-r", policies=["root"])

# Aliases.
root.sys.enable_auth_method("userpass", path="id-users")
accessor = root.sys.list_auth_methods()["data"]["id-users/"]["accessor"]
alias = identity.create_or_update_entity_alias("id-joe", bob, accessor)["data"]["id"]
check("an alias leads to its entity", identity.read_entity_alias(alias)["data"]["canonical_id"] == bob)
check("aliases are listed", alias in identity.list_entity_aliases()["data"]["keys"])
found = identity.lookup_entity(alias_name="id-joe", alias_mount_accessor=accessor)
check("an entity is found by its alias", found["data"]["id"] == bob)
identity.update_entity_alias(alias, "id-joe", bob, accessor)

# A login.
root.secrets.kv.v2.create_or_update_secret("id-own", {"k": "v"})
root.secrets.kv.v2.create_or_update_secret("id-group", {"k": "v"})
root.sys.create_or_update_policy("id-own", 'path "secret/data/id-own" { capabilities = ["read"] }')
rule = 'path "secret/data/{{identity.groups.names.id-outer.metadata.secret}}" { capabilities = ["read"] }'
root.sys.create_or_update_policy("id-group", rule)
root.auth.userpass.create_or_update_user("id-joe", "secret-of-joe", mount_point="id-users")
joe, auth = log_in()
check("a login is its alias's entity's", auth["entity_id"] == bob)
check("it may not read yet", not readable(joe, "id-own"))
identity.update_entity(bob, name="id-bob", policies=["id-own"])
check("a policy of the entity holds at once", readable(joe, "id-own"))
inner = identity.create_or_update_group("id-inner", member_entity_ids=[bob])["data"]["id"]
identity.create_or_update_group(
    "id-outer", member_group_ids=[inner], policies=["id-group"], metadata={"secret": "id-group"}
)
check("so does one of a group around its group", readable(joe, "id-group"))
looked_up = joe.auth.token.lookup_self()["data"]
check("lookup tells of them", sorted(looked_up["identity_policies"]) == ["id-group", "id-own"])
_, auth = log_in()
check("and a login does", sorted(auth["identity_policies"]) == ["id-group", "id-own"])
check("apart from the token's", auth["token_policies"] == ["default"])

# Groups.
outer = identity.read_group_by_name("id-outer")["data"]
check("a group knows what is in it", outer["member_group_ids"] == [inner])
check("and what it is in", identity.read_group(inner)["data"]["parent_group_ids"] == [outer["id"]])
refused("no circles", InvalidRequest, identity.update_group, inner, "id-inner", member_group_ids=[outer["id"]])
check("groups are listed", inner in identity.list_groups()["data"]["keys"])
check("and by name", "id-inner" in identity.list_groups_by_name()["data"]["keys"])
check("a group is found by name", identity.lookup_group(name="id-inner")["data"]["id"] == inner)
external = identity.create_or_update_group("id-ext", group_type="external")["data"]["id"]
made = identity.create_or_update_group_alias("id-admins", mount_accessor=accessor, canonical_id=external)
group_alias = made["data"]["id"]
check("an external group has an alias", identity.read_group_alias(group_alias)["data"]["canonical_id"] == external)
check("group aliases are listed", group_alias in identity.list_group_aliases()["data"]["keys"])
identity.delete_group_alias(group_alias)
refused("a deleted alias is gone", InvalidPath, identity.read_group_alias, group_alias)
identity.delete_group(external)
identity.delete_group_by_name("id-outer")
check("a deleted group grants nothing", not readable(joe, "id-group"))

# Merging, disabling, deleting.
other = identity.create_or_update_entity("id-ann")["data"]["id"]
identity.merge_entities(from_entity_ids=[bob], to_entity_id=other)
check("a merged entity is part of the other", identity.read_entity(other)["data"]["merged_entity_ids"] == [bob])
check("its policies are not taken", not readable(joe, "id-own"))
_, auth = log_in()
check("its alias is", auth["entity_id"] == other)
identity.update_entity(other, name="id-ann", policies=["id-own"])
check("its tokens are the other's", readable(joe, "id-own"))
identity.update_entity(other, name="id-ann", disabled=True)
check("a disabled entity's tokens do nothing", not readable(joe, "id-own"))
refused("nor do its logins", Forbidden, log_in)
identity.delete_entity(other)
refused("a deleted entity is gone", InvalidPath, identity.read_entity, other)
check("and its tokens do nothing", not readable(joe, "id-own"))
_, auth = log_in()
check("its user is a new entity", auth["entity_id"] not in ("", bob, other))

identity.delete_entity(auth["entity_id"])
identity.delete_group_by_name("id-inner")
root.sys.disable_auth_method("id-users")
