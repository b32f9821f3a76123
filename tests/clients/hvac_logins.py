"""Logs in with hvac by every method: userpass, AppRole, JWT, Kubernetes, certificates.

Needs KALLISTO (the binary) for a server of its own with TLS, and for the others VAULT_ADDR with the
root token in VAULT_TOKEN. Key server and Kubernetes API are a small HTTP server in here.
"""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hvac
from hvac import exceptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from free_ports import free_port  # noqa: E402

ADDRESS = os.environ["VAULT_ADDR"]
root = hvac.Client(url=ADDRESS, token=os.environ["VAULT_TOKEN"])


def ok(what, holds=True):
    if not holds:
        sys.exit(f"FAIL {what}")
    print(f"ok {what}")


def refused(what, kind, action):
    try:
        action()
    except kind as error:
        print(f"ok {what}: {error}")
        return
    sys.exit(f"FAIL {what}: not refused")


def fresh():
    return hvac.Client(url=ADDRESS)


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments, given=None):
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


work = tempfile.TemporaryDirectory()


def path(name):
    return os.path.join(work.name, name)


# --- userpass ---------------------------------------------------------------------------------
root.sys.enable_auth_method("userpass")
root.auth.userpass.create_or_update_user("Ada", password="pw", policies="default,web", token_ttl="1h")
user = root.auth.userpass.read_user("ada")["data"]
ok("userpass: policies by their older name", user["policies"] == ["default", "web"])
ok("userpass: list", root.auth.userpass.list_user()["data"]["keys"] == ["ada"])
client = fresh()
answer = client.auth.userpass.login("ada", "pw")
ok("userpass: login", client.is_authenticated() and answer["auth"]["lease_duration"] == 3600)
ok("userpass: metadata", answer["auth"]["metadata"] == {"username": "ada"})
ok("userpass: renewal", client.auth.token.renew_self()["auth"]["lease_duration"] == 3600)
refused("userpass: wrong password", exceptions.InvalidRequest, lambda: fresh().auth.userpass.login("ada", "no"))
root.auth.userpass.update_password_on_user("ada", "new")
ok("userpass: new password", fresh().auth.userpass.login("ada", "new")["auth"]["client_token"] != "")
root.auth.userpass.delete_user("ada")
refused("userpass: deleted", exceptions.InvalidRequest, lambda: fresh().auth.userpass.login("ada", "new"))

# --- approle ----------------------------------------------------------------------------------
root.sys.enable_auth_method("approle")
approle = root.auth.approle
approle.create_or_update_approle("web", token_policies=["web"], secret_id_num_uses=2, token_ttl="20m")
ok("approle: read", approle.read_role("web")["data"]["secret_id_num_uses"] == 2)
ok("approle: list", approle.list_roles()["data"]["keys"] == ["web"])
approle.update_role_id("web", "web-role")
ok("approle: role id", approle.read_role_id("web")["data"]["role_id"] == "web-role")
secret = approle.generate_secret_id("web", metadata={"team": "a"})["data"]
seen = approle.read_secret_id("web", secret["secret_id"])["data"]
ok("approle: secret id", seen["metadata"] == {"team": "a"} and seen["secret_id_num_uses"] == 2)
accessor = secret["secret_id_accessor"]
ok("approle: accessor", approle.read_secret_id_accessor("web", accessor)["data"]["secret_id_accessor"] == accessor)
ok("approle: accessors", approle.list_secret_id_accessors("web")["data"]["keys"] == [accessor])
for _ in range(2):
    client = fresh()
    auth = client.auth.approle.login("web-role", secret["secret_id"])["auth"]
    ok("approle: login", client.is_authenticated() and auth["metadata"] == {"role_name": "web", "team": "a"})
refused("approle: spent", exceptions.InvalidRequest, lambda: fresh().auth.approle.login("web-role", secret["secret_id"]))
approle.create_custom_secret_id("web", "my-own-secret")
approle.destroy_secret_id("web", "my-own-secret")
refused("approle: destroyed", exceptions.InvalidRequest, lambda: fresh().auth.approle.login("web-role", "my-own-secret"))
wrapped = approle.generate_secret_id("web", wrap_ttl="60s")["wrap_info"]
inner = fresh().sys.unwrap(wrapped["token"])["data"]
ok("approle: wrapped", wrapped["wrapped_accessor"] == inner["secret_id_accessor"])
ok("approle: login with it", fresh().auth.approle.login("web-role", inner["secret_id"])["auth"]["orphan"])
approle.delete_role("web")
refused("approle: deleted", exceptions.InvalidRequest, lambda: fresh().auth.approle.login("web-role", inner["secret_id"]))

