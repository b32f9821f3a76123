"""PKI through hvac, `bao` and plain HTTP, judged by openssl, GnuTLS where it is installed, and Python's cryptography.

Every kind of key as root, intermediate and leaf; chains verified strictly; revocation by list, delta and OCSP; a CA's request signed elsewhere.
"""

import base64
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import hvac
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp
from cryptography.x509.verification import PolicyBuilder, Store

ADDRESS = os.environ["VAULT_ADDR"]
client = hvac.Client(url=ADDRESS, token=os.environ["VAULT_TOKEN"])
bao = sys.argv[1]
os.chdir(tempfile.mkdtemp())
certtool = shutil.which("certtool")
KINDS = [("rsa", 2048), ("ec", 256), ("ec", 384), ("ec", 521), ("ed25519", 0)]


def check(what, truth):
    assert truth, what
    print("ok ", what)


def write(path, /, **fields):
    answer = client.write_data(path, data=fields)
    return answer if isinstance(answer, dict) else {}


def run(*arguments, **more):
    return subprocess.run(arguments, capture_output=True, text=True, **more)


def keep(name, text):
    with open(name, "w") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    return name


def get(path):
    with urllib.request.urlopen(f"{ADDRESS}/v1/{path}") as answer:
        return answer.read(), answer.headers["Content-Type"]


def verified(chain, leaf, *more):
    """Whether openssl takes a certificate, strictly, by a root and what is between."""
    arguments = ["openssl", "verify", "-x509_strict", "-CAfile", chain[0], *more]
    for between in chain[1:]:
        arguments += ["-untrusted", between]
    done = run(*arguments, leaf)
    return done.returncode == 0, done.stdout + done.stderr


def ocsp_status(issuer, certificate, mount, get_it=False):
    request = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA256()).build()
    body = request.public_bytes(serialization.Encoding.DER)
    if get_it:
        path = base64.b64encode(body).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
        raw, content_type = get(f"{mount}/ocsp/{path}")
    else:
        asked = urllib.request.Request(f"{ADDRESS}/v1/{mount}/ocsp", data=body, headers={"Content-Type": "application/ocsp-request"})
        with urllib.request.urlopen(asked) as answer:
            raw, content_type = answer.read(), answer.headers["Content-Type"]
    assert content_type == "application/ocsp-response", content_type
    return ocsp.load_der_ocsp_response(raw).certificate_status.name


verified_by_python = 0
for number, (kind, bits) in enumerate(KINDS):
    root, between = f"pki-walk-{number}", f"pki-walk-{number}-int"
    for mount in (root, between):
        run(bao, "secrets", "enable", f"-path={mount}", "-max-lease-ttl=8760h", "pki", check=True)
        url = f"{ADDRESS}/v1/{mount}"
        write(f"{mount}/config/cluster", path=url, aia_path=url)
        write(f"{mount}/config/urls", enable_templating=True, issuing_certificates="{{cluster_aia_path}}/issuer/{{issuer_id}}/der",
              crl_distribution_points="{{cluster_path}}/issuer/{{issuer_id}}/crl/der", ocsp_servers="{{cluster_path}}/ocsp")
    made = write(f"{root}/root/generate/internal", common_name="Walk Root", key_type=kind, key_bits=bits, ttl="8000h", organization="Ex, Ltd",
                 max_path_length=1, permitted_dns_domains="example.com", use_pss=kind == "rsa")["data"]
    root_pem = keep(f"{root}.pem", made["certificate"])
    asked = write(f"{between}/intermediate/generate/internal", common_name="Walk Between", key_type=kind, key_bits=bits)["data"]
    csr = x509.load_pem_x509_csr(asked["csr"].encode())
    assert csr.is_signature_valid
    signed = write(f"{root}/root/sign-intermediate", csr=asked["csr"], common_name="Walk Between", ttl="4000h")["data"]
    between_pem = keep(f"{between}.pem", signed["certificate"])
    write(f"{between}/intermediate/set-signed", certificate=signed["certificate"] + "\n" + made["certificate"])
    fine, why = verified([root_pem], between_pem)
    check(f"{kind}-{bits}: openssl verifies the intermediate strictly", fine or print(why))
    loaded = {name: x509.load_pem_x509_certificate(open(name).read().encode()) for name in (root_pem, between_pem)}
    write(f"{between}/roles/r", allowed_domains="example.com", allow_subdomains=True, key_type="any", max_ttl="72h", allow_ip_sans=False)
    for leaf_kind, leaf_bits in KINDS:
        issued = write(f"{between}/issue/r", common_name="leaf.example.com", alt_names="*.example.com", key_type=leaf_kind, key_bits=leaf_bits)["data"]
        leaf_pem = keep("leaf.pem", issued["certificate"])
        fine, why = verified([root_pem, between_pem], leaf_pem)
        assert fine, why
        key = serialization.load_pem_private_key(issued["private_key"].encode(), None)
        leaf = x509.load_pem_x509_certificate(issued["certificate"].encode())
        assert leaf.public_key() == key.public_key()
        if certtool:
            done = run(certtool, "--verify", "--load-ca-certificate", root_pem, input=issued["certificate"] + "\n" + signed["certificate"] + "\n")
            assert done.returncode == 0, done.stdout
        # Python's verifier takes the keys that browsers take.
        if kind == "ec" and bits != 521 and leaf_kind != "ed25519" and leaf_bits != 521:
            verifier = PolicyBuilder().store(Store([loaded[root_pem]])).time(datetime.datetime.now()).build_server_verifier(x509.DNSName("leaf.example.com"))
            assert len(verifier.verify(leaf, [loaded[between_pem]])) == 3
            verified_by_python += 1
    check(f"{kind}-{bits}: leaves of every kind verify", True)
    assert ocsp_status(loaded[between_pem], leaf, between) == "GOOD"
    write(f"{between}/revoke", serial_number=issued["serial_number"])
    assert ocsp_status(loaded[between_pem], leaf, between, get_it=True) == "REVOKED"
    done = run("openssl", "ocsp", "-issuer", between_pem, "-cert", "leaf.pem", "-url", f"{ADDRESS}/v1/{between}/ocsp", "-CAfile", root_pem,
               "-verify_other", between_pem)
    assert "leaf.pem: revoked" in done.stdout and "Response verify OK" in done.stderr, done.stdout + done.stderr
    check(f"{kind}-{bits}: OCSP says good, then revoked, by POST and GET", True)
    raw, content_type = get(f"{between}/crl")
    listed = x509.load_der_x509_crl(raw)
    assert content_type == "application/pkix-crl"
    assert listed.is_signature_valid(loaded[between_pem].public_key())
    assert listed.get_revoked_certificate_by_serial_number(leaf.serial_number)
    crls = [get(f"{mount}/crl/pem")[0].decode() for mount in (root, between)]
    keep("lists.pem", "\n".join(crls))
    fine, why = verified([root_pem, between_pem], "leaf.pem", "-crl_check_all", "-CRLfile", "lists.pem")
    check(f"{kind}-{bits}: openssl finds it on the list", not fine and "certificate revoked" in why)

