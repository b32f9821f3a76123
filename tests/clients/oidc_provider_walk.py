"""Identity tokens through hvac and `bao`, verified by PyJWT with the key set; and the set-up that go-oidc logs in with.

    oidc_provider_walk.py BAO [PROGRAM OF GO THAT LOGS IN]
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
import uuid

import hvac
import jwt

address = os.environ["VAULT_ADDR"]
client = hvac.Client(url=address, token=os.environ["VAULT_TOKEN"])
bao = sys.argv[1]
go = sys.argv[2] if len(sys.argv) > 2 else None
prefix = f"py{uuid.uuid4().hex[:8]}"
CALLBACK = "http://127.0.0.1:8250/oidc/callback"


def check(what, truth):
    assert truth, what
    print("ok ", what)


def run(*arguments, token=None):
    environment = {**os.environ, **({"BAO_TOKEN": token, "VAULT_TOKEN": token} if token else {})}
    done = subprocess.run([bao, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.strip()


def refused(what, message, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except hvac.exceptions.InvalidRequest as error:
        check(f"{what}: refused", message in str(error))
        return
    raise AssertionError(f"{what} is not refused")


def bare(path):
    """What anybody reads, without a token."""
    with urllib.request.urlopen(f"{address}/v1/{path}") as reply:
        assert reply.headers["Content-Type"] == "application/json", reply.headers["Content-Type"]
        return json.load(reply)


# An entity that asks.
if "userpass/" not in client.sys.list_auth_methods()["data"]:
    client.sys.enable_auth_method("userpass")
client.sys.create_or_update_policy(
    prefix, 'path "identity/oidc/*" { capabilities = ["create", "read", "update"] }'
)
client.auth.userpass.create_or_update_user(prefix, "pw", policies=prefix)
login = client.auth.userpass.login(prefix, "pw", use_token=False)["auth"]
token, entity = login["client_token"], login["entity_id"]
client.secrets.identity.update_entity(entity, name=prefix, metadata={"team": "red"})
group = client.secrets.identity.create_or_update_group(name=f"{prefix}-g", member_entity_ids=[entity])

# hvac's calls of identity tokens, as many as it has.
tokens = client.secrets.identity
tokens.configure_tokens_backend(issuer=address)
check("hvac: the issuer", tokens.read_tokens_backend_configuration()["data"]["issuer"] == address)
template = '{"team": {{identity.entity.metadata.team}}, "groups": {{identity.entity.groups.names}}}'
for algorithm in ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"]:
    name = f"{prefix}-{algorithm.lower()}"
    tokens.create_named_key(name, rotation_period="1h", verification_ttl="2h", allowed_client_ids=["*"], algorithm=algorithm)
    read = tokens.read_named_key(name)["data"]
    check(f"{algorithm}: a key as it was written", (read["algorithm"], read["rotation_period"], read["verification_ttl"]) == (algorithm, 3600, 7200))
    tokens.create_or_update_role(name, key=name, template=template, ttl="30m")
    role = tokens.read_role(name)["data"]
    ann = hvac.Client(url=address, token=token)
    made = ann.secrets.identity.generate_signed_id_token(name)["data"]
    before = jwt.get_unverified_header(made["token"])["kid"]
    # hvac's own `rotate_named_key` leaves the end of the path out, and changes the key instead.
    client.write(f"identity/oidc/key/{name}/rotate", verification_ttl="1h")
    later = ann.secrets.identity.generate_signed_id_token(name)["data"]
    check(f"{algorithm}: a rotation changes the version", jwt.get_unverified_header(later["token"])["kid"] != before)
    keys = jwt.PyJWKSet.from_dict(bare("identity/oidc/.well-known/keys"))
    by_kid = {key.key_id: key for key in keys.keys}
    for one in (made, later):
        key = by_kid[jwt.get_unverified_header(one["token"])["kid"]]
        claims = jwt.decode(
            one["token"], key.key, algorithms=[algorithm], audience=role["client_id"], issuer=f"{address}/v1/identity/oidc"
        )
        assert claims["sub"] == entity and claims["team"] == "red" and claims["groups"] == [f"{prefix}-g"], claims
        assert claims["exp"] - claims["iat"] == 1800, claims
        active = tokens.introspect_signed_id_token(one["token"])
        assert active["active"] is True, active
    check(f"{algorithm}: PyJWT verifies the tokens of both versions with the key set", True)
    other = tokens.introspect_signed_id_token(made["token"], client_id="other")
    check(f"{algorithm}: introspection for another client", other["active"] is False and "aud" in other["error"])
check("hvac: keys are listed", f"{prefix}-rs256" in tokens.list_named_keys()["data"]["keys"])
check("hvac: roles are listed", f"{prefix}-rs256" in tokens.list_roles()["data"]["keys"])
configuration = tokens.read_well_known_configurations()
check("hvac: discovery", configuration["issuer"] == f"{address}/v1/identity/oidc")
check("hvac: the key set", len(tokens.read_active_public_keys()["keys"]) >= 14)
refused("hvac: a key in use", "currently referenced by these roles", tokens.delete_named_key, f"{prefix}-rs256")
refused("hvac: a token of no entity", "no entity associated", tokens.generate_signed_id_token, f"{prefix}-rs256")
for algorithm in ["rs384", "es512"]:
    tokens.delete_role(f"{prefix}-{algorithm}")
    tokens.delete_named_key(f"{prefix}-{algorithm}")
check("hvac: what nothing refers to is deleted", f"{prefix}-rs384" not in tokens.list_named_keys()["data"]["keys"])

# The command line.
run("write", f"identity/oidc/key/{prefix}-cli", "algorithm=EdDSA", "allowed_client_ids=*")
run("write", f"identity/oidc/role/{prefix}-cli", f"key={prefix}-cli", "ttl=5m")
said = json.loads(run("read", "-format=json", f"identity/oidc/token/{prefix}-cli", token=token))
check("bao: a token", jwt.decode(said["data"]["token"], options={"verify_signature": False})["sub"] == entity)
run("write", "-f", f"identity/oidc/key/{prefix}-cli/rotate")
run("write", f"identity/oidc/assignment/{prefix}", f"entity_ids={entity}")
run("write", f"identity/oidc/scope/{prefix}", 'template={"groups": {{identity.entity.groups.names}}}', "description=groups")
run("write", f"identity/oidc/client/{prefix}", f"redirect_uris={CALLBACK}", f"assignments={prefix}", "id_token_ttl=10m")
run("write", f"identity/oidc/provider/{prefix}", "allowed_client_ids=*", f"scopes_supported={prefix}", f"issuer={address}")
shown = json.loads(run("read", "-format=json", f"identity/oidc/client/{prefix}"))["data"]
check("bao: a client", len(shown["client_id"]) == 32 and shown["client_secret"].startswith("hvo_secret_"))
listed = json.loads(run("list", "-format=json", "identity/oidc/client"))
check("bao: clients are listed", prefix in listed)
for kind in ["key", "role", "assignment", "scope", "provider"]:
    names = json.loads(run("list", "-format=json", f"identity/oidc/{kind}"))
    check(f"bao: {kind}s are listed", any(name.startswith(prefix) for name in names))
document = bare(f"identity/oidc/provider/{prefix}/.well-known/openid-configuration")
check("discovery of the provider", document["token_endpoint"] == f"{address}/v1/identity/oidc/provider/{prefix}/token")

# A key that rotates by the clock, in namespaces.
if os.environ.get("PROVIDER_WALK_SLOW"):
    spaces = [f"{prefix}-ns{number}" for number in range(24)]
    kids = {}
    for space in spaces:
        client.sys.create_namespace(space)
        inside = hvac.Client(url=address, token=os.environ["VAULT_TOKEN"], namespace=space)
        inside.write("identity/oidc/key/k", algorithm="EdDSA", rotation_period="1m", verification_ttl="5m")
        inside.write("identity/oidc/role/r", key="k", ttl="1m")
        kids[space] = {key["kid"] for key in bare(f"{space}/identity/oidc/.well-known/keys")["keys"]}
    begun = time.time()
    time.sleep(72)
    rotated = 0
    for space in spaces:
        now = {key["kid"] for key in bare(f"{space}/identity/oidc/.well-known/keys")["keys"]}
        rotated += len(now) == 3 and kids[space] < now
    check(f"keys of {rotated} namespaces rotated within {time.time() - begun:.0f} s of a period of 60", rotated == len(spaces))

if go:
    arguments = [go, address, prefix, shown["client_id"], shown["client_secret"], token, prefix]
    done = subprocess.run(arguments, capture_output=True, text=True)
    print(done.stdout, end="")
    assert done.returncode == 0, done.stderr
