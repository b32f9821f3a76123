"""PKI, ACME and the OIDC provider over three servers, one of which is killed: pki_cluster.py, with cryptography and PyJWT.

- A nonce of ACME that one server made is good at each of the others, once.
- An order of ACME goes on, to a certificate, after the server that leads was killed (SIGKILL) in the middle of it, twice: before the
  challenge is looked at, and before it is finalised. What was used before is not good after.
- A code of the provider that one server gave is turned into tokens at another after a third was killed; tokens that the killed one
  signed are good by the keys that the others publish, and keys that were rotated away stay published.
- Certificates, lists and OCSP are served by every server, and say the same.

Servers of its own, ended by id; KALLISTO names the binary.
"""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

BINARY = os.environ["KALLISTO"]
work = pathlib.Path(tempfile.mkdtemp())
SERVERS, READY_SECS_MAX = range(3), 60


def check(what, truth, told=""):
    assert truth, f"{what}: {told}"
    print("ok ", what)


ports = [free_port() for _ in SERVERS]
cluster_ports = [free_port() for _ in SERVERS]
servers = {}


def send(server, method, path, data=None, headers=None):
    request = urllib.request.Request(f"http://127.0.0.1:{ports[server]}/v1/{path}", method=method, headers=headers or {}, data=data)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def ask(server, method, path, body=None, token=None):
    headers = {"X-Vault-Token": token} if token else {}
    code, _, text = send(server, method, path, None if body is None else json.dumps(body).encode(), headers)
    try:
        return code, json.loads(text or b"null")
    except ValueError:
        return code, text


def until(what, holds):
    ends = time.monotonic() + READY_SECS_MAX
    while time.monotonic() < ends:
        try:
            if found := holds():
                return found
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(what)


def start(server):
    (work / f"data{server}").mkdir(exist_ok=True)
    config = work / f"server{server}.hcl"
    config.write_text(f"""storage "raft" {{
  path    = "{work}/data{server}"
  node_id = "server-{server}"
}}
listener "tcp" {{
  address         = "127.0.0.1:{ports[server]}"
  cluster_address = "127.0.0.1:{cluster_ports[server]}"
  tls_disable     = true
}}
api_addr = "http://127.0.0.1:{ports[server]}"
""")
    log = open(work / f"log{server}", "a")
    servers[server] = subprocess.Popen([BINARY, "server", f"-config={config}", "-log-level=warn"], stdout=log, stderr=log)
    until("a server listens", lambda: ask(server, "GET", "sys/init")[0] == 200)


def unseal(server):
    ask(server, "PUT", "sys/unseal", {"key": keys["keys"][0]})
    until("a server serves", lambda: ask(server, "GET", "sys/health?standbyok=true&perfstandbyok=true")[0] == 200)


def leader():
    return until("somebody leads", lambda: [server for server in servers if servers[server].poll() is None
                                            and ask(server, "GET", "sys/health")[0] == 200])[0]


def kill_leader():
    """Ends the server that leads by SIGKILL, and says which it was when another one leads."""
    killed = leader()
    servers[killed].kill()
    servers[killed].wait()
    leader()
    return killed


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Acme:
    """A client of ACME that asks any server."""

    def __init__(self, base):
        self.base, self.kid = base, None
        self.key = ec.generate_private_key(ec.SECP256R1())
        numbers = self.key.public_key().public_numbers()
        self.jwk = {"crv": "P-256", "kty": "EC", "x": b64(numbers.x.to_bytes(32, "big")), "y": b64(numbers.y.to_bytes(32, "big"))}

    def nonce(self, server):
        return send(server, "HEAD", "pki/acme/new-nonce")[1]["Replay-Nonce"]

    def post(self, server, path, payload, nonce):
        who = {"kid": self.kid} if self.kid else {"jwk": self.jwk}
        protected = b64(json.dumps({"alg": "ES256", "nonce": nonce, "url": f"{self.base}/{path}", **who}).encode())
        payload = "" if payload is None else b64(json.dumps(payload).encode())
        r, s = decode_dss_signature(self.key.sign(f"{protected}.{payload}".encode(), ec.ECDSA(hashes.SHA256())))
        body = {"protected": protected, "payload": payload, "signature": b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))}
        code, headers, text = send(server, "POST", f"pki/{path}", json.dumps(body).encode(), {"Content-Type": "application/jose+json"})
        return code, headers, json.loads(text) if text.startswith(b"{") else text

    def persist(self, server, path, payload, nonce):
        """The same, again with the nonce of the refusal where the first was bad, as RFC 8555 says (6.5): who leads anew takes none of before."""
        code, headers, body = self.post(server, path, payload, nonce)
        if code == 400 and body["type"].endswith(":badNonce"):
            return self.post(server, path, payload, headers["Replay-Nonce"])
        return code, headers, body

    def inside(self, url):
        return url.removeprefix(f"{self.base}/")

    def thumbprint(self):
        return b64(hashlib.sha256(json.dumps(self.jwk, separators=(",", ":"), sort_keys=True).encode()).digest())