check("Python's verifier took six of the chains", verified_by_python == 6)

mount = "pki-walk-1"
write(f"{mount}/roles/any", allow_any_name=True, key_type="any")
foreign = write(f"{mount}/issue/any", common_name="a.example.com", key_type="ec", key_bits=256)["data"]
mine = x509.load_pem_x509_certificate(foreign["certificate"].encode())
never = mine.serial_number + 1
request = ocsp.OCSPRequestBuilder().add_certificate_by_hash(
    *(lambda one: (one.issuer_name_hash, one.issuer_key_hash))(ocsp.OCSPRequestBuilder().add_certificate(
        mine, x509.load_pem_x509_certificate(open(f"{mount}.pem").read().encode()), hashes.SHA1()).build()), never, hashes.SHA1())
nonce = os.urandom(16)
request = request.add_extension(x509.OCSPNonce(nonce), False).build()
asked = urllib.request.Request(f"{ADDRESS}/v1/{mount}/ocsp", data=request.public_bytes(serialization.Encoding.DER))
with urllib.request.urlopen(asked) as answer:
    told = ocsp.load_der_ocsp_response(answer.read())
check("what was never issued is unknown", told.certificate_status.name == "UNKNOWN")
check("a nonce comes back", told.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == nonce)

write(f"{mount}/config/crl", auto_rebuild=True, enable_delta=True, delta_rebuild_interval="1h")
base = x509.load_der_x509_crl(get(f"{mount}/crl")[0])
write(f"{mount}/revoke", certificate=foreign["certificate"])
client.read(f"{mount}/crl/rotate-delta")
delta = x509.load_der_x509_crl(get(f"{mount}/crl/delta")[0])
number = base.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
indicator = delta.extensions.get_extension_for_class(x509.DeltaCRLIndicator)
check("a delta names its base and has what came since",
      indicator.critical and indicator.value.crl_number == number and len(delta) == 1
      and delta.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number > number)

try:
    write(f"{mount}/issue/any", common_name="a" * 64 + ".example.com")
    check("a label over 63 is refused", False)
except hvac.exceptions.InvalidRequest:
    check("a label over 63 is refused", True)
listed = client.list(f"{mount}/certs")["data"]["keys"]
check("certificates are listed", foreign["serial_number"] in listed)
roots = run(bao, "read", "-field=certificate", f"{mount}/cert/ca").stdout
check("bao reads the CA", "BEGIN CERTIFICATE" in roots)
for number in range(len(KINDS)):
    for mount in (f"pki-walk-{number}", f"pki-walk-{number}-int"):
        run(bao, "secrets", "disable", mount, check=True)
