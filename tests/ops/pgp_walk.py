"""Shares and root tokens encrypted to OpenPGP keys, made and read by GnuPG: over this server's own commands, over `bao`, and over the API.

    python3 tests/ops/pgp_walk.py KALLISTO [BAO]      needs gpg
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from three import free_ports, raft_config

KINDS = {
    "alice": "Key-Type: RSA\nKey-Length: 2048\nSubkey-Type: RSA\nSubkey-Length: 2048",
    "bob": "Key-Type: EDDSA\nKey-Curve: ed25519\nSubkey-Type: ECDH\nSubkey-Curve: cv25519",
}


class Walk:
    def __init__(self, binary, work):
        self.binary, self.work = binary, work
        self.home = os.path.join(work, "gnupg")
        os.mkdir(self.home, 0o700)
        for name, kind in KINDS.items():
            text = f"%no-protection\n{kind}\nName-Real: {name}\nName-Email: {name}@example.com\n%commit\n"
            self.gpg("--gen-key", stdin=text.encode())
            for suffix, armor in (("asc", ["--armor"]), ("gpg", [])):
                with open(self.file(f"{name}.{suffix}"), "wb") as out:
                    out.write(self.gpg(*armor, "--export", f"{name}@example.com"))
        with open(self.file("alice.b64"), "wb") as out:
            out.write(base64.b64encode(self.gpg("--export", "alice@example.com")))

    def file(self, name):
        return os.path.join(self.work, name)

    def gpg(self, *arguments, stdin=b""):
        command = ["gpg", "--homedir", self.home, "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
        done = subprocess.run(command + list(arguments), input=stdin, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def opened(self, text):
        return self.gpg("--decrypt", stdin=base64.b64decode(text + "=" * (-len(text) % 4))).decode()

    def fingerprint(self, name):
        listed = self.gpg("--with-colons", "--list-keys", f"{name}@example.com").decode()
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")).lower()

    def start(self, name):
        (port, peer), folder = free_ports(2), self.file(name)
        os.mkdir(folder)
        config = os.path.join(folder, "server.hcl")
        with open(config, "w") as out:
            out.write(raft_config(folder, port, peer, listener="unauthenticated_rekey = true", more='log_requests_level = "info"'))
        self.port, self.log = port, os.path.join(folder, "log")
        log = open(self.log, "w")
        self.server = subprocess.Popen([self.binary, "server", f"-config={config}"], stdout=log, stderr=log)
        for _ in range(300):
            try:
                self.call("sys/seal-status")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("FAIL  the server does not answer")

    def stop(self):
        self.server.terminate()
        assert self.server.wait(30) == 0

    def call(self, path, method="GET", body=None, token=None):
        data = json.dumps(body).encode() if body is not None else None
        headers = {"X-Vault-Token": token} if token else {}
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/{path}", data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.loads(refusal.read() or b"null")

    def command(self, program, *arguments, token="", code=0):
        environment = {"PATH": os.environ["PATH"], "HOME": self.work, "VAULT_ADDR": f"http://127.0.0.1:{self.port}", "BAO_ADDR": f"http://127.0.0.1:{self.port}", "VAULT_TOKEN": token, "BAO_TOKEN": token}
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == code, (arguments, done)
        return done.stdout if code == 0 else done.stderr

    def refusals(self):
        """What is refused before there is anything to lose."""
        alice = base64.b64encode(open(self.file("alice.gpg"), "rb").read()).decode()
        secret = base64.b64encode(self.gpg("--export-secret-keys", "alice@example.com")).decode()
        two = base64.b64encode(self.gpg("--export")).decode()
        for keys, word in ([alice], "count mismatch"), ([alice, secret], "private key"), ([alice, "keybase:alice"], "Keybase"), (
                [alice, two], "more than one"), ([alice, "!"], "base64"), ([alice, alice[:400]], "damaged"), ([alice, ""], "damaged"):
            status, answer = self.call("sys/init", "PUT", {"secret_shares": 2, "secret_threshold": 2, "pgp_keys": keys})
            assert status == 400 and word in answer["errors"][0], (word, status, answer)
        status, answer = self.call("sys/init", "PUT", {"secret_shares": 1, "secret_threshold": 1, "root_token_pgp_key": secret})
        assert status == 400 and "private key" in answer["errors"][0], answer
        for body in {"pgp_keys": " "}, {"pgp_keys": ","}, {"pgp_key": alice}, {"recovery_pgp_keys": [alice]}:
            status, answer = self.call("sys/init", "PUT", {"secret_shares": 1, "secret_threshold": 1, **body})
            assert status == 400, (body, answer)
        assert self.call("sys/init")[1] == {"initialized": False}
        refused = self.command(self.binary, "operator", "init", "-key-shares=1", "-key-threshold=1", "-pgp-keys=keybase:alice", code=1)
        assert "keybase" in refused.lower(), refused
        print("ok    keys that cannot be used are refused, and nothing is initialised")

    def whole_life(self, program):
        """Init, unseal, rekey with a backup, a root token: all encrypted, by one program."""
        made = json.loads(self.command(program, "operator", "init", "-format=json", "-key-shares=2", "-key-threshold=2",
                                       f"-pgp-keys={self.file('alice.asc')},{self.file('bob.gpg')}", f"-root-token-pgp-key={self.file('alice.b64')}"))
        shares = [self.opened(share) for share in made["unseal_keys_b64"]]
        root = self.opened(made["root_token"])
        assert root.startswith(("hvs.", "s.")), root
        assert bytes.fromhex(made["unseal_keys_hex"][0]) == base64.b64decode(made["unseal_keys_b64"][0])
        for share in shares:
            assert len(bytes.fromhex(share)) == 33, share
            self.command(program, "operator", "unseal", share)
        assert self.call("sys/seal-status")[1]["sealed"] is False
        print("ok      init: shares and token only for their holders, and they unseal")
        for path, field in ("rekey/init", "recovery_pgp_keys"), ("generate-root/attempt", "root_token_pgp_key"):
            status, answer = self.call(f"sys/{path}", "PUT", {"secret_shares": 1, "secret_threshold": 1, field: ["x"]}, root)
            assert status == 400 and field in answer["errors"][0], (path, answer)
        self.command(program, "operator", "rekey", "-init", "-key-shares=2", "-key-threshold=2", "-backup",
                     f"-pgp-keys={self.file('alice.asc')},{self.file('bob.asc')}", token=root)
        status = self.call("sys/rekey/init", token=root)[1]
        assert status["pgp_fingerprints"] == [self.fingerprint("alice"), self.fingerprint("bob")] and status["backup"] is True, status
        for share in shares:
            done = self.command(program, "operator", "rekey", "-format=json", f"-nonce={status['nonce']}", share, token=root)
        done = json.loads(done)
        assert done["pgp_fingerprints"] == status["pgp_fingerprints"], done
        fresh = [self.opened(share) for share in done["keys_base64"]]
        for method in "GET", "DELETE":
            assert self.call("sys/rekey/backup", method)[0] == 403, "kept shares without a token"
        kept = json.loads(self.command(program, "operator", "rekey", "-backup-retrieve", "-format=json", token=root))
        kept = kept.get("data", kept)
        assert self.opened(kept["keys_base64"][self.fingerprint("bob")][0]) == fresh[1], kept
        alice = base64.b64encode(open(self.file("alice.gpg"), "rb").read()).decode()
        spec = {"secret_shares": 2, "secret_threshold": 2, "pgp_keys": [alice, alice], "backup": True, "require_verification": True}
        nonce = self.call("sys/rekey/init", "PUT", spec, root)[1]["nonce"]
        for share in fresh:
            done = self.call("sys/rekey/update", "PUT", {"key": share, "nonce": nonce}, root)[1]
        assert done["verification_required"] and done["complete"], done
        assert self.call("sys/rekey/init", "DELETE", token=root)[0] == 204
        again = self.call("sys/rekey/backup", token=root)[1]["data"]
        assert again["keys_base64"] == kept["keys_base64"], "shares of a rekey that was given up were kept"
        self.command(program, "operator", "rekey", "-backup-delete", token=root)
        assert self.call("sys/rekey/backup", token=root)[0] == 400
        print("ok      rekey: new shares for their holders, kept, read back and deleted")
        self.command(program, "operator", "generate-root", "-init", f"-pgp-key={self.file('bob.asc')}", token=root)
        attempt = self.call("sys/generate-root/attempt", token=root)[1]
        assert attempt["pgp_fingerprint"] == self.fingerprint("bob") and attempt["otp"] == "", attempt
        for share in fresh:
            done = self.command(program, "operator", "generate-root", "-format=json", f"-nonce={attempt['nonce']}", share, token=root)
        token = self.opened(json.loads(done)["encoded_token"])
        assert self.call("auth/token/lookup-self", token=token)[1]["data"]["policies"] == ["root"]
        print("ok      generate-root: a token for one holder")
        self.call("sys/seal", "PUT", {}, root)
        for share in shares:
            self.call("sys/unseal", "PUT", {"key": share})
        assert self.call("sys/seal-status")[1]["sealed"] is True, "old shares still unseal"
        self.call("sys/unseal", "PUT", {"reset": True})
        for share in fresh:
            self.call("sys/unseal", "PUT", {"key": share})
        assert self.call("sys/seal-status")[1]["sealed"] is False
        for path in f"auth/token/lookup/{root}?help=1&x={token}", f"auth/token/lookup%2F{root}", f"secret/x={root}", f"secret/%20{root}":
            self.call(path, token=root)
        log = open(self.log).read()
        assert "completed_request" in log and "request_path=/v1/sys/rekey/init" in log.replace('"', ""), log[-2000:]
        for secret in [root, token, *shares, *fresh]:
            assert secret not in log, "a secret is in the log"
        print("ok      the new shares unseal, the old ones do not; the log of requests holds no secret")


def main():
    binary = os.path.abspath(sys.argv[1])
    work = tempfile.mkdtemp(prefix="pgp-")
    walk = Walk(binary, work)
    try:
        for at, program in enumerate([binary, *sys.argv[2:3]]):
            print(f"ok    by {os.path.basename(program)}")
            walk.start(f"server{at}")
            try:
                walk.refusals()
                walk.whole_life(program)
            finally:
                walk.stop()
    finally:
        subprocess.run(["gpgconf", "--homedir", walk.home, "--kill", "all"])
        shutil.rmtree(work, ignore_errors=True)


main()
