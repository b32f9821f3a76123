#!/usr/bin/env python3
"""Everything moved from a real OpenBao, and from Kallisto to Kallisto, by `kallisto migrate`.

    tests/ops/migrate.py KALLISTO BAO

MIGRATE_SECRETS=10000 says how many secrets there are (500). Both servers run on loopback, with storage "raft" where that is OpenBao.
"""
import base64
import concurrent.futures
import os
import signal
import subprocess
import time

from migrate_servers import KALLISTO, Server, check, environment, fill_app, migrate, migrate_in, run, start_bao, start_kallisto, work

SECRETS = int(os.environ.get("MIGRATE_SECRETS", "500"))
PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
-----END PUBLIC KEY-----"""
KEYS = {
    "aes": {"exportable": True},
    "chacha": {"type": "chacha20-poly1305", "exportable": True},
    "rsa": {"type": "rsa-2048", "exportable": True},
    "ecdsa": {"type": "ecdsa-p256", "exportable": True},
    "ed": {"type": "ed25519", "exportable": True},
    "kept": {},
}


def fill(server):
    """Secrets of every state, and many plain ones."""
    fill_app(server)

    def one(number):
        server.good("POST", f"secret/data/many/{number % 50}/{number}", {"data": {"password": f"p{number}", "user": "u" * 200}})
        if number % 5 == 0:
            server.good("POST", f"secret/data/many/{number % 50}/{number}", {"data": {"password": "later"}})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(SECRETS)))


def fill_others(server):
    """A login method of each kind that is tried, entities, groups, policies, keys and a namespace."""
    server.good("POST", "sys/auth/approle", {"type": "approle", "description": "of machines", "config": {"default_lease_ttl": "2h"}})
    server.good("POST", "sys/auth/people", {"type": "userpass"})
    server.good("POST", "sys/auth/jwt", {"type": "jwt"})
    server.good("POST", "auth/approle/role/app", {"token_policies": ["app"], "secret_id_ttl": "1h", "token_bound_cidrs": ["10.0.0.0/8"]})
    server.good("POST", "auth/approle/role/app/role-id", {"role_id": "the-role-id"})
    server.good("POST", "auth/people/users/ann", {"password": "wonder", "token_policies": ["app"]})
    server.good("POST", "auth/jwt/config", {"jwt_validation_pubkeys": [PUBLIC_KEY]})
    server.good("POST", "sys/auth/away", {"type": "jwt"})
    server.good("POST", "auth/away/config", {"jwks_url": "http://127.0.0.1:9/keys", "skip_jwks_validation": True})
    server.good("POST", "auth/jwt/role/ci", {"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["ci"], "bound_claims": {"p": ["a", "b"]}, "token_policies": ["app"]})
    server.good("POST", "auth/token/roles/worker", {"allowed_policies": ["app"], "orphan": True, "token_period": "24h"})
    accessor = server.good("GET", "sys/auth")["data"]["people/"]["accessor"]
    entity = server.good("POST", "identity/entity", {"name": "ann", "metadata": {"team": "x"}, "policies": ["app"]})["data"]["id"]
    server.good("POST", "identity/entity-alias", {"name": "ann", "canonical_id": entity, "mount_accessor": accessor})
    inner = server.good("POST", "identity/group", {"name": "inner", "member_entity_ids": [entity], "policies": ["app"]})["data"]["id"]
    server.good("POST", "identity/group", {"name": "outer", "member_group_ids": [inner], "metadata": {"a": "b"}})
    outside = server.good("POST", "identity/group", {"name": "outside", "type": "external", "policies": ["app"]})["data"]["id"]
    jwt = server.good("GET", "sys/auth")["data"]["jwt/"]["accessor"]
    server.good("POST", "identity/group-alias", {"name": "claims", "canonical_id": outside, "mount_accessor": jwt})
    rule = f'path "secret/data/{{{{identity.entity.aliases.{accessor}.name}}}}" {{ capabilities = ["read"] }}\n'
    server.good("POST", "sys/policies/acl/app", {"policy": rule + 'path "secret/data/app" { capabilities = ["read"] }\n'})
    server.good("POST", "sys/policies/password/long", {"policy": 'length = 30\nrule "charset" { charset = "abc" }\n'})
    server.good("POST", "sys/mounts/transit", {"type": "transit"})
    for name, body in KEYS.items():
        server.good("POST", f"transit/keys/{name}", body)
    server.good("POST", "transit/keys/aes/rotate")
    server.good("POST", "transit/keys/aes/config", {"min_encryption_version": 2})
    status, _ = server.ask("POST", "sys/namespaces/team", {"custom_metadata": {"owner": "ann"}})
    if status >= 300:
        raise SystemExit("the source has no namespaces")
    server.good("POST", "team/sys/mounts/kv", {"type": "kv", "options": {"version": "2"}})
    server.upgraded("team/kv")
    server.good("POST", "team/kv/data/a/b", {"data": {"in": "a namespace"}})
    server.good("POST", "team/sys/policies/acl/p", {"policy": 'path "kv/*" { capabilities = ["read"] }\n'})


def walk_others(source, target):
    plain = base64.b64encode(b"moved").decode()
    cipher = {name: source.good("POST", f"transit/encrypt/{name}", {"plaintext": plain})["data"]["ciphertext"] for name in ("aes", "chacha", "rsa")}
    signed = {name: source.good("POST", f"transit/sign/{name}", {"input": plain})["data"]["signature"] for name in ("ecdsa", "ed", "rsa")}
    code, report, said = migrate(source, target, "-dry-run")
    check(code == 2 and [line["path"] for line in report["not_moved"]] == ["transit/keys/kept"], "a dry run names what will not move", f"{report['not_moved']} {said}")
    powerless = target.good("POST", "auth/token/create", {"policies": ["default"], "ttl": "5m"})["auth"]["client_token"]
    denied = migrate_in({**environment(source, target, None), "VAULT_TOKEN": powerless}, "-dry-run")
    check(denied[0] == 2 and any("permission denied" in line["reason"] for line in denied[1]["not_moved"]),
          "a dry run with a token that may not says so", f"{denied}")
    code, report, said = migrate(source, target)
    lines = {line["path"]: line["reason"] for line in report["not_moved"]}
    check(code == 2 and sorted(lines) == ["transit/keys/kept"] and "not exportable" in lines["transit/keys/kept"],
          "all kinds move, but for a key that is not given out", f"{code} {lines} {said}")
    notes = " ".join(line["reason"] for line in report["notes"])
    check("secret ids of 1 " in notes and "passwords of 1 " in notes, "what else does not move is told", notes)
    check("without asking the provider" in notes and target.good("GET", "auth/away/config")["data"]["jwks_url"] == "http://127.0.0.1:9/keys",
          "settings of a provider that is not reached move", notes)
    role = target.good("GET", "auth/approle/role/app")["data"]
    check(role["token_policies"] == ["app"] and role["secret_id_ttl"] == 3600 and role["token_bound_cidrs"] == ["10.0.0.0/8"], "a role of approle", str(role))
    secret_id = target.good("POST", "auth/approle/role/app/secret-id", {"cidr_list": []})["data"]["secret_id"]
    check(secret_id and target.good("GET", "auth/approle/role/app/role-id")["data"]["role_id"] == "the-role-id", "with its id")
    check(target.good("GET", "sys/auth")["data"]["approle/"]["config"]["default_lease_ttl"] == 7200, "the tuning of the method")
    check(target.good("GET", "auth/jwt/role/ci")["data"]["bound_claims"] == {"p": ["a", "b"]}, "a role of jwt")
    check(target.good("GET", "auth/token/roles/worker")["data"]["orphan"] is True, "a role of tokens")
    check(target.ask("POST", "auth/people/login/ann", {"password": "wonder"})[0] == 400, "a password does not move")
    target.good("POST", "auth/people/users/ann/password", {"password": "new"})
    login = target.good("POST", "auth/people/login/ann", {"password": "new"})["auth"]
    entity = target.good("GET", "identity/entity/name/ann")["data"]
    check(login["entity_id"] == entity["id"] and entity["metadata"] == {"team": "x"}, "who logs in is the entity that moved", str(login))
    check(login["policies"] == ["app", "default"] and login["identity_policies"] == ["app"], "with the policies of entity and groups", str(login))
    target.good("POST", "secret/data/ann", {"data": {"of": "ann"}})
    check(target.ask("GET", "secret/data/ann", token=login["client_token"])[0] == 200, "a template names the login method of the target")
    target.good("DELETE", "secret/metadata/ann")
    inner = target.good("GET", "identity/group/name/inner")["data"]
    outer = target.good("GET", "identity/group/name/outer")["data"]
    check(outer["member_group_ids"] == [inner["id"]] and inner["member_entity_ids"] == [entity["id"]], "groups in groups")
    check(target.good("GET", "identity/group/name/outside")["data"]["alias"]["name"] == "claims", "a group from outside with its alias")
    for name, text in cipher.items():
        status, answer = target.ask("POST", f"transit/decrypt/{name}", {"ciphertext": text})
        check(status == 200 and answer["data"]["plaintext"] == plain, f"what {name} encrypted is decrypted", str(answer))
    for name, text in signed.items():
        status, answer = target.ask("POST", f"transit/verify/{name}", {"input": plain, "signature": text})
        check(status == 200 and answer["data"]["valid"], f"what {name} signed is verified", str(answer))
    check(target.good("GET", "transit/keys/aes")["data"]["latest_version"] == 2, "keys have their versions")
    check(target.good("GET", "team/kv/data/a/b")["data"]["data"] == {"in": "a namespace"}, "a secret in a namespace")
    check(target.good("GET", "sys/namespaces/team")["data"]["custom_metadata"] == {"owner": "ann"}, "the namespace's metadata")
    code, report, said = migrate(source, target, "-compare")
    differing = [line["path"] for line in report["differing"]]
    check(code == 2 and differing == ["transit/keys/kept"], "comparing finds all of it equal, but for that key", f"{code} {report['differing']} {report['not_moved']} {said}")
    code, report, _ = migrate(source, target)
    moved = {kind: counts["moved"] for kind, counts in report["counts"].items() if counts["moved"]}
    check(not moved, "another pass has nothing to do", str(moved))


def same_secret(source, target, path):
    one, other = (server.good("GET", f"secret/metadata/{path}")["data"] for server in (source, target))
    for versions in (one["versions"], other["versions"]):
        for version in versions.values():
            for name in ("created_by", "deleted_by", "request_id"):
                version.pop(name, None)
    return one == other, f"{one} {other}"


def walk_secrets(source, target, state):
    before = target.ask("GET", "secret/metadata/?list=true")[1]
    code, report, said = migrate(source, target, "-dry-run")
    check(code == 0 and report["counts"]["secrets"]["moved"] == SECRETS + 4, "a dry run says what would move", f"{code} {report} {said}")
    check(any("version 3 is deleted" in note["reason"] for note in report["notes"]), "and what arrives without data", str(report["notes"]))
    check(target.ask("GET", "secret/metadata/?list=true")[1] == before, "and changes nothing")

    began = time.monotonic()
    first = subprocess.Popen(
        [KALLISTO, "migrate", f"-state-file={state}", "-concurrency=2"], env=environment(source, target), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # Killed once some of the secrets are there.
    while first.poll() is None and target.ask("GET", "secret/metadata/many/0/?list=true")[0] != 200:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    killed = first.wait() == -signal.SIGKILL
    check(killed, "a move is killed in its middle")
    code, report, said = migrate(source, target, f"-state-file={state}")
    secrets = report["counts"].get("secrets", {})
    check(code == 0 and secrets.get("moved", 0) + secrets.get("same", 0) == SECRETS + 4, "and goes on to its end", f"{code} {report} {said}")
    check(secrets.get("moved", 0) > 0 and secrets.get("same", 0) > 0, f"with {secrets.get('same')} there already and {secrets.get('moved')} to go")
    print(f"      {SECRETS} secrets, with the kill, in {time.monotonic() - began:.1f} s")

    for path in ("app", "gone", "empty", "many/0/0"):
        same, both = same_secret(source, target, path)
        check(same, f"secret/{path} is as it was", both)
    metadata = target.good("GET", "secret/metadata/app")["data"]
    versions = metadata["versions"]
    check(len(versions) == 12 and versions["3"]["deletion_time"] and versions["5"]["destroyed"], "twelve versions, the third deleted, the fifth destroyed")
    for number in (1, 4, 12):
        data = target.good("GET", f"secret/data/app?version={number}")["data"]["data"]
        check(data == {"n": number, "text": "ü\n\"'"}, f"the data of version {number}")
    check(target.ask("POST", "secret/undelete/app", {"versions": [3]})[0] == 400, "a deleted version without data cannot be undeleted")
    mount = target.good("GET", "sys/mounts")["data"]["secret/"]
    check(mount["config"]["max_lease_ttl"] == 259200 and mount["description"] == "of teams", "tuning and description of the mount", str(mount))
    check(target.good("GET", "secret/config")["data"]["max_versions"] == 15, "the settings of the mount")
    check(target.good("GET", "one/a/b")["data"]["ttl"] == "1h", "a secret without versions")
    with open(state, encoding="utf-8") as file:
        text = file.read()
    check("many" not in text and "later" not in text and source.token not in text, "the state file holds no path and no value")

    code, report, said = migrate(source, target, "-compare")
    check(code == 0 and report["counts"]["secrets"]["same"] == SECRETS + 4, "comparing finds both equal", f"{code} {report} {said}")


def walk_delta(source, target, state):
    source.good("POST", "secret/data/app", {"data": {"n": 13}})
    source.good("POST", "secret/delete/many/1/1", {"versions": [1]})
    source.good("POST", "secret/data/new", {"data": {"n": 1}})
    source.good("DELETE", "secret/metadata/many/2/2")
    source.good("DELETE", "secret/metadata/many/3/3")
    source.good("POST", "secret/data/many/3/3", {"data": {"made": "anew"}})
    source.good("POST", "one/a/b", {"ttl": "2h"})
    code, report, _ = migrate(source, target, "-compare")
    differing = sorted(line["path"] for line in report["differing"])
    expected = ["one/a/b", "secret/app", "secret/many/1/1", "secret/many/2/2", "secret/many/3/3", "secret/new"]
    check(code == 2 and differing == expected, "comparing names what changed since", str(differing))
    began = time.monotonic()
    code, report, said = migrate(source, target, f"-state-file={state}")
    check(code == 2 and report["counts"]["secrets"]["moved"] == 5, "a second pass moves what changed", f"{code} {report['counts']} {report['not_moved']} {said}")
    check([line["path"] for line in report["not_moved"]] == ["secret/many/2/2"], "and names what was deleted there", str(report["not_moved"]))
    print(f"      the pass took {time.monotonic() - began:.1f} s")
    code, report, said = migrate(source, target, f"-state-file={state}", "-prune")
    check(code == 0 and target.ask("GET", "secret/metadata/many/2/2")[0] == 404, "-prune deletes it", f"{code} {report} {said}")
    code, report, said = migrate(source, target, "-compare")
    check(code == 0, "comparing finds both equal again", f"{report['differing']} {said}")

    target.good("POST", "secret/data/app", {"data": {"written": "here"}})
    source.good("POST", "secret/data/app", {"data": {"n": 14}})
    code, report, _ = migrate(source, target)
    refused = [line for line in report["not_moved"] if line["path"] == "secret/app"]
    check(code == 2 and refused and "versions of its own" in refused[0]["reason"], "what was written at the target is not overwritten", str(report["not_moved"]))
    code, report, said = migrate(source, target, "-overwrite", "-path=secret/app")
    check(code == 0 and same_secret(source, target, "app")[0], "unless told", f"{code} {report} {said}")


def walk_limited(source, target):
    policy = 'path "secret/metadata/app" { capabilities = ["read"] }\npath "secret/metadata/many/0/*" { capabilities = ["read", "list"] }\npath "secret/data/many/0/*" { capabilities = ["read"] }\npath "secret/data/app" { capabilities = ["read"] }\npath "secret/config" { capabilities = ["read"] }'
    source.good("POST", "sys/policies/acl/reader", {"policy": policy})
    token = source.good("POST", "auth/token/create", {"policies": ["reader"], "no_default_policy": False})["auth"]["client_token"]
    code, report, said = migrate(source, target, "-only=mounts,secrets", "-path=secret/app", "-path=secret/many/0/", "-path=secret/new", token=token)
    moved = report["counts"].get("secrets", {})
    reasons = [line["reason"] for line in report["not_moved"]]
    check(code == 2 and moved.get("moved") == 1 + SECRETS // 50 and any("secret/metadata/new" in why and "403" in why for why in reasons),
          "a token that may read some paths moves what is there, and names the others", f"{code} {report} {said}")
    code, _, said = migrate(source, Server(target.address, "nobody"))
    check(code == 2, "a token that the target does not know is refused", said)
    code, _, said = migrate(Server("http://127.0.0.1:1", "x"), target)
    check(code == 2 and "asking the source" in said, "a source that does not answer is named", said)


def main():
    source, target = start_bao(), start_kallisto("target")
    fill(source)
    state = f"{work}/state.json"
    walk_secrets(source, target, state)
    walk_delta(source, target, state)
    walk_limited(source, start_kallisto("limited"))
    fill_others(source)
    walk_others(source, target)
    third = start_kallisto("third")
    code, report, said = migrate(target, third)
    check(code == 0, "from Kallisto to Kallisto", f"{code} {report} {said}")
    code, report, said = migrate(target, third, "-compare")
    check(code == 0, "with equal answers", f"{report['differing']} {said}")


run(main)
