"""What PKI signs, by a linter that nobody here wrote: pkilint, which knows RFC 5280, 6960 and those that they rest on.

Random roles under random CAs, random names in them, by every way to have a certificate; then each mount's revocation lists and answers of OCSP.
Whatever the server signs has to be without an error. A refusal of the server is no failure, but most requests have to be taken.
ZLINT, or `zlint` in the path, looks at the same certificates by what RFCs say; without it that is skipped, loudly.

    pki_lint.py [HOW MANY CERTIFICATES] [SEED]
"""

import base64
import collections
import datetime
import ipaddress
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509 import ocsp
from cryptography.x509.oid import NameOID
from pkilint import loader, pkix
from pkilint.pkix import certificate, crl, extension, name
from pkilint.pkix import ocsp as pkix_ocsp
from pkilint.validation import ValidationFindingSeverity

ADDRESS, TOKEN = os.environ["VAULT_ADDR"], os.environ["VAULT_TOKEN"]
count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
print("seed", seed)
random.seed(seed)

certificates = certificate.create_pkix_certificate_validator_container(
    certificate.create_decoding_validators(name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS),
    [certificate.create_issuer_validator_container([]), certificate.create_validity_validator_container(),
     certificate.create_subject_validator_container([]), certificate.create_extensions_validator_container([]),
     certificate.create_spki_validator_container([])])
lists = crl.create_pkix_crl_validator_container(
    [pkix.create_attribute_decoder(name.ATTRIBUTE_TYPE_MAPPINGS), pkix.create_extension_decoder(extension.EXTENSION_MAPPINGS)],
    [crl.create_issuer_validator_container([]), crl.create_validity_validator_container([]), crl.create_extensions_validator_container([])])
answers = pkix_ocsp.create_pkix_ocsp_response_validator_container(
    [pkix_ocsp.create_response_decoder(), pkix.create_attribute_decoder(name.ATTRIBUTE_TYPE_MAPPINGS),
     pkix.create_extension_decoder(extension.EXTENSION_MAPPINGS)], [])
signed = []
found, examples, linted, refused = collections.Counter(), {}, collections.Counter(), collections.Counter()


def is_of_the_linter(finding):
    """Whether the linter asks for more than the standards do."""
    value = (finding.message or "").partition('"')[2].rstrip('"')
    if finding.finding.code == "pkix.invalid_domain_name_syntax":
        # Wildcards are of RFC 6125, and a host of one's own may have one label.
        return "*" in value or "." not in value
    # What it holds a URI to is what a URL of the web is.
    return finding.finding.code == "pkix.invalid_uri_syntax" and not value.startswith("http")


def lint(kind, validator, load, der, what):
    linted[kind] += 1
    for result in validator.validate(load(der, kind).root):
        for finding in result.finding_descriptions:
            if finding.finding.severity <= ValidationFindingSeverity.WARNING and not is_of_the_linter(finding):
                key = (kind, finding.finding.severity.name, finding.finding.code)
                found[key] += 1
                examples.setdefault(key, (result.node.path, finding.message, what, base64.b64encode(der).decode()))


def ask(path, /, method="POST", **fields):
    body = json.dumps(fields).encode() if method != "GET" else None
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", data=body, method=method, headers={"X-Vault-Token": TOKEN})
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
            return json.loads(text)["data"] if text else {}
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        assert error.code == 400, (path, fields, error.code, text)
        refused[json.loads(text)["errors"][0][:60]] += 1
        return None


def raw(path, body=None):
    with urllib.request.urlopen(urllib.request.Request(f"{ADDRESS}/v1/{path}", data=body)) as answer:
        return answer.read()


def some(values, most=3):
    return random.sample(values, random.randrange(min(most, len(values)) + 1))


WORDS = ["a", "web", "mail", "x-1", "0", "Müller", "bücher", "UPPER", "xn--bcher-kva", "l" * 63, "1a", "10"]
TEXTS = ["Ex, Ltd", "Käse & Söhne", "O" * 64, "名前", "a*b", "x_y@z", "  spaced  ", "quote\"s", "ß"]
DOMAINS = ["example.com", "bücher.example", "Example.ORG", "a.b.c.example.net", "10.example"]
USAGES = ["DigitalSignature", "ContentCommitment", "KeyEncipherment", "DataEncipherment", "KeyAgreement", "EncipherOnly", "DecipherOnly",
          "CRLSign", "CertSign"]
