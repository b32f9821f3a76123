"""What is seldom asked of PKI, judged by openssl and Python's cryptography: CAs that are signed again, lists that others keep, constraints of every
kind of name, long keys, deltas, tidied issuers; and that no private key is in the audit log, in whatever form it went out or came in.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import ocsp

ADDRESS, TOKEN = os.environ["VAULT_ADDR"], os.environ["VAULT_TOKEN"]
home = tempfile.mkdtemp()
os.chdir(home)
mounts = []


def check(what, truth):
    assert truth, what
    print("ok ", what)


def ask(path, /, method="POST", **fields):
    body = json.dumps(fields).encode() if method not in ("GET", "DELETE", "LIST") else None
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", data=body, method=method, headers={"X-Vault-Token": TOKEN})
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
        return json.loads(text).get("data") or {} if text else {}


def refused(path, /, method="POST", **fields):
    try:
        ask(path, method, **fields)
    except urllib.error.HTTPError as error:
        assert error.code == 400, error.code
        return json.loads(error.read())["errors"][0]
    raise AssertionError(f"{path} was not refused")


def raw(path, body=None):
    with urllib.request.urlopen(urllib.request.Request(f"{ADDRESS}/v1/{path}", data=body)) as answer:
        return answer.read()


def mount(name):
    ask(f"sys/mounts/{name}", method="DELETE")
    ask(f"sys/mounts/{name}", type="pki", config={"max_lease_ttl": "8760h"})
    mounts.append(name)
    return name


def keep(name, *texts):
    with open(name, "w") as file:
        file.write("".join(text.strip() + "\n" for text in texts))
    return name


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def cert(pem):
    return x509.load_pem_x509_certificate(pem.encode())


# A CA that signed itself, signed again.
old, new = mount("rare-old"), mount("rare-new")
old_root = ask(f"{old}/root/generate/internal", common_name="Old Root", key_type="ec", ttl="100h", max_path_length=0)
new_root = ask(f"{new}/root/generate/internal", common_name="New Root", key_type="rsa", key_bits=3072, ttl="200h", use_pss=True, signature_bits=384)
ask(f"{old}/roles/r", allow_any_name=True, key_type="ec")
leaf = ask(f"{old}/issue/r", common_name="leaf.example.com", ttl="1h")
again = ask(f"{new}/root/sign-self-issued", certificate=old_root["certificate"])["certificate"]
keep("new.pem", new_root["certificate"]), keep("again.pem", again), keep("leaf.pem", leaf["certificate"])
fine, why = openssl("verify", "-x509_strict", "-CAfile", "new.pem", "-untrusted", "again.pem", "leaf.pem")
check("a leaf of a CA that was signed again verifies under its new root", fine or print(why))
before, after = cert(old_root["certificate"]), cert(again)
check("it keeps its key, subject, number and times, and has another issuer",
      (before.public_key(), before.subject, before.serial_number, before.not_valid_after_utc) ==
      (after.public_key(), after.subject, after.serial_number, after.not_valid_after_utc) and after.issuer == cert(new_root["certificate"]).subject)
check("whose key types have to match where that is asked for",
      "does not match" in refused(f"{new}/root/sign-self-issued", certificate=old_root["certificate"], require_matching_certificate_algorithms=True))
check("a leaf is not signed again", "not a CA" in refused(f"{new}/root/sign-self-issued", certificate=leaf["certificate"]))

# Nothing that is issued may sign, as openssl takes it without strictness.
key = ec.generate_private_key(ec.SECP256R1())
csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rogue")]))
csr = csr.add_extension(x509.BasicConstraints(True, None), True).add_extension(
    x509.KeyUsage(False, False, False, False, False, True, True, False, False), True).sign(key, hashes.SHA256())
csr = csr.public_bytes(serialization.Encoding.PEM).decode()
refusal = refused(f"{new}/sign-verbatim", csr=csr, key_usage="CertSign", ttl="1h")
check("a key usage that makes a CA to openssl is refused", "only a CA" in refusal or print(refusal))
rogue = cert(ask(f"{new}/sign-verbatim", csr=csr, key_usage="CRLSign", ttl="1h")["certificate"])
below = x509.CertificateBuilder(rogue.subject, x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "below")]), key.public_key(), 7,
                                rogue.not_valid_before_utc, rogue.not_valid_after_utc).sign(key, hashes.SHA256())
pem = serialization.Encoding.PEM
keep("rogue.pem", rogue.public_bytes(pem).decode()), keep("below.pem", below.public_bytes(pem).decode())
check("what a leaf signs does not verify", not openssl("verify", "-CAfile", "new.pem", "-untrusted", "rogue.pem", "below.pem")[0])

# Lists that somebody else keeps.
def entry(number, day):
    return {"serial_number": f"{number:02x}", "revocation_time": f"2026-01-{day:02}T00:00:00Z",
            "extensions": [{"id": "2.5.29.21", "value": base64.b64encode(bytes([10, 1, 1])).decode()}]}


parts = [ask(f"{old}/issuer/default/sign-revocation-list", crl_number=number, next_update="24h",
             revoked_certs=[entry(number, number), entry(9, 9 - number)])["crl"] for number in (1, 2)]
whole = ask(f"{old}/issuer/default/resign-crls", crls=parts, crl_number=3, next_update="24h", format="der")["crl"]
listed = x509.load_der_x509_crl(base64.b64decode(whole))
check("several lists are signed as one, with the reasons and the earlier times",
      listed.is_signature_valid(before.public_key()) and sorted(one.serial_number for one in listed) == [1, 2, 9]
      and all(one.extensions.get_extension_for_class(x509.CRLReason).value.reason.name == "key_compromise" for one in listed)
      and listed.get_revoked_certificate_by_serial_number(9).revocation_date_utc.day == 7)
check("but not those of another CA", "not signed by" in refused(f"{new}/issuer/default/resign-crls", crls=parts, crl_number=3))

# Constraints of every kind of name.
con = mount("rare-constraints")
root = ask(f"{con}/root/generate/internal", common_name="Constrained", key_type="ec", ttl="100h",
           permitted_dns_domains=["example.com", "bücher.example"], permitted_ip_ranges=["10.0.0.0/8", "2001:db8::/32"], excluded_ip_ranges=["10.9.0.0/16"],
           permitted_email_addresses=["example.com", "bob@example.org"], permitted_uri_domains=[".example.com"])
keep("con.pem", root["certificate"])
ask(f"{con}/roles/r", allow_any_name=True, key_type="ec", allowed_uri_sans="*", require_cn=False)
for fields, is_permitted in [
        (dict(alt_names="a.example.com"), True), (dict(alt_names="a.example.net"), False), (dict(alt_names="a.bücher.example"), True),
        (dict(ip_sans="10.1.2.3"), True), (dict(ip_sans="11.1.2.3"), False), (dict(ip_sans="10.9.2.3"), False),
        (dict(ip_sans="2001:db8::1"), True), (dict(ip_sans="2001:db9::1"), False),
        (dict(alt_names="x@example.com"), True), (dict(alt_names="bob@example.org"), True), (dict(alt_names="eve@example.org"), False),
        (dict(uri_sans="https://a.example.com/x"), True), (dict(uri_sans="https://example.net/x"), False)]:
    leaf = ask(f"{con}/issue/r", ttl="1h", **fields)
    fine, why = openssl("verify", "-x509_strict", "-CAfile", "con.pem", keep("leaf.pem", leaf["certificate"]))
    assert fine == is_permitted, (fields, why)
    assert fine or "subtree" in why, why
check("openssl holds leaves to constraints of DNS names, addresses, mailboxes and URIs", True)

# Long keys, in every way that a CA and a leaf may have one.
for bits in (3072, 4096, 8192):
    name = mount(f"rare-{bits}")
    started = time.monotonic()
    root = ask(f"{name}/root/generate/internal", common_name=f"Long {bits}", key_bits=bits, ttl="100h")
    took = time.monotonic() - started
    keep("long.pem", root["certificate"])
    ask(f"{name}/roles/r", allow_any_name=True, key_type="any")
    leaf = ask(f"{name}/issue/r", common_name="leaf.example.com", key_type="rsa", key_bits=min(bits, 4096), ttl="1h", private_key_format="pkcs8")
    fine, why = openssl("verify", "-x509_strict", "-CAfile", "long.pem", keep("leaf.pem", leaf["certificate"]))
    assert fine, why
    loaded = serialization.load_pem_private_key(leaf["private_key"].encode(), None)
    assert loaded.key_size == min(bits, 4096) and loaded.public_key() == cert(leaf["certificate"]).public_key()
    fine, why = openssl("ocsp", "-issuer", "long.pem", "-cert", "leaf.pem", "-url", f"{ADDRESS}/v1/{name}/ocsp", "-CAfile", "long.pem")
    assert "leaf.pem: good" in why and "Response verify OK" in why and "WARNING" not in why, why
    assert x509.load_der_x509_crl(raw(f"{name}/crl")).is_signature_valid(cert(root["certificate"]).public_key())
    print(f"    RSA {bits}: the root took {took:.1f} s")
check("RSA of 3072, 4096 and 8192 bits signs certificates, lists and answers of OCSP", True)

# A complete list and its delta, as openssl puts them together.
url = f"{ADDRESS}/v1/{con}"
ask(f"{con}/config/urls", crl_distribution_points=f"{url}/crl", delta_crl_distribution_points=f"{url}/crl/delta", ocsp_servers=f"{url}/ocsp")
ask(f"{con}/config/crl", auto_rebuild=True, enable_delta=True, delta_rebuild_interval="1h")
leaf = ask(f"{con}/issue/r", common_name="leaf.example.com", ttl="1h")
keep("leaf.pem", leaf["certificate"])
lists = [raw(f"{con}/crl/pem").decode()]
ask(f"{con}/revoke", serial_number=leaf["serial_number"])
ask(f"{con}/crl/rotate-delta", method="GET")
lists.append(raw(f"{con}/crl/delta/pem").decode())
deltas = ["verify", "-x509_strict", "-crl_check", "-extended_crl", "-use_deltas", "-CAfile", "con.pem"]
fine, why = openssl(*deltas, "-CRLfile", keep("complete.pem", lists[0]), "leaf.pem")
assert "revoked" not in why, why
fine, why = openssl(*deltas, "-CRLfile", keep("both.pem", *lists), "leaf.pem")
check("openssl finds what is on the delta alone", not fine and "certificate revoked" in why or print(why))

# OCSP by GET, with slashes and plus signs as they are, and with a nonce.
issuer = cert(open("con.pem").read())
seen = set()
for number in range(100):
    nonce = os.urandom(16) if number else b"\xff" * 16
    request = ocsp.OCSPRequestBuilder().add_certificate(cert(leaf["certificate"]), issuer, hashes.SHA1())
    body = request.add_extension(x509.OCSPNonce(nonce), False).build().public_bytes(serialization.Encoding.DER)
    path = base64.b64encode(body).decode()
    seen.update(sign for sign in ("//", "+", "/") if sign in path)
    told = ocsp.load_der_ocsp_response(raw(f"{con}/ocsp/{path}"))
    assert told.certificate_status.name == "REVOKED" and told.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == nonce
check("OCSP by GET takes base 64 as it is", seen == {"//", "+", "/"})

# A key in use, deleted by force; an issuer that ended, tidied.
refusal = refused(f"{con}/key/{ask(f'{con}/issuer/default', method='GET')['key_id']}", method="DELETE")
check("a key in use stays", "in use by issuers" in refusal)
ask(f"{old}/key/{old_root['key_id']}?force=true", method="DELETE")
check("force deletes it, and its issuer signs nothing", "no key to sign with" in refused(f"{old}/issue/r", common_name="a.example.com"))
short = ask(f"{con}/issuers/generate/root/internal", common_name="Short", key_type="ec", ttl="1s", issuer_name="short")
time.sleep(3.2)
ask(f"{con}/tidy", tidy_expired_issuers=True, issuer_safety_buffer="1s")
check("an issuer that ended is tidied, the default is not",
      short["issuer_id"] not in ask(f"{con}/issuers", method="LIST")["keys"] and ask(f"{con}/issuer/default", method="GET")["issuer_id"])

# No private key in the audit log.
log = os.path.join(home, "audit.log")
ask("sys/audit/rare", type="file", options={"file_path": log})
secret, certificates = [], []


def note(text):
    """Remembers a key as text, and as the bytes that it is."""
    body = re.sub("-----[^-]+-----", "", text)
    body = re.sub(r"\s", "", body)
    secret.append(body[:60]), secret.append(body[-60:-4])
    der = base64.b64decode(body)
    secret.append(der[20:60].hex())


for kind, bits in [("rsa", 2048), ("ec", 256), ("ed25519", 0)]:
    ask(f"{con}/roles/k", allow_any_name=True, key_type=kind, key_bits=bits)
    for form in ("pem", "der", "pem_bundle"):
        for key_form in ("der", "pem", "pkcs8"):
            made = ask(f"{con}/issue/k", common_name="a.example.com", ttl="1h", format=form, private_key_format=key_form)
            note(made["private_key"])
            if form == "pem_bundle":
                for block in re.findall("-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END", made["certificate"], re.S):
                    note(block.removesuffix("-----END"))
    made = ask(f"{con}/issue/k", common_name="a.example.com", ttl="1h")
    note(made["private_key"])
    ask(f"{con}/revoke-with-key", certificate=made["certificate"], private_key=made["private_key"])
    root = ask(f"{con}/issuers/generate/root/exported", common_name="Out", key_type=kind, key_bits=bits, ttl="1h")
    note(root["private_key"])
    name = mount(f"rare-in-{kind}")
    ask(f"{name}/issuers/import/bundle", pem_bundle=root["certificate"] + "\n" + root["private_key"])
    note(ask(f"{con}/keys/generate/exported", key_type=kind, key_bits=bits)["private_key"])
    note(ask(f"{con}/intermediate/generate/exported", common_name="Out", key_type=kind, key_bits=bits)["private_key"])
ask("sys/audit/rare", method="DELETE")
with open(log) as file:
    text = file.read()
check("there was something to log", text.count('"type":"response"') > 40 and f"{con}/issue/k" in text)
flat = text.replace("\\n", "").lower()
assert "private key-----" not in flat
found = [one for one in secret if one in text or one in text.replace("\\n", "") or one.lower() in flat]
check(f"none of {len(secret)} pieces of private keys is in the audit log", not found)
for name in mounts:
    ask(f"sys/mounts/{name}", method="DELETE")
shutil.rmtree(home)