def csr(name):
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = request.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
    return b64(request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER))


answers = {}


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = answers.get(self.path)
        self.send_response(200 if text else 404)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_):
        pass


def acme(root):
    address = f"127.78.{os.getpid() % 250 + 1}.1"
    try:
        web = http.server.ThreadingHTTPServer((address, 80), Web)
    except PermissionError:
        print("*** SKIPPED: ACME over three servers: this user may not listen at port 80")
        return
    threading.Thread(target=web.serve_forever, daemon=True).start()
    dns_port = free_port()
    threading.Thread(target=name_server, args=(dns_port, address), daemon=True).start()
    name = "a.example.test"
    base = "http://ca.example.test/v1/pki"
    lead = leader()
    ask(lead, "POST", "pki/config/cluster", {"path": base}, root)
    ask(lead, "POST", "pki/roles/web", {"allowed_domains": "example.test", "allow_subdomains": True, "key_type": "any"}, root)
    shown = ask(lead, "POST", "pki/config/acme", {"enabled": True, "allowed_roles": "web", "default_directory_policy": "role:web",
                                                  "dns_resolver": f"127.0.0.1:{dns_port}", "challenge_permitted_ip_ranges": address}, root)
    check("ACME is on", shown[0] == 200, shown)
    until("all know it", lambda: all(send(server, "HEAD", "pki/acme/new-nonce")[0] == 200 for server in SERVERS))
    client = Acme(base)
    made = client.post(1, "acme/new-account", {"termsOfServiceAgreed": True}, client.nonce(0))
    check("an account is made at one server with a nonce of another", made[0] == 201, made)
    client.kid = made[1]["Location"]
    order = lambda server, nonce: client.post(server, "acme/new-order", {"identifiers": [{"type": "dns", "value": name}]}, nonce)
    for made_by in SERVERS:
        for used_at in SERVERS:
            nonce = client.nonce(made_by)
            first = order(used_at, nonce)
            again = [order(server, nonce) for server in SERVERS]
            check(f"a nonce of server {made_by} is good at server {used_at}, once",
                  first[0] == 201 and all(code == 400 and problem["type"].endswith(":badNonce") for code, _, problem in again), (first, again))

    begun = order(2, client.nonce(1))
    used = client.nonce(1)
    authorization = client.inside(begun[2]["authorizations"][0])
    challenges = client.post(0, authorization, None, used)[2]["challenges"]
    challenge = next(one for one in challenges if one["type"] == "http-01")
    answers[f"/.well-known/acme-challenge/{challenge['token']}"] = f"{challenge['token']}.{client.thumbprint()}"
    killed = kill_leader()
    others = [server for server in SERVERS if server != killed]
    refused = client.post(others[0], authorization, None, used)
    check("a nonce that was used before the kill is not good after it", refused[0] == 400 and refused[2]["type"].endswith(":badNonce"), refused)
    begin = client.persist(others[0], client.inside(challenge["url"]), {}, client.nonce(others[1]))
    check("the challenge is taken by those that are left", begin[0] == 200, begin)
    url = client.inside(begun[1]["Location"])
    ready = until("the order to be ready", lambda: (lambda got: got if got[2]["status"] in ("ready", "invalid") else None)(
        client.post(others[1], url, None, client.nonce(others[0]))))
    check("an order goes on when its leader was killed before its challenge", ready[2]["status"] == "ready", ready)
    start(killed)
    unseal(killed)
    second = kill_leader()
    others = [server for server in SERVERS if server != second]
    done = client.persist(others[0], client.inside(begun[2]["finalize"]), {"csr": csr(name)}, client.nonce(others[1]))
    check("and is finalised when the next leader was killed as well", done[0] == 200 and done[2]["status"] == "valid", done)
    chain = client.post(others[1], client.inside(done[2]["certificate"]), None, client.nonce(others[0]))
    leaf = x509.load_pem_x509_certificate(chain[2])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    check("the certificate is for the name", names == [name], names)
    again = client.post(others[0], client.inside(begun[2]["finalize"]), {"csr": csr(name)}, client.nonce(others[1]))
    check("once", again[0] == 403 or again[2].get("certificate") == done[2]["certificate"], again)
    start(second)
    unseal(second)
    got = until("the one that was away knows it", lambda: (lambda got: got if got[0] == 200 else None)(
        client.post(second, client.inside(done[2]["certificate"]), None, client.nonce(second))))
    check("the server that was away serves the same certificate", got[2] == chain[2])