EXTENDED = ["ServerAuth", "ClientAuth", "CodeSigning", "EmailProtection", "TimeStamping", "OCSPSigning", "IPSECUser", "Any"]
KINDS = [("ec", 256), ("ec", 384), ("ec", 521), ("ed25519", 0), ("rsa", 2048)]


def random_host():
    return ".".join(random.choice(WORDS) for _ in range(random.randrange(1, 4))) + "." + random.choice(DOMAINS)


def random_name():
    kind = random.randrange(12)
    if kind == 0:
        return "*." + random_host()
    if kind == 1:
        return random.choice(["bob", "b.o.b", "a+b", "x'y", "a..b", ".a", "b." , "q" * 65, "\"q\""]) + "@" + random_host()
    if kind == 2:
        return random.choice(["*a.", "a*."]) + random_host()
    if kind == 3:
        return random.choice(["localhost", "10.1.2.3", "0x7f.1", "1.2.3", "example", "::1", "_tcp.example.com", "a b", "Free Text"])
    return random_host()


def random_ip():
    return str(ipaddress.ip_address(random.randbytes(random.choice([4, 16]))))


def random_uri():
    return random.choice(["spiffe://example.com/ns/a", "https://example.com/x?y=1#z", "spiffe://ex ample/x", "no-scheme", "//a/b",
                          "http://", "https://müller.example/ä", "mailto:a@example.com", "urn:uuid:1", "spiffe://EXAMPLE.com/%zz", "ldap:///CN=x", "https://a_b.example/",
                          "https://[::1]/x", "https://1.2.3.4/x", ":x", "1a://x"])


def subject_fields():
    fields = {}
    for field in ["organization", "ou", "locality", "province", "street_address"]:
        fields[field] = some(TEXTS)
    fields["country"] = some(["DE", "us", "VN"], 2)
    fields["postal_code"] = some(["12345", "SW1A 1AA"], 2)
    return {field: value for field, value in fields.items() if value and random.random() < 0.5}


def random_role():
    role = dict(key_type="any", allow_any_name=random.random() < 0.7, allowed_domains=some(DOMAINS), allow_bare_domains=True,
                allow_subdomains=True, allow_glob_domains=random.random() < 0.3, allowed_uri_sans="*", allowed_other_sans="*",
                allowed_serial_numbers="*", allowed_user_ids="*", require_cn=random.random() < 0.5, enforce_hostnames=random.random() < 0.7,
                use_pss=random.random() < 0.3, signature_bits=random.choice([0, 256, 384, 512]), **subject_fields())
    if random.random() < 0.5:
        role["key_usage"] = some(USAGES, 4)
    if random.random() < 0.5:
        role["ext_key_usage"] = some(EXTENDED)
    if random.random() < 0.3:
        role["ext_key_usage_oids"] = some(["1.2.3.4.5", "1.3.6.1.5.5.7.3.1"])
    if random.random() < 0.3:
        role["policy_identifiers"] = some(["2.23.140.1.2.1", "1.2.3.4", "2.23.140.1.2.1", "2.5.29.32.0"])
    for flag in ["server_flag", "client_flag", "code_signing_flag", "email_protection_flag", "basic_constraints_valid_for_non_ca"]:
        if random.random() < 0.3:
            role[flag] = random.random() < 0.5
    if random.random() < 0.1:
        role["cn_validations"] = ["disabled"]
    if random.random() < 0.1:
        role["not_before_duration"] = random.choice([0, 3600])
    if random.random() < 0.1:
        role["not_after"] = random.choice(["2049-12-31T23:59:59Z", "2050-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
    return role


KEYS = [ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 3072)]


def random_csr(wanted):
    """A request of somebody else, with the names of `wanted` and what nobody should copy."""
    key = random.choice(KEYS)
    subject = []
    if wanted.get("common_name"):
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, wanted["common_name"]))
    if random.random() < 0.3:
        subject.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, random.choice(["Ex", "Käse"])))
    names = []
    for one in wanted.get("alt_names", []):
        if one.isascii():
            names.append(x509.RFC822Name(one) if "@" in one else x509.DNSName(one))
    names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in wanted.get("ip_sans", [])]
    names += [x509.UniformResourceIdentifier(uri) for uri in wanted.get("uri_sans", []) if uri.isascii()]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if random.random() < 0.3:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if random.random() < 0.3:
        builder = builder.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), critical=True)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM).decode()


