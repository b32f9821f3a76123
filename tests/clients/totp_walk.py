"""TOTP through `bao` and hvac, judged by codes that pyotp and, where it is installed, oathtool make.

Three hashes, two lengths and four periods; keys of both kinds; racers for one code.
"""

import base64
import concurrent.futures
import os
import shutil
import subprocess
import sys
import time
import urllib.parse

import hvac
import pyotp

client = hvac.Client(url=os.environ["VAULT_ADDR"], token=os.environ["VAULT_TOKEN"])
bao = sys.argv[1]
MOUNT = "totp-walk"
RACERS = 64


def check(what, truth):
    assert truth, what
    print("ok ", what)


def run(*arguments):
    return subprocess.run([bao, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def data(answer):
    return answer["data"]


def steady(period):
    """Waits until a period has a few seconds left, so that what follows is one period's."""
    left = period - time.time() % period
    if left < 3:
        time.sleep(left)


run("secrets", "enable", f"-path={MOUNT}", "totp")
hashes = {"SHA1": "sha1", "SHA256": "sha256", "SHA512": "sha512"}
oathtool = shutil.which("oathtool")
for algorithm, digest in hashes.items():
    for digits in (6, 8):
        for period in (15, 30, 60, 120):
            name = f"{algorithm}-{digits}-{period}"
            made = data(client.write(f"{MOUNT}/keys/{name}", generate=True, issuer="A B", account_name="c@d",
                                     algorithm=algorithm, digits=digits, period=period))
            parsed = pyotp.parse_uri(made["url"])
            assert (parsed.issuer, parsed.name) == ("A B", "c@d"), made["url"]
            secret = urllib.parse.parse_qs(urllib.parse.urlparse(made["url"]).query)["secret"][0]
            steady(period)
            now = time.time()
            ours = data(client.read(f"{MOUNT}/code/{name}"))["code"]
            theirs = parsed.at(int(now))
            assert ours == theirs, (name, ours, theirs)
            if oathtool:
                tool = subprocess.run([oathtool, f"--totp={digest}", "-b", "-d", str(digits), "-s", f"{period}s", secret],
                                      capture_output=True, text=True, check=True).stdout.strip()
                assert ours == tool, (name, ours, tool)
            assert data(client.write(f"{MOUNT}/code/{name}", code=theirs))["valid"] is True, name
check("codes of 3 hashes, 2 lengths and 4 periods are pyotp's" + (" and oathtool's" if oathtool else ""), True)
if not oathtool:
    print("*** SKIPPED: oathtool is not installed")

check("a QR code is a PNG", base64.b64decode(made["barcode"]).startswith(b"\x89PNG"))
check("bao lists keys", "SHA1-6-30" in run("list", f"{MOUNT}/keys"))
shown = data(client.read(f"{MOUNT}/keys/SHA1-6-30"))
check("a key is read without its secret", sorted(shown) == ["account_name", "algorithm", "digits", "issuer", "period"])
code = run("read", "-field=code", f"{MOUNT}/code/SHA1-8-60")
check("bao reads a code", len(code) == 8 and code.isdigit())

secret = pyotp.random_base32()
uri = pyotp.TOTP(secret).provisioning_uri(name="eve@example.org", issuer_name="Big Co: Ltd")
run("write", f"{MOUNT}/keys/taken", f"url={uri}")
steady(30)
check("a key of another service gives its codes", run("read", "-field=code", f"{MOUNT}/code/taken") == pyotp.TOTP(secret).now())

steady(30)
code = pyotp.TOTP(secret).now()


def try_code(_):
    try:
        return data(client.write(f"{MOUNT}/code/taken", code=code))["valid"]
    except hvac.exceptions.InvalidRequest as error:
        assert "code already used" in str(error), error
        return False


with concurrent.futures.ThreadPoolExecutor(RACERS) as pool:
    taken = list(pool.map(try_code, range(RACERS)))
check(f"of {RACERS} who show one code at once one is let in", taken.count(True) == 1)

steady(30)
wrong = "000000" if pyotp.TOTP(secret).now() != "000000" else "111111"
statuses = []
for _ in range(7):
    try:
        statuses.append(data(client.write(f"{MOUNT}/code/taken", code=wrong))["valid"])
    except hvac.exceptions.VaultError as error:
        assert "too many wrong tries" in str(error), error
        statuses.append("refused")
check("wrong codes are looked at five times a period", statuses == [False] * 5 + ["refused"] * 2)

run("delete", f"{MOUNT}/keys/taken")
check("a key is deleted", client.read(f"{MOUNT}/keys/taken") is None)
run("secrets", "disable", MOUNT)
