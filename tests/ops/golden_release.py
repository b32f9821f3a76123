#!/usr/bin/env python3
"""Makes the data directory of a release that `crates/kallisto/tests/server/golden.rs` opens with every later build.

    tests/ops/golden_release.py target/release/kallisto

Run once for each release, with its binary. A server writes records of every kind, is stopped and started again, so that there are sorted
files, writes some more and is killed (-9), so that there is a log to replay. The directory becomes `golden/release-VERSION.tar.gz`, and the
row for `RELEASES` is printed. Nothing else is ever kept with these keys.
"""
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from free_ports import free_ports  # noqa: E402
from ops.three import raft_config  # noqa: E402

GOLDEN = ROOT / "crates/kallisto/tests/server/golden"
WAIT_SECS = 30
YEARS_20 = "175200h"


class Server:
    def __init__(self, binary, work):
        self.binary, self.work, self.token, self.process = binary, work, None, None
        self.api, peer = free_ports(2)
        (work / "data").mkdir(mode=0o700)
        (work / "server.hcl").write_text(raft_config(work / "data", self.api, peer))

    def start(self):
        log = open(self.work / "log", "a")
        self.process = subprocess.Popen([self.binary, "server", f"-config={self.work}/server.hcl"], stdout=log, stderr=log)
        end = time.time() + WAIT_SECS
        while time.time() < end:
            try:
                return self.call("sys/seal-status")
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"the server does not answer: {self.work}/log")

    def call(self, path, body=None, method=None, headers=None):
        method = method or ("GET" if body is None else "POST")
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Vault-Token": self.token or "", **(headers or {})}
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}/v1/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(text) if text else {}

    def unseal(self, share):
        assert not self.call("sys/unseal", {"key": share})["sealed"]
        end = time.time() + WAIT_SECS
        while self.call("sys/leader").get("is_self") is not True:
            assert time.time() < end, "it does not lead"
            time.sleep(0.1)

    def end(self, how):
        getattr(self.process, how)()
        self.process.wait()


def fill(call):
    """Records of every kind; returns the ciphertext that has to decrypt for ever."""
    call("sys/audit/nothing", {"type": "file", "options": {"file_path": "discard"}})
    # Secrets: three versions of which the second is deleted, many, one that was removed, version 1, custom metadata.
    call("sys/mounts/kv", {"type": "kv", "options": {"version": "2"}})
    for number in (1, 2, 3):
        call("kv/data/app/db", {"data": {"password": f"version {number}"}})
    call("kv/delete/app/db", {"versions": [2]})
    call("kv/metadata/app/db", {"custom_metadata": {"owner": "golden"}})
    for number in range(1, 61):
        call(f"kv/data/many/{number}", {"data": {"n": str(number)}})
    call("kv/metadata/many/60", method="DELETE")
    call("sys/mounts/one", {"type": "kv", "options": {"version": "1"}})
    call("one/plain", {"a": "b"})
    # Policies, tokens, logins.
    call("sys/policies/acl/app", {"policy": 'path "kv/data/app/*" { capabilities = ["read"] }'})
    call("sys/auth/token/tune", {"max_lease_ttl": YEARS_20})
    call("auth/token/create", {"id": "a-token-that-lasts", "policies": ["app"], "ttl": YEARS_20})
    call("sys/auth/userpass", {"type": "userpass"})
    call("auth/userpass/users/ann", {"password": "correct horse battery", "token_policies": ["app"]})
    call("sys/auth/approle", {"type": "approle"})
    call("auth/approle/role/web", {"token_policies": ["app"]})
    call("auth/approle/role/web/role-id", {"role_id": "the-role-of-web"})
    call("auth/approle/role/web/custom-secret-id", {"secret_id": "a-secret-id-of-web"})
    call("sys/auth/ldap", {"type": "ldap"})
    call("auth/ldap/config", {"url": "ldaps://ldap.example.org", "userdn": "ou=people,dc=example,dc=org"})
    # Identity, second factors, the OIDC provider.
    ann = call("identity/entity", {"name": "ann", "policies": ["app"]})["data"]["id"]
    call("identity/group", {"name": "g", "member_entity_ids": [ann]})
    call("identity/mfa/method/totp", {"issuer": "golden", "method_name": "app"})
    call("identity/oidc/key/signer", {"algorithm": "ES256", "allowed_client_ids": "*"})
    # Namespaces, quotas. No schedule of snapshots: a test that opens the directory would write some.
    call("sys/namespaces/team", {})
    call("team/sys/mounts/kv", {"type": "kv"})
    call("team/kv/x", {"in": "team"})
    call("sys/quotas/rate-limit/q", {"path": "kv/", "rate": 100000})
    call("sys/quotas/lease-count/leases", {"max_leases": 1000})
    # Engines with records and keys of their own.
    call("sys/mounts/transit", {"type": "transit"})
    call("transit/keys/k", {})
    ciphertext = call("transit/encrypt/k", {"plaintext": "aGVsbG8="})["data"]["ciphertext"]
    call("sys/mounts/totp", {"type": "totp"})
    call("totp/keys/t", {"generate": True, "issuer": "golden", "account_name": "ann"})
    call("sys/mounts/pki", {"type": "pki", "config": {"max_lease_ttl": YEARS_20}})
    call("pki/root/generate/internal", {"common_name": "golden", "ttl": YEARS_20, "key_type": "ec"})
    call("pki/config/cluster", {"path": "http://127.0.0.1:8200/v1/pki"})
    call("pki/roles/r", {"allowed_domains": "example.org", "allow_subdomains": True, "key_type": "ec"})
    call("pki/config/acme", {"enabled": True, "default_directory_policy": "role:r", "allowed_roles": "r"})
    issued = call("pki/issue/r", {"common_name": "old.example.org", "ttl": "1h"})["data"]["serial_number"]
    call("pki/revoke", {"serial_number": issued})
    call("sys/mounts/ssh", {"type": "ssh"})
    call("ssh/config/ca", {"generate_signing_key": True, "key_type": "ssh-ed25519"})
    call("sys/mounts/database", {"type": "database"})
    call("database/config/shop", {"plugin_name": "postgresql-database-plugin", "allowed_roles": "app", "verify_connection": False,
                                  "connection_url": "postgresql://{{username}}:{{password}}@127.0.0.1:1/x", "username": "vault", "password": "p"})
    call("database/roles/app", {"db_name": "shop", "creation_statements": 'CREATE ROLE "{{name}}"', "default_ttl": "1h"})
    return ciphertext


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    version = re.search(r"\(kallisto (\d+\.\d+\.\d+)\)", subprocess.run([binary, "version"], capture_output=True, text=True, check=True).stdout)
    version = version.group(1)
    work = pathlib.Path(tempfile.mkdtemp(prefix="kallisto-golden-"))
    server = Server(binary, work)
    server.start()
    keys = server.call("sys/init", {"secret_shares": 1, "secret_threshold": 1})
    share, server.token = keys["keys"][0], keys["root_token"]
    server.unseal(share)
    ciphertext = fill(server.call)
    server.end("terminate")
    server.start()
    server.unseal(share)
    for number in (1, 2, 3):
        server.call(f"kv/data/late/{number}", {"data": {"n": f"late {number}"}})
    # Where the audit chains stand is noted every second.
    time.sleep(1.5)
    server.end("kill")
    archive = GOLDEN / f"release-{version}.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(work / "data", ".")
    print(f'    Release {{\n        archive: "{archive.name}",\n        share: "{share}",\n        root: "{server.token}",\n        ciphertext: "{ciphertext}",\n    }},')
    print(f"{archive}: {archive.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