def random_wish():
    wish = dict(common_name=random.choice(["", random_name(), random_name()]), alt_names=[random_name() for _ in range(random.randrange(4))],
                ttl=random.choice(["60s", "1h", "300000h"]))
    if random.random() < 0.3:
        wish["ip_sans"] = [random_ip() for _ in range(random.randrange(3))]
    if random.random() < 0.3:
        wish["uri_sans"] = [random_uri() for _ in range(random.randrange(3))]
    if random.random() < 0.2:
        wish["other_sans"] = ["1.3.6.1.4.1.311.20.2.3;UTF8:user@example.com"]
    if random.random() < 0.2:
        wish["serial_number"] = random.choice(["sn-1", "ä", "0123456789", "a_b"])
    if random.random() < 0.2:
        wish["user_ids"] = some(["u1", "ü", "u*"])
    wish["exclude_cn_from_sans"] = random.random() < 0.2
    return wish


def der_of(text):
    return x509.load_pem_x509_certificate(text.encode()).public_bytes(serialization.Encoding.DER)


def lint_certificate(text, what):
    signed.append((text, what))
    lint("certificate", certificates, loader.load_der_certificate, der_of(text), what)


def constraints():
    # A domain with a dot before it is taken as well: many validators know what it means, but the standard does not.
    fields = {}
    if random.random() < 0.4:
        fields["permitted_dns_domains"] = some(["example.com", "bücher.example"])
        fields["permitted_ip_ranges"] = some(["10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"])
        fields["permitted_email_addresses"] = some(["a@example.com", ".example.com", "example.com"])
        fields["permitted_uri_domains"] = some([".example.com", "example.com"])
    if random.random() < 0.4:
        fields["excluded_dns_domains"] = some(["evil.example", "*.evil.example", "a b"])
        fields["excluded_ip_ranges"] = some(["10.1.0.0/16"])
    return {field: value for field, value in fields.items() if value}


def make_ca(mount):
    """A root, or a CA below one; the mount's certificates are of the CA."""
    ask(f"sys/mounts/{mount}", type="pki", config={"max_lease_ttl": "400000h"})
    url = f"{ADDRESS}/v1/{mount}"
    ask(f"{mount}/config/cluster", path=url, aia_path=url)
    if random.random() < 0.7:
        ask(f"{mount}/config/urls", enable_templating=True, issuing_certificates="{{cluster_aia_path}}/issuer/{{issuer_id}}/der",
            crl_distribution_points="{{cluster_path}}/issuer/{{issuer_id}}/crl/der", ocsp_servers="{{cluster_path}}/ocsp",
            delta_crl_distribution_points="{{cluster_path}}/issuer/{{issuer_id}}/crl/delta/der")
    kind, bits = random.choice(KINDS)
    what = dict(common_name=random.choice(["Lint Root", "Würzel", "root.example.com"]), key_type=kind, key_bits=bits, ttl="350000h",
                max_path_length=random.choice([-1, 1, 2]), use_pss=random.random() < 0.3, signature_bits=random.choice([0, 384, 512]),
                **subject_fields(), **constraints())
    root = ask(f"{mount}/root/generate/internal", **what)
    if root is None:
        what = dict(common_name="Lint Root", key_type=kind, key_bits=bits, ttl="350000h")
        root = ask(f"{mount}/root/generate/internal", **what)
    lint_certificate(root["certificate"], what)
    for _ in range(5):
        kind, bits = random.choice(KINDS)
        request = ask(f"{mount}/intermediate/generate/internal", common_name="Between", key_type=kind, key_bits=bits)["csr"]
        what = dict(csr=request, common_name="Lint Between", ttl="340000h", max_path_length=random.choice([-1, 0]),
                    use_csr_values=random.random() < 0.3, **constraints())
        signed = ask(f"{mount}/root/sign-intermediate", **what)
        if signed:
            lint_certificate(signed["certificate"], what)
    return x509.load_pem_x509_certificate(root["certificate"].encode())


