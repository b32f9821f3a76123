#!/usr/bin/env python3
"""Everything moved out of a raft snapshot of a real OpenBao and its unseal shares, by `kallisto migrate -from-snapshot`.

    tests/ops/migrate_snapshot.py KALLISTO BAO

What no API gives out is tried as its user would: an old password, an old secret id, old ciphertexts of keys that are not exportable. What both ways
move is compared with the running OpenBao, route by route.
"""
import base64
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import time
import urllib.request

from migrate_servers import KALLISTO, check, environment, fill_app, migrate, migrate_in, run, start_bao, start_kallisto, work

SECRETS = int(os.environ.get("MIGRATE_SECRETS", "100"))
PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
-----END PUBLIC KEY-----"""
PLAIN = base64.b64encode(b"of old").decode()
CONTEXT = base64.b64encode(b"context").decode()
ENCRYPTING = {
    "default": {},
    "aes128": {"type": "aes128-gcm96"},
    "chacha": {"type": "chacha20-poly1305"},
    "xchacha": {"type": "xchacha20-poly1305"},
    "rsa": {"type": "rsa-2048"},
    "derived": {"derived": True},
    "convergent": {"derived": True, "convergent_encryption": True},
    "exportable": {"exportable": True, "allow_plaintext_backup": True},
}
SIGNING = {"p256": "ecdsa-p256", "p384": "ecdsa-p384", "p521": "ecdsa-p521", "ed": "ed25519", "rsa-signs": "rsa-2048"}


def fill_secrets(bao):
    fill_app(bao)
    bao.good("POST", "secret/metadata/trimmed", {"max_versions": 2, "cas_required": True})
    for number in range(17):
        bao.good("POST", "secret/data/trimmed", {"data": {"n": number}, "options": {"cas": number}})
    bao.good("POST", "one/a", {"beside": "a folder"})
    for number in range(SECRETS):
        bao.good("POST", f"secret/data/many/{number % 7}/{number}", {"data": {"password": f"p{number}"}})
    for namespace in ("team", "team/sub"):
        parent, _, name = namespace.rpartition("/")
        bao.good("POST", f"{parent}/sys/namespaces/{name}".lstrip("/"), {"custom_metadata": {"owner": name}})
        bao.good("POST", f"{namespace}/sys/mounts/kv", {"type": "kv", "options": {"version": "2"}})
        bao.upgraded(f"{namespace}/kv")
        bao.good("POST", f"{namespace}/kv/data/a/b", {"data": {"in": namespace}})
        bao.good("POST", f"{namespace}/sys/policies/acl/p", {"policy": 'path "kv/*" { capabilities = ["read"] }\n'})
        bao.good("POST", f"{namespace}/sys/auth/userpass", {"type": "userpass"})
        bao.good("POST", f"{namespace}/auth/userpass/users/eve", {"password": f"eve of {namespace}", "token_policies": ["p"]})


def fill_logins(bao):
    """Users, roles, entities and groups; returns the secret ids that were given out."""
    bao.good("POST", "sys/auth/people", {"type": "userpass", "description": "of people", "config": {"default_lease_ttl": "2h"}})
    bao.good("POST", "sys/auth/approle", {"type": "approle"})
    bao.good("POST", "sys/auth/jwt", {"type": "jwt"})
    bao.good("POST", "sys/auth/cert", {"type": "cert"})
    bao.good("POST", "auth/people/users/ann", {"password": "wonder", "token_policies": ["app"], "token_ttl": "1h"})
    bao.good("POST", "auth/people/users/bob", {"password": "ünï wörd " * 6})
    bao.good("POST", "auth/approle/role/app", {"token_policies": ["app"], "secret_id_ttl": "20h", "secret_id_num_uses": 3})
    bao.good("POST", "auth/approle/role/local", {"local_secret_ids": True, "token_period": "1h", "secret_id_bound_cidrs": ["127.0.0.0/8"]})
    bao.good("POST", "auth/approle/role/app/role-id", {"role_id": "the-role-id"})
    ids = {"app": bao.good("POST", "auth/approle/role/app/secret-id", {"metadata": '{"of":"old"}'})["data"]}
    ids["local"] = bao.good("POST", "auth/approle/role/local/secret-id", {"cidr_list": ["127.0.0.1/32"]})["data"]
    bao.good("POST", "auth/approle/role/app/custom-secret-id", {"secret_id": "chosen by hand"})
    bao.good("POST", "auth/approle/role/app/secret-id", {"ttl": "1s"})
    bao.good("POST", "auth/approle/login", {"role_id": "the-role-id", "secret_id": ids["app"]["secret_id"]})
    bao.good("POST", "auth/jwt/config", {"jwt_validation_pubkeys": [PUBLIC_KEY]})
    role = {"role_type": "jwt", "user_claim": "sub", "bound_audiences": ["ci"], "bound_claims": {"p": ["a", "b"]}, "token_policies": ["app"], "expiration_leeway": 90}
    bao.good("POST", "auth/jwt/role/ci", role)
    bao.good("POST", "auth/token/roles/worker", {"allowed_policies": ["app"], "orphan": True, "token_period": "24h"})
    accessor = bao.good("GET", "sys/auth")["data"]["people/"]["accessor"]
    entity = bao.good("POST", "identity/entity", {"name": "ann", "metadata": {"team": "x"}, "policies": ["app"]})["data"]["id"]
    bao.good("POST", "identity/entity-alias", {"name": "ann", "canonical_id": entity, "mount_accessor": accessor, "custom_metadata": {"desk": "7"}})
    bao.good("POST", "identity/entity", {"name": "away", "disabled": True})
    inner = bao.good("POST", "identity/group", {"name": "inner", "member_entity_ids": [entity], "policies": ["app"]})["data"]["id"]
    bao.good("POST", "identity/group", {"name": "outer", "member_group_ids": [inner], "metadata": {"a": "b"}})
    outside = bao.good("POST", "identity/group", {"name": "outside", "type": "external", "policies": ["app"]})["data"]["id"]
    jwt = bao.good("GET", "sys/auth")["data"]["jwt/"]["accessor"]
    bao.good("POST", "identity/group-alias", {"name": "claims", "canonical_id": outside, "mount_accessor": jwt})
    rule = f'path "secret/data/{{{{identity.entity.aliases.{accessor}.name}}}}" {{ capabilities = ["read"] }}\n'
    bao.good("POST", "sys/policies/acl/app", {"policy": rule + 'path "secret/data/app" { capabilities = ["read"] }\n'})
    bao.good("POST", "sys/policies/acl/brief", {"policy": 'path "x" { capabilities = ["read"] }', "ttl": "10h"})
    bao.good("POST", "sys/policies/password/long", {"policy": 'length = 30\nrule "charset" { charset = "abc" }\n'})
    bao.good("POST", "sys/quotas/rate-limit/q", {"rate": 100000})
    return ids


def fill_keys(bao):
    """Transit keys of every type; returns what they encrypted, signed and vouched for."""
    bao.good("POST", "sys/mounts/transit", {"type": "transit"})
    made = {}
    for name, body in ENCRYPTING.items():
        bao.good("POST", f"transit/keys/{name}", body)
        asked = {"plaintext": PLAIN, **({"context": CONTEXT} if body.get("derived") else {})}
        made[name] = [bao.good("POST", f"transit/encrypt/{name}", asked)["data"]["ciphertext"]]
        bao.good("POST", f"transit/keys/{name}/rotate")
        made[name].append(bao.good("POST", f"transit/encrypt/{name}", asked)["data"]["ciphertext"])
    bao.good("POST", "transit/keys/default/rotate")
    bao.good("POST", "transit/keys/default/config", {"min_decryption_version": 2, "min_encryption_version": 3})
    for name, kind in SIGNING.items():
        bao.good("POST", f"transit/keys/{name}", {"type": kind})
        made[name] = bao.good("POST", f"transit/sign/{name}", {"input": PLAIN})["data"]["signature"]
    bao.good("POST", "transit/keys/mac", {"type": "hmac", "key_size": 32})
    for name in ("mac", "default", "exportable"):
        made[f"hmac {name}"] = bao.good("POST", f"transit/hmac/{name}", {"input": PLAIN})["data"]["hmac"]
    return made


def fill_authority(bao):
    """A root with an issuer below it, roles and settings, a certificate that is revoked and one that is good."""
    bao.good("POST", "sys/mounts/pki", {"type": "pki", "config": {"max_lease_ttl": "87600h"}})
    root = {"common_name": "root", "issuer_name": "root", "key_name": "root-key", "key_type": "ec", "ttl": "87000h"}
    bao.good("POST", "pki/root/generate/internal", root)
    csr = bao.good("POST", "pki/issuers/generate/intermediate/internal", {"common_name": "int", "key_type": "rsa", "key_name": "int-key"})["data"]["csr"]
    signed = bao.good("POST", "pki/issuer/root/sign-intermediate", {"csr": csr, "common_name": "int", "ttl": "80000h"})["data"]["certificate"]
    issuer = bao.good("POST", "pki/intermediate/set-signed", {"certificate": signed})["data"]["imported_issuers"][0]
    settings = {"issuer_name": "int", "leaf_not_after_behavior": "truncate", "usage": "issuing-certificates,crl-signing,read-only", "issuing_certificates": ["http://int.example/ca"], "manual_chain": [issuer, "root"]}
    bao.good("POST", f"pki/issuer/{issuer}", settings)
    bao.good("POST", "pki/config/issuers", {"default": issuer})
    bao.good("POST", "pki/config/urls", {"crl_distribution_points": ["http://x.example/crl"]})
    bao.good("POST", "pki/config/crl", {"expiry": "50h", "auto_rebuild": False})
    bao.good("POST", "pki/config/auto-tidy", {"enabled": True, "tidy_cert_store": True, "interval_duration": "10h"})
    bao.good("POST", "pki/config/cluster", {"path": "http://127.0.0.1/v1/pki"})
    role = {"allowed_domains": ["x.example"], "allow_subdomains": True, "max_ttl": "72h", "ttl": "24h", "key_type": "ec", "key_bits": 256, "issuer_ref": issuer, "ou": ["o"], "not_before_duration": "90s"}
    bao.good("POST", "pki/roles/web", role)
    bao.good("POST", "pki/roles/plain", {"allow_any_name": True})
    made = {name: bao.good("POST", "pki/issue/web", {"common_name": f"{name}.x.example"})["data"] for name in ("revoked", "good")}
    bao.good("POST", "pki/revoke", {"serial_number": made["revoked"]["serial_number"]})
    return made


def save(bao, path):
    request = urllib.request.Request(f"{bao.address}/v1/sys/storage/raft/snapshot")
    request.add_header("X-Vault-Token", bao.token)
    with urllib.request.urlopen(request, timeout=60) as reply, open(path, "wb") as file:
        file.write(reply.read())


def list_raw(bao, folder):
    return bao.good("GET", f"sys/raw/{folder}?list=true")["data"]["keys"]


def damage(bao):
    """Records of each kind that are none, as a bug or a newer server would leave them; returns what the report calls them."""
    mounts, methods = bao.good("GET", "sys/mounts")["data"], bao.good("GET", "sys/auth")["data"]
    kv, approle = mounts["secret/"]["uuid"], methods["approle/"]["uuid"]
    (own,) = [name for name in list_raw(bao, f"logical/{kv}/") if name.endswith("/")]
    (role,) = [name for name in list_raw(bao, f"auth/{approle}/secret_id/")]
    paths = [f"logical/{kv}/{own}metadata/damaged", f"auth/{approle}/secret_id/{role}damaged", f"auth/{approle}/role/damaged", "core/mounts/damaged"]
    for path in paths:
        bao.good("POST", f"sys/raw/{path}", {"value": "damaged"})
    return paths, {
        ("secrets", f"secret/{own}metadata/damaged"), ("secret ids", "auth/approle/role/app/secret-id/damaged"),
        ("login roles", "auth/approle/role/damaged"), ("secret ids", "auth/approle/role/damaged"), ("mounts", "core/mounts/damaged"),
    }


def write_snapshot(file, value, count):
    """A file of that many records of a mebibyte."""
    state = io.BytesIO()
    for number in range(count):
        path = f"logical/{number}".encode()
        entry = b"\x0a" + bytes([len(path)]) + path + b"\x12\x80\x80\x40" + value()
        length, varint = len(entry), b""
        while length >= 0x80:
            varint, length = varint + bytes([length & 0x7F | 0x80]), length >> 7
        state.write(varint + bytes([length]) + entry)
    with tarfile.open(file, "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (("meta.json", b"{}"), ("state.bin", state.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def walk_bomb(target, shares):
    """A small file that expands to a large one: its records would not."""
    write_snapshot(f"{work}/bomb", lambda: bytes(1 << 20), 240)
    command = [KALLISTO, "migrate", f"-from-snapshot={work}/bomb", f"-source-shares-file={shares}"]
    # Of a small process: a child counts the memory of whoever started it until it begins.
    measure = "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
    told = subprocess.run([sys.executable, "-c", measure, *command], env=variables(target), capture_output=True, text=True)
    check(told.returncode != 0 and "expands more than 64-fold" in told.stderr, "a bomb is refused for what it is", told.stderr)
    peak = int(told.stdout.split()[-1])
    print(f"      {peak >> 10} MiB at most for {os.path.getsize(f'{work}/bomb') >> 10} KiB of file")
    check(peak < 100 << 10, "and takes no memory for it", f"{peak} KiB")
    write_snapshot(f"{work}/large", lambda: os.urandom(1 << 20), 3)
    code, _, said = migrate_in(variables(target), f"-from-snapshot={work}/large", f"-source-shares-file={shares}", "-snapshot-memory-mib=1")
    check(code != 0 and "-snapshot-memory-mib gives more" in said, "a limit of memory names its flag", f"{code} {said}")


def variables(target):
    """What the command is given: no source but the files that its flags name."""
    given = environment(target, target)
    return {name: value for name, value in given.items() if not name.startswith("VAULT_SOURCE")}


def walk_refusals(bao, target, snapshot, shares):
    def refused(why, *flags):
        code, _, said = migrate_in(variables(target), *flags)
        check(code != 0 and why in said, f"refused: {why}", f"{code} {said}")

    refused("cannot be asked for", f"-from-snapshot={snapshot}")
    with open(f"{work}/few", "w", encoding="utf-8") as file:
        file.write(bao.shares[0] + "\n")
    refused("it takes 3 shares", f"-from-snapshot={snapshot}", f"-source-shares-file={work}/few")
    with open(f"{work}/others", "w", encoding="utf-8") as file:
        file.writelines(base64.b64encode(os.urandom(32) + bytes([at])).decode() + "\n" for at in (1, 2, 3))
    refused("of another server", f"-from-snapshot={snapshot}", f"-source-shares-file={work}/others")
    with open(snapshot, "rb") as file:
        whole = file.read()
    with open(f"{work}/cut", "wb") as file:
        file.write(whole[:-100])
    refused("cut off", f"-from-snapshot={work}/cut", f"-source-shares-file={shares}")
    with open(f"{work}/text", "wb") as file:
        file.write(b"hello")
    refused("no snapshot", f"-from-snapshot={work}/text", f"-source-shares-file={shares}")
    # One byte of a record, with the sums made anew: what seals the sums does not go with them.
    members = {}
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(whole))) as tar:
        for member in tar.getmembers():
            members[member.name] = tar.extractfile(member).read()
    state = bytearray(members["state.bin"])
    state[-1] ^= 1
    members["state.bin"] = bytes(state)
    members["SHA256SUMS"] = "".join(f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in ("meta.json", "state.bin")).encode()
    with tarfile.open(f"{work}/forged", "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    refused("not those that the server sealed", f"-from-snapshot={work}/forged", f"-source-shares-file={shares}")
    refused("no namespace", f"-from-snapshot={snapshot}", f"-source-shares-file={shares}", "-source-namespace=nosuch")
    refused("cannot be used with", f"-from-snapshot={snapshot}", "-source-address=http://127.0.0.1:1")


def walk_move(target, flags, damaged):
    before = target.ask("GET", "sys/mounts")[1]["data"].keys()
    code, report, said = migrate_in(variables(target), *flags, "-dry-run")
    check(code == 2 and report["counts"]["secrets"]["moved"] > SECRETS, "a dry run says what would move", f"{code} {report} {said}")
    dry = report["counts"]
    check(target.ask("GET", "sys/mounts")[1]["data"].keys() == before, "and changes nothing")
    began = time.monotonic()
    code, report, said = migrate_in(variables(target), *flags)
    print(f"      {report['counts'].get('secrets')} in {time.monotonic() - began:.1f} s")
    lines = {(line["kind"], line["path"]): line["reason"] for line in report["not_moved"]}
    expected = {("policies", "brief"), ("quotas", "sys/quotas/")} | damaged
    check(code == 2 and set(lines) == expected, "all kinds move, and what does not is named", f"{code} {lines} {said}")
    check("expires by itself" in lines.get(("policies", "brief"), ""), "with the reason", str(lines))
    notes = {line["kind"]: line["reason"] for line in report["notes"]}
    check("tokens" in notes and "leases" in notes, "tokens and leases are counted", str(notes))
    moved = {kind: counts["moved"] for kind, counts in report["counts"].items()}
    check(all(moved[kind] == counts["moved"] for kind, counts in dry.items() if kind not in ("secret ids", "mount settings", "entity aliases", "group members")), "as the dry run promised", f"{dry} {moved}")


def walk_secrets(bao, target):
    metadata = target.good("GET", "secret/metadata/app")["data"]
    versions = metadata["versions"]
    check(len(versions) == 12 and versions["3"]["deletion_time"] and versions["5"]["destroyed"], "twelve versions, the third deleted, the fifth destroyed", str(metadata))
    theirs = bao.good("GET", "secret/metadata/app")["data"]
    for one in (metadata, theirs):
        for version in one["versions"].values():
            for name in ("created_by", "deleted_by", "request_id"):
                version.pop(name, None)
    check(metadata == theirs, "the metadata is as the other server shows it", f"{metadata} {theirs}")
    target.good("POST", "secret/undelete/app", {"versions": [3]})
    data = target.good("GET", "secret/data/app?version=3")["data"]["data"]
    check(data == {"n": 3, "text": "ü\n\"'"}, "a deleted version is undeleted, with its data", str(data))
    target.good("POST", "secret/delete/app", {"versions": [3]})
    check(target.ask("GET", "secret/data/app?version=5")[0] == 404, "a destroyed one has none")
    numbers = [sorted(server.good("GET", "secret/metadata/trimmed")["data"]["versions"]) for server in (bao, target)]
    check(numbers[0] == numbers[1] and "1" not in numbers[0], "trimmed versions keep their numbers", str(numbers))
    check(target.good("GET", "one/a/b")["data"]["ttl"] == "1h" and target.good("GET", "one/a")["data"] == {"beside": "a folder"}, "secrets without versions")
    for namespace in ("team", "team/sub"):
        check(target.good("GET", f"{namespace}/kv/data/a/b")["data"]["data"] == {"in": namespace}, f"a secret in {namespace}")
        status, answer = target.ask("POST", f"{namespace}/auth/userpass/login/eve", {"password": f"eve of {namespace}"})
        check(status == 200, f"a user of {namespace} logs in with the old password", str(answer))


def walk_logins(target, ids):
    for name, password in (("ann", "wonder"), ("bob", "ünï wörd " * 6)):
        for attempt in ("first", "next"):
            status, answer = target.ask("POST", f"auth/people/login/{name}", {"password": password})
            check(status == 200, f"{name} logs in with the old password, the {attempt} time", str(answer))
        check(target.ask("POST", f"auth/people/login/{name}", {"password": "another"})[0] == 400, "and with no other")
    auth = target.good("POST", "auth/people/login/ann", {"password": "wonder"})["auth"]
    check("app" in auth["policies"] and auth["lease_duration"] == 3600, "with policies and times", str(auth))
    entity = target.good("GET", "identity/entity/name/ann")["data"]
    check(auth["entity_id"] == entity["id"] and entity["aliases"][0]["custom_metadata"] == {"desk": "7"}, "as the entity that it was", str(entity))
    check(target.good("GET", "identity/entity/name/away")["data"]["disabled"], "a disabled entity")
    inner = target.good("GET", "identity/group/name/inner")["data"]
    outer = target.good("GET", "identity/group/name/outer")["data"]
    check(outer["member_group_ids"] == [inner["id"]] and inner["member_entity_ids"] == [entity["id"]], "groups in groups")
    check(target.good("GET", "identity/group/name/outside")["data"]["alias"]["name"] == "claims", "a group from outside with its alias")
    enter = lambda role, secret: target.ask("POST", "auth/approle/login", {"role_id": role, "secret_id": secret})
    for attempt in ("first", "second"):
        status, answer = enter("the-role-id", ids["app"]["secret_id"])
        check(status == 200 and answer["auth"]["metadata"]["of"] == "old", f"an old secret id logs in, the {attempt} time", str(answer))
    check(enter("the-role-id", ids["app"]["secret_id"])[0] == 400, "and no more often than it had left")
    check(enter("the-role-id", "chosen by hand")[0] == 200, "one that was chosen by hand")
    local = target.good("GET", "auth/approle/role/local/role-id")["data"]["role_id"]
    check(enter(local, ids["local"]["secret_id"])[0] == 200 and enter(local, "x")[0] == 400, "one of one cluster alone")
    found = target.good("POST", "auth/approle/role/local/secret-id-accessor/lookup", {"secret_id_accessor": ids["local"]["secret_id_accessor"]})
    check(found["data"]["cidr_list"] == ["127.0.0.1/32"], "by its accessor it is found", str(found))


def walk_keys(target, made):
    for name, body in ENCRYPTING.items():
        context = {"context": CONTEXT} if body.get("derived") else {}
        for version, text in enumerate(made[name], 1):
            status, answer = target.ask("POST", f"transit/decrypt/{name}", {"ciphertext": text, **context})
            if (name, version) == ("default", 1):
                check(status == 400 and "too old" in str(answer), "a version below the least is refused as it was", str(answer))
            else:
                check(status == 200 and answer["data"]["plaintext"] == PLAIN, f"version {version} of {name} decrypts what it encrypted", str(answer))
    again = target.good("POST", "transit/encrypt/convergent", {"plaintext": PLAIN, "context": CONTEXT})["data"]["ciphertext"]
    check(again == made["convergent"][1], "a convergent key encrypts as it did")
    target.good("POST", "transit/keys/default/config", {"min_decryption_version": 1})
    answer = target.good("POST", "transit/decrypt/default", {"ciphertext": made["default"][0]})
    check(answer["data"]["plaintext"] == PLAIN, "archived versions came as well")
    target.good("POST", "transit/keys/default/config", {"min_decryption_version": 2})
    for name in SIGNING:
        status, answer = target.ask("POST", f"transit/verify/{name}", {"input": PLAIN, "signature": made[name]})
        check(status == 200 and answer["data"]["valid"], f"{name} verifies what it signed", str(answer))
    for name in ("mac", "default", "exportable"):
        answer = target.good("POST", f"transit/verify/{name}", {"input": PLAIN, "hmac": made[f"hmac {name}"]})
        check(answer["data"]["valid"], f"an HMAC of {name} is good")
    check(target.ask("GET", "transit/export/encryption-key/default")[0] == 400, "a key that was not exportable is none")


def walk_authority(bao, target, made):
    for name in ("root", "int"):
        theirs, ours = (server.good("GET", f"pki/issuer/{name}")["data"] for server in (bao, target))
        # Theirs end in a line feed.
        for one in (theirs, ours):
            one["certificate"], one["ca_chain"] = one["certificate"].strip(), [text.strip() for text in one["ca_chain"]]
        same = ("certificate", "ca_chain", "issuer_name", "leaf_not_after_behavior", "usage", "issuing_certificates", "revoked")
        check(all(theirs[field] == ours[field] for field in same) and ours["key_id"], f"the issuer {name} is as it was, with its key", f"{theirs} {ours}")
    for route in ("config/urls", "config/crl", "config/cluster", "config/auto-tidy", "roles/web", "roles/plain"):
        theirs, ours = (server.good("GET", f"pki/{route}")["data"] for server in (bao, target))
        other = {field: (value, ours.get(field)) for field, value in theirs.items() if ours.get(field) != value and field != "issuer_ref"}
        check(not other, f"{route} is as it was", str(other))
    issued = target.good("POST", "pki/issue/web", {"common_name": "new.x.example"})["data"]
    check(issued["issuing_ca"] == made["good"]["issuing_ca"], "a role issues by the issuer that it names")
    listed = target.good("GET", f"pki/cert/{made['revoked']['serial_number']}")["data"]
    check(listed["revocation_time"] > 0, "a revoked certificate is revoked", str(listed))
    with open(f"{work}/crl.pem", "w", encoding="utf-8") as file:
        file.write(target.good("GET", "pki/issuer/int/crl")["data"]["crl"])
    with open(f"{work}/chain.pem", "w", encoding="utf-8") as file:
        file.write("\n".join(target.good("GET", "pki/issuer/int")["data"]["ca_chain"]))
    for name, code in (("good", 0), ("revoked", 2)):
        with open(f"{work}/leaf.pem", "w", encoding="utf-8") as file:
            file.write(made[name]["certificate"])
        verify = ["openssl", "verify", "-crl_check", "-CRLfile", f"{work}/crl.pem", "-CAfile", f"{work}/chain.pem", f"{work}/leaf.pem"]
        told = subprocess.run(verify, capture_output=True, text=True)
        check((told.returncode == 0) == (code == 0), f"with the list of the target openssl takes the {name} certificate for {name}", told.stdout + told.stderr)


def walk_compare(bao, target, flags):
    code, report, said = migrate_in(variables(target), *flags, "-compare")
    check(code == 2 and not report["differing"], "comparing with the snapshot finds all of it equal", f"{code} {report['differing']} {said}")
    code, report, said = migrate(bao, target, "-compare")
    differing = [line["path"] for line in report["differing"]]
    # A policy that expires is refused, and settings that were never written are told by that server alone.
    check(set(differing) <= {"brief", "auth/cert/config"}, "comparing with the running server too, route by route", f"{code} {report['differing']} {said}")


def walk_again(bao, target, flags, state):
    # What was undeleted and deleted here has another time by now.
    migrate_in(variables(target), *flags, "-overwrite", "-path=secret/app")
    code, report, said = migrate_in(variables(target), *flags)
    moved = {kind: counts["moved"] for kind, counts in report["counts"].items() if counts["moved"]}
    check(not moved, "another pass has nothing to do, and gives no use of a secret id back", f"{moved} {said}")
    with open(state, encoding="utf-8") as file:
        text = file.read()
    check("many" not in text and "wonder" not in text, "the state file holds no path and no value")
    target.good("POST", "auth/people/users/bob/password", {"password": "changed here"})
    migrate_in(variables(target), *flags)
    check(target.ask("POST", "auth/people/login/bob", {"password": "changed here"})[0] == 200, "a password that was changed here stays")
    bao.good("POST", "secret/data/app", {"data": {"n": 13}})
    bao.good("POST", "transit/keys/default/rotate")
    later = bao.good("POST", "transit/encrypt/default", {"plaintext": PLAIN})["data"]["ciphertext"]
    save(bao, f"{work}/later.snap")
    flags = [f"-from-snapshot={work}/later.snap", *flags[1:]]
    code, report, said = migrate_in(variables(target), *flags)
    refused = [line["path"] for line in report["not_moved"] if line["kind"] == "transit keys"]
    check(report["counts"]["secrets"]["moved"] == 1 and refused == ["transit/keys/default"], "a later snapshot brings what changed, and names the key that stays", f"{report['counts']} {report['not_moved']} {said}")
    dry = migrate_in(variables(target), *flags, "-overwrite", "-dry-run")[1]["counts"]["login roles"]["moved"]
    check(target.ask("POST", "auth/people/login/bob", {"password": "changed here"})[0] == 200, "a dry run with -overwrite changes no password")
    code, report, said = migrate_in(variables(target), *flags, "-overwrite")
    check(dry == report["counts"]["login roles"]["moved"] > 0, "and says how many would be", f"{dry} {report['counts']}")
    answer = target.ask("POST", "transit/decrypt/default", {"ciphertext": later})[1]
    check(answer.get("data", {}).get("plaintext") == PLAIN, "-overwrite replaces it", f"{answer} {report['not_moved']}")
    check(target.ask("POST", "auth/people/login/bob", {"password": "changed here"})[0] == 400, "and the password")


def walk_parts(snapshot, shares):
    """A namespace alone, and a live move that is completed."""
    target = start_kallisto("part")
    flags = [f"-from-snapshot={snapshot}", f"-source-shares-file={shares}"]
    code, report, said = migrate_in(variables(target), *flags, "-source-namespace=team", "-only=mounts,secrets,namespaces")
    check(code == 0 and target.good("GET", "sub/kv/data/a/b")["data"]["data"] == {"in": "team/sub"}, "a namespace moves alone", f"{code} {report} {said}")
    code, report, said = migrate_in(variables(target), *flags, "-path=secret/many/1/")
    # A record that cannot be read may be of any folder: its path is in it.
    stray = [line["path"].endswith("/metadata/damaged") for line in report["not_moved"]]
    check(code == 2 and stray == [True], "a folder moves alone, and a record without a path is named", f"{code} {report} {said}")
    check(target.ask("GET", "secret/data/app")[0] == 404 and target.ask("GET", "secret/data/many/1/1")[0] == 200, "and nothing else")


def walk_other_key(snapshot, shares, made):
    """A key of the target that reads as one of the snapshot and is another."""
    target = start_kallisto("other-key")
    target.good("POST", "sys/mounts/transit", {"type": "transit"})
    target.good("POST", "transit/keys/exportable", ENCRYPTING["exportable"])
    target.good("POST", "transit/keys/exportable/rotate")
    flags = [f"-from-snapshot={snapshot}", f"-source-shares-file={shares}", "-only=transit-keys"]
    for end in (["-compare"], ["-dry-run"], []):
        report = migrate_in(variables(target), *flags, *end)[1]
        named = [line["path"] for line in report["notes"] if line["kind"] == "transit keys"]
        check("transit/keys/exportable" in named, f"a key that reads the same is named {end}", str(report))
    status = target.ask("POST", "transit/decrypt/exportable", {"ciphertext": made["exportable"][0]})[0]
    check(status == 400, "and stays")
    report = migrate_in(variables(target), *flags, "-overwrite", "-dry-run")[1]
    keys = target.good("LIST", "transit/keys")["data"]["keys"]
    check(report["counts"]["transit keys"]["moved"] == len(keys), "a dry run with -overwrite says that all would be replaced", str(report))
    migrate_in(variables(target), *flags, "-overwrite")
    answer = target.ask("POST", "transit/decrypt/exportable", {"ciphertext": made["exportable"][0]})[1]
    check(answer.get("data", {}).get("plaintext") == PLAIN, "-overwrite replaces a key that reads the same", str(answer))


def walk_one_share():
    """A server with one share, which is its key."""
    bao, target = start_bao(name="bao-one"), start_kallisto("one-share")
    bao.good("POST", "sys/mounts/one", {"type": "kv"})
    bao.good("POST", "one/a", {"x": "y"})
    save(bao, f"{work}/one.snap")
    for form, text in (("hex", bao.shares[0]), ("base64", base64.b64encode(bytes.fromhex(bao.shares[0])).decode())):
        with open(f"{work}/one-share", "w", encoding="utf-8") as file:
            file.write(text + "\n")
        code, _, said = migrate_in(variables(target), f"-from-snapshot={work}/one.snap", f"-source-shares-file={work}/one-share", "-only=mounts,secrets")
        check(code == 0 and target.ask("GET", "one/a")[1].get("data") == {"x": "y"}, f"the one share of a server opens its snapshot, in {form}", f"{code} {said}")


def walk_live_first(bao, snapshot, shares):
    target = start_kallisto("live")
    migrate(bao, target, "-only=mounts,secrets,login-methods")
    check(target.ask("POST", "secret/undelete/app", {"versions": [3]})[0] == 400, "a live move has no data of deleted versions")
    check(target.ask("POST", "auth/people/login/ann", {"password": "wonder"})[0] == 400, "and no passwords")
    flags = [f"-from-snapshot={snapshot}", f"-source-shares-file={shares}", "-overwrite"]
    migrate_in(variables(target), *flags)
    target.good("POST", "secret/undelete/app", {"versions": [3]})
    data = target.good("GET", "secret/data/app?version=3")["data"]["data"]
    check(data["n"] == 3 and target.ask("POST", "auth/people/login/ann", {"password": "wonder"})[0] == 200, "a snapshot with -overwrite brings both", str(data))


def main():
    bao = start_bao(5, 3)
    fill_secrets(bao)
    ids = fill_logins(bao)
    made = fill_keys(bao)
    certificates = fill_authority(bao)
    bao.good("POST", "sys/rotate/keyring")
    bao.good("POST", "one/after", {"the": "rotation"})
    paths, damaged = damage(bao)
    time.sleep(1.2)
    snapshot, shares, state = f"{work}/bao.snap", f"{work}/shares", f"{work}/state.json"
    save(bao, snapshot)
    for path in paths:
        bao.good("DELETE", f"sys/raw/{path}")
    with open(shares, "w", encoding="utf-8") as file:
        file.write("\n".join(bao.shares[1:4]) + "\n")
    target = start_kallisto("target")
    walk_refusals(bao, target, snapshot, shares)
    walk_bomb(target, shares)
    flags = [f"-from-snapshot={snapshot}", f"-source-shares-file={shares}", f"-state-file={state}"]
    walk_move(target, flags, damaged)
    walk_compare(bao, target, flags)
    walk_secrets(bao, target)
    walk_keys(target, made)
    walk_authority(bao, target, certificates)
    walk_logins(target, ids)
    walk_again(bao, target, flags, state)
    walk_parts(snapshot, shares)
    walk_other_key(snapshot, shares, made)
    walk_live_first(bao, snapshot, shares)
    walk_one_share()


run(main)