def name_server(port, address):
    """Every name of type A is at the address (RFC 1035)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", port))
        while True:
            query, client = listener.recvfrom(4096)
            end = query.index(0, 12) + 5
            is_a = query[end - 4:end - 2] == b"\0\1"
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + socket.inet_aton(address) if is_a else b""
            count = b"\0\1" if is_a else b"\0\0"
            listener.sendto(query[:2] + b"\x81\x80\0\1" + count + b"\0\0\0\0" + query[12:end] + answer, client)


def everywhere(root):
    """What anyone reads, at every server."""
    leaf = ask(1, "POST", "pki/issue/any", {"common_name": "x.example.test"}, root)[1]["data"]
    serial = leaf["serial_number"]
    until("all have the certificate", lambda: all(ask(server, "GET", f"pki/cert/{serial}")[0] == 200 for server in SERVERS))
    revoked = ask(2, "POST", "pki/revoke", {"serial_number": serial}, root)
    check("a certificate of one server is revoked at another", revoked[0] == 200, revoked)
    on_list = lambda der: x509.load_der_x509_crl(der).get_revoked_certificate_by_serial_number(int(serial.replace(":", ""), 16)) is not None
    until("all lists have it", lambda: all(on_list(send(server, "GET", "pki/crl")[2]) for server in SERVERS))
    numbers = {x509.load_der_x509_crl(send(server, "GET", "pki/crl")[2]).extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
               for server in SERVERS}
    check("and is on the list of each, which have one number", len(numbers) == 1, numbers)
    deltas = [x509.load_der_x509_crl(send(server, "GET", "pki/crl/delta")[2]) for server in SERVERS]
    check("deltas are signed and empty where they are off", all(len(delta) == 0 for delta in deltas))
    from cryptography.x509 import ocsp
    certificate = x509.load_pem_x509_certificate(leaf["certificate"].encode())
    issuer = x509.load_pem_x509_certificate(leaf["issuing_ca"].encode())
    asked = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA256()).build().public_bytes(serialization.Encoding.DER)
    told = [ocsp.load_der_ocsp_response(send(server, "POST", "pki/ocsp", asked, {"Content-Type": "application/ocsp-request"})[2]) for server in SERVERS]
    check("OCSP of each says that it is revoked", all(one.certificate_status == ocsp.OCSPCertStatus.REVOKED for one in told))


def provider(root):
    lead = leader()
    to = lambda method, path, body=None, token=root, server=None: ask(lead if server is None else server, method, path, body, token)
    to("POST", "sys/auth/userpass", {"type": "userpass"})
    to("POST", "sys/policies/acl/oidc", {"policy": 'path "identity/oidc/provider/+/authorize" { capabilities = ["read", "update"] }'})
    to("POST", "auth/userpass/users/ann", {"password": "pw", "token_policies": "oidc"})
    user = to("POST", "auth/userpass/login/ann", {"password": "pw"}, None)[1]["auth"]["client_token"]
    to("POST", "identity/oidc/config", {"issuer": "http://id.example.test"})
    to("POST", "identity/oidc/key/k", {"algorithm": "ES256", "allowed_client_ids": "*", "rotation_period": "24h", "verification_ttl": "24h"})
    to("POST", "identity/oidc/provider/default", {"allowed_client_ids": "*"})
    callback = "http://127.0.0.1:8250/cb"
    to("POST", "identity/oidc/client/app", {"key": "k", "assignments": "allow_all", "redirect_uris": callback})
    client = to("GET", "identity/oidc/client/app")[1]["data"]
    until("all know the client", lambda: all(ask(server, "GET", "identity/oidc/client/app", None, root)[0] == 200 for server in SERVERS))

    def code(server):
        query = urllib.parse.urlencode({"client_id": client["client_id"], "redirect_uri": callback, "response_type": "code", "scope": "openid",
                                        "state": "s", "nonce": "n"})
        return ask(server, "GET", f"identity/oidc/provider/default/authorize?{query}", None, user)[1]["code"]

    def bring(server, code):
        form = urllib.parse.urlencode({"grant_type": "authorization_code", "code": code, "redirect_uri": callback})
        basic = base64.b64encode(f"{client['client_id']}:{client['client_secret']}".encode()).decode()
        status, _, text = send(server, "POST", "identity/oidc/provider/default/token", form.encode(),
                               {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"})
        return status, json.loads(text)

    def verifies(server, token):
        jwks = jwt.PyJWKSet.from_dict(ask(server, "GET", "identity/oidc/provider/default/.well-known/keys")[1])
        key = next(key for key in jwks.keys if key.key_id == jwt.get_unverified_header(token)["kid"])
        return jwt.decode(token, key, algorithms=["ES256"], audience=client["client_id"])

    before = bring(1, code(2))
    check("a code of one server is turned into tokens at another", before[0] == 200, before)
    kept, spent = code(0), code(1)
    check("codes are spent", bring(2, spent)[0] == 200)
    rotated = to("POST", "identity/oidc/key/k/rotate", {})
    check("the key is rotated", rotated[0] in (200, 204), rotated)
    killed = kill_leader()
    others = [server for server in SERVERS if server != killed]
    for server in others:
        check(f"a token of before is good by the keys of server {server}", verifies(server, before[1]["id_token"])["nonce"] == "n")
    refused = bring(others[0], spent)
    check("a code that was spent before is not good after", refused == (400, {**refused[1], "error": "invalid_grant"}), refused)
    after = bring(others[1], kept)
    check("a code of before is turned into tokens after", after[0] == 200, after)
    check("once", bring(others[0], kept)[0] == 400)
    check("by the next key", verifies(others[0], after[1]["id_token"]) and jwt.get_unverified_header(after[1]["id_token"])["kid"]
          != jwt.get_unverified_header(before[1]["id_token"])["kid"])
    fresh = bring(others[0], code(others[1]))
    told = send(others[1], "GET", "identity/oidc/provider/default/userinfo", None, {"Authorization": f"Bearer {fresh[1]['access_token']}"})
    check("an access token of one is good at the other", told[0] == 200, told)
    start(killed)
    unseal(killed)
    check("the server that was away publishes the same keys", verifies(killed, after[1]["id_token"])["nonce"] == "n")


try:
    for server in SERVERS:
        start(server)
    keys = ask(0, "PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})[1]
    root = keys["root_token"]
    unseal(0)
    until("the first server serves", lambda: ask(0, "GET", "sys/health")[0] == 200)
    for server in (1, 2):
        ask(server, "POST", "sys/storage/raft/join", {"leader_api_addr": f"http://127.0.0.1:{ports[0]}"})
        unseal(server)
    check("there is a mount", ask(0, "POST", "sys/mounts/pki", {"type": "pki", "config": {"max_lease_ttl": "8760h"}}, root)[0] == 204)
    check("with a root", ask(0, "POST", "pki/root/generate/internal", {"common_name": "Root", "key_type": "ec", "ttl": "8760h"}, root)[0] == 200)
    ask(0, "POST", "pki/roles/any", {"allow_any_name": True, "key_type": "ec"}, root)
    until("all know the role", lambda: all(ask(server, "GET", "pki/roles/any", None, root)[0] == 200 for server in SERVERS))
    everywhere(root)
    provider(root)
    acme(root)
finally:
    for server in servers.values():
        if server.poll() is None:
            server.terminate()
    for server in servers.values():
        server.wait()