# --- keys and a server that hands them out ----------------------------------------------------
openssl("genrsa", "-out", path("jwt.key"), "2048")
public = openssl("rsa", "-in", path("jwt.key"), "-pubout").decode()
modulus = openssl("rsa", "-in", path("jwt.key"), "-noout", "-modulus").decode().strip().split("=")[1]
jwks = {"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "e": "AQAB", "n": b64(bytes.fromhex(modulus))}]}


def sign(claims, algorithm="RS256", key_id="one"):
    header = b64(json.dumps({"alg": algorithm, "kid": key_id, "typ": "JWT"}).encode())
    signed = f"{header}.{b64(json.dumps(claims).encode())}"
    signature = openssl("dgst", "-sha256", "-sign", path("jwt.key"), given=signed.encode())
    return f"{signed}.{b64(signature)}"


class Peer(BaseHTTPRequestHandler):
    """A provider with a discovery document and keys, and a Kubernetes API that reviews tokens."""

    reviews = 0

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/keys":
            self.answer(200, jwks)
        elif self.path == "/.well-known/openid-configuration":
            self.answer(200, {"issuer": peer_url, "jwks_uri": f"{peer_url}/keys"})
        else:
            self.answer(404, {})

    def do_POST(self):
        Peer.reviews += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.path == "/apis/authentication.k8s.io/v1/tokenreviews" and body["kind"] == "TokenReview"
        if not known or self.headers["Authorization"] != "Bearer reviewer":
            self.answer(403, {})
            return
        claims = json.loads(unb64(body["spec"]["token"].split(".")[1]))
        good = claims.get("good") is True
        user = {"username": claims.get("sub"), "uid": "uid-1"} if good else {}
        self.answer(201, {"status": {"authenticated": good, "user": user}})


peer = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
peer_url = f"http://127.0.0.1:{peer.server_port}"
threading.Thread(target=peer.serve_forever, daemon=True).start()
now = int(time.time())

# --- jwt --------------------------------------------------------------------------------------
root.sys.enable_auth_method("jwt")


def jwt_config(**fields):
    root.write_data("auth/jwt/config", data=fields)


claims = {"iss": "me", "aud": "kallisto", "sub": "ada", "team": ["a", "b"], "mail": "a@b.c", "iat": now, "exp": now + 600}
root.auth.jwt.create_role(
    "web", user_claim="sub", allowed_redirect_uris=[], role_type="jwt", bound_audiences=["kallisto"],
    bound_claims={"team": "b"}, claim_mappings={"mail": "email"}, groups_claim="team", token_policies=["web"],
)
ok("jwt: role", root.auth.jwt.read_role("web")["data"]["bound_audiences"] == ["kallisto"])
for name, config in [
    ("public key", {"jwt_validation_pubkeys": [public], "bound_issuer": "me"}),
    ("set of keys", {"jwks_url": f"{peer_url}/keys", "bound_issuer": "me"}),
    ("discovery", {"oidc_discovery_url": peer_url}),
]:
    jwt_config(**config)
    own = dict(claims, iss=peer_url) if name == "discovery" else claims
    client = fresh()
    auth = client.auth.jwt.jwt_login(role="web", jwt=sign(own))["auth"]
    ok(f"jwt: login, {name}", auth["metadata"] == {"role": "web", "email": "a@b.c"})
    for what, bad in [
        ("audience", dict(own, aud="other")),
        ("issuer", dict(own, iss="you")),
        ("claim", dict(own, team=["x"])),
        ("expired", dict(own, iat=now - 7200, exp=now - 3600)),
    ]:
        refused(f"jwt: {what}, {name}", exceptions.InvalidRequest, lambda: fresh().auth.jwt.jwt_login(role="web", jwt=sign(bad)))
    refused(f"jwt: other key, {name}", exceptions.InvalidRequest, lambda: fresh().auth.jwt.jwt_login(role="web", jwt=sign(own)[:-8] + "AAAAAAAA"))
    refused(f"jwt: unsigned, {name}", exceptions.InvalidRequest, lambda: fresh().auth.jwt.jwt_login(role="web", jwt=sign(own, "none").rsplit(".", 1)[0] + "."))

# --- kubernetes -------------------------------------------------------------------------------
root.sys.enable_auth_method("kubernetes")
certificate = openssl("req", "-x509", "-new", "-key", path("jwt.key"), "-subj", "/CN=cluster", "-days", "2").decode().strip()
kubernetes = root.auth.kubernetes
kubernetes.configure(kubernetes_host=peer_url, token_reviewer_jwt="reviewer", pem_keys=[certificate])
shown = kubernetes.read_config()
ok("kubernetes: the reviewer's token is not shown", "token_reviewer_jwt" not in shown and shown["kubernetes_host"] == peer_url)
kubernetes.create_role("web", bound_service_account_names=["web"], bound_service_account_namespaces=["prod"], policies=["web"], ttl="1h")
ok("kubernetes: role", kubernetes.read_role("web")["bound_service_account_names"] == ["web"])
account = {"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:prod:web", "good": True, "iat": now, "exp": now + 600}
client = fresh()
auth = client.auth.kubernetes.login(role="web", jwt=sign(account))["auth"]
ok("kubernetes: login", auth["metadata"]["service_account_name"] == "web" and auth["lease_duration"] == 3600)
name = client.auth.token.lookup_self()["data"]["display_name"]
ok("kubernetes: display name", name == "kubernetes-prod-web")
other = dict(account, sub="system:serviceaccount:dev:web")
refused("kubernetes: other namespace", exceptions.Forbidden, lambda: fresh().auth.kubernetes.login(role="web", jwt=sign(other)))
refused("kubernetes: refused review", exceptions.Forbidden, lambda: fresh().auth.kubernetes.login(role="web", jwt=sign(dict(account, good=False))))
asked = Peer.reviews
refused("kubernetes: other key", exceptions.Forbidden, lambda: fresh().auth.kubernetes.login(role="web", jwt=sign(account)[:-8] + "AAAAAAAA"))
ok("kubernetes: a token with a bad signature is not sent on", Peer.reviews == asked)

# --- certificates, over a TLS server of their own ---------------------------------------------
port = free_port()
certs = path("tls")
os.mkdir(certs)
server = subprocess.Popen(
    [os.environ["KALLISTO"], "server", "-dev", "-dev-tls", f"-dev-tls-cert-dir={certs}", "-dev-root-token-id=root",
     "-dev-no-store-token", f"-dev-listen-address=127.0.0.1:{port}"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
try:
    address, authority = f"https://127.0.0.1:{port}", os.path.join(certs, "vault-ca.pem")
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/v1/sys/health", context=ssl.create_default_context(cafile=authority))
            break
        except OSError:
            time.sleep(0.1)

    def make(name, issuer=None):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path(f"{name}.key"))
        if issuer is None:
            openssl("req", "-x509", "-new", "-key", path(f"{name}.key"), "-subj", f"/CN={name}", "-days", "2", "-out", path(f"{name}.pem"),
                    "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
            return
        with open(path("ext"), "w", encoding="ascii") as extensions:
            extensions.write(f"extendedKeyUsage=clientAuth\nsubjectAltName=DNS:{name}.example\nbasicConstraints=CA:FALSE\n")
        openssl("req", "-new", "-key", path(f"{name}.key"), "-subj", f"/OU=ops/CN={name}", "-out", path(f"{name}.csr"))
        openssl("x509", "-req", "-in", path(f"{name}.csr"), "-CA", path(f"{issuer}.pem"), "-CAkey", path(f"{issuer}.key"),
                "-CAcreateserial", "-days", "2", "-extfile", path("ext"), "-out", path(f"{name}.pem"))

    make("ca")
    make("stranger")
    make("web", "ca")
    make("db", "ca")
    make("fake", "stranger")
    admin = hvac.Client(url=address, token="root", verify=authority)
    admin.sys.enable_auth_method("cert")
    with open(path("ca.pem"), encoding="ascii") as pem:
        admin.auth.cert.create_ca_certificate_role("web", certificate=pem.read(), allowed_common_names="web", token_policies=["web"])
    ok("cert: role", admin.auth.cert.read_ca_certificate_role("web")["data"]["allowed_common_names"] == ["web"])

    def enter(name, role="web"):
        client = hvac.Client(url=address, verify=authority, cert=(path(f"{name}.pem"), path(f"{name}.key")))
        client.token = None
        answer = client.auth.cert.login(name=role, cert_pem=path(f"{name}.pem"), key_pem=path(f"{name}.key"))
        client.token = answer["auth"]["client_token"]
        return client, answer["auth"]

    client, auth = enter("web")
    ok("cert: login", auth["metadata"]["common_name"] == "web" and "web" in auth["policies"])
    ok("cert: login without naming the role", enter("web", "")[1]["metadata"]["cert_name"] == "web")
    refused("cert: name that is not allowed", exceptions.InvalidRequest, lambda: enter("db"))
    refused("cert: other authority", exceptions.InvalidRequest, lambda: enter("fake"))
    ok("cert: renewal with the same certificate", client.auth.token.renew_self()["auth"]["client_token"] != "")
    bare = hvac.Client(url=address, verify=authority, token=client.token)
    refused("cert: renewal without it", exceptions.InvalidRequest, bare.auth.token.renew_self)
    refused("cert: no certificate", exceptions.InvalidRequest, lambda: hvac.Client(url=address, verify=authority).write_data("auth/cert/login", data={}))
finally:
    server.terminate()
    server.wait(10)

for method in ["userpass", "approle", "jwt", "kubernetes"]:
    root.sys.disable_auth_method(method)
ok("disabled")