def lint_lists(mount, root):
    der = loader.load_der_crl
    lint("list", lists, der, raw(f"{mount}/crl"), mount)
    ask(f"{mount}/config/crl", auto_rebuild=True, enable_delta=True, delta_rebuild_interval="1h")
    lint("list", lists, der, raw(f"{mount}/crl"), mount)
    wish = ask(f"{mount}/issue/any", common_name="lists.example.com", key_type="ec")
    ask(f"{mount}/revoke", serial_number=wish["serial_number"])
    ask(f"{mount}/crl/rotate-delta", method="GET")
    lint("delta", lists, der, raw(f"{mount}/crl/delta"), mount)
    leaf = x509.load_pem_x509_certificate(wish["certificate"].encode())
    for algorithm in [hashes.SHA1(), hashes.SHA256()]:
        request = ocsp.OCSPRequestBuilder().add_certificate(leaf, root, algorithm).add_extension(x509.OCSPNonce(b"n" * 32), False).build()
        answer = raw(f"{mount}/ocsp", request.public_bytes(serialization.Encoding.DER))
        lint("OCSP", answers, loader.load_ocsp_response, answer, mount)


mounts = []
started = time.monotonic()
while linted["certificate"] < count and time.monotonic() - started < 600:
    mount = f"lint-{len(mounts)}"
    root = make_ca(mount)
    mounts.append(mount)
    ask(f"{mount}/roles/any", allow_any_name=True, key_type="any")
    revoked = 0
    for number in range(8):
        role = random_role()
        if ask(f"{mount}/roles/r{number}", **role) is None:
            continue
        for _ in range(16):
            wish, way = random_wish(), random.randrange(8)
            try:
                if way < 4:
                    kind, bits = random.choice(KINDS[:4] * 6 + KINDS[4:])
                    made = ask(f"{mount}/issue/r{number}", key_type=kind, key_bits=bits, **wish)
                elif way < 7:
                    made = ask(f"{mount}/sign/r{number}", csr=random_csr(wish), **wish)
                else:
                    wish["csr"] = random_csr(wish)
                    made = ask(f"{mount}/sign-verbatim", key_usage=some(USAGES, 4), ext_key_usage=some(EXTENDED), **wish)
            except ValueError:
                continue  # What cryptography does not put into a request.
            # What is signed verbatim has the names that whoever asks for it answers for.
            if made is None:
                continue
            if way < 7:
                lint_certificate(made["certificate"], (role, wish))
            if random.random() < 0.2:
                ask(f"{mount}/revoke", serial_number=made["serial_number"])
    lint_lists(mount, root)
for mount in mounts:
    ask(f"sys/mounts/{mount}", method="DELETE")
for what, many in refused.most_common(12):
    print("refused", many, what)
print(dict(linted), "in", round(time.monotonic() - started), "s")
errors = 0
for (kind, severity, code), many in sorted(found.items(), key=lambda one: -one[1]):
    path, message, what, der = examples[kind, severity, code]
    is_error = severity in ("ERROR", "FATAL")
    errors += is_error
    print(severity, kind, code, many, "at", path, "--", message)
    if is_error:
        print("   ", what, der)
assert not errors, "the linter found errors"
# What a role asks for, whatever it means: uses of a key that do not go together, and the signing of revocation lists by a leaf.
OF_ROLES = ["e_key_usage_and_extended_key_usage_inconsistent", "e_rsa_allowed_ku_ee"]
ZLINT_FILES = 100


def zlint(program):
    errors = {}
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, len(signed), ZLINT_FILES):
            names = []
            for at, (text, _) in enumerate(signed[begin:begin + ZLINT_FILES], begin):
                names.append(f"{folder}/{at}.pem")
                with open(names[-1], "w") as file:
                    file.write(text)
            sources = "RFC3279,RFC5280,RFC5480,RFC5891,RFC6962,RFC8813"
            told = subprocess.run([program, "-includeSources", sources, *names], check=True, capture_output=True, text=True).stdout
            answers = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
            assert len(answers) == len(names), told[:300]
            for at, answer in enumerate(answers, begin):
                for name, result in answer.items():
                    if result["result"] in ("error", "fatal") and name not in OF_ROLES:
                        errors.setdefault(name, (result.get("details"), *signed[at]))
    assert not errors, errors
    print("ok ", len(signed), "certificates without an error by zlint")


if program := os.environ.get("ZLINT") or shutil.which("zlint"):
    zlint(program)
else:
    print("*** SKIPPED: pki-lint: zlint is not in the path: one linter alone looks at what PKI signs")
assert linted["certificate"] >= count, "time was over"
print("ok ", linted["certificate"], "certificates without an error")
print("ok ", linted["list"] + linted["delta"] + linted["OCSP"], "lists and answers of OCSP without an error")
