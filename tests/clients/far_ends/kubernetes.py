"""A stand-in for an API server of Kubernetes, over TLS with an authority of its own: it keeps objects and checks requests as one would."""

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time

JWT = "eyJhbGciOiJub25lIn0.canary-of-the-walk.e30"
KINDS = {"serviceaccounts": "ServiceAccount", "roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding", "clusterrolebindings": "ClusterRoleBinding"}


def make_authority(work):
    """An authority, and the certificate of the stand-in."""
    run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=work)
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=walk", "-days", "2")
    run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=api")
    (work / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "san")


class World:
    """What the stand-in has, and how it feels."""

    def __init__(self):
        self.lock = threading.Lock()
        self.objects = {"/api/v1/namespaces/test": {"metadata": {"name": "test", "labels": {"team": "red"}}},
                        "/api/v1/namespaces/test/serviceaccounts/sa": {"metadata": {"name": "sa", "namespace": "test"}}}
        self.moods, self.seen, self.uids, self.token_secs = [], [], 0, 0


WORLD = World()


class ApiServer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def tell(self, status, body, cut=None):
        text = json.dumps(body).encode() if not isinstance(body, bytes) else body
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[:cut])
        if cut is not None:
            self.close_connection = True

    def status(self, code, reason, message):
        self.tell(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        with WORLD.lock:
            WORLD.seen.append(f"{self.command} {path}")
            mood = WORLD.moods.pop(0) if WORLD.moods else None
        if mood == "proxy":
            return self.tell(404, b"<html>no such page</html>")
        if mood == "hang":
            time.sleep(20)
            self.close_connection = True
            return None
        if self.headers.get("Authorization") != f"Bearer {JWT}":
            return self.status(401, "Unauthorized", "Unauthorized")
        if mood == "forbid":
            return self.status(403, "Forbidden", f"{path} is forbidden for {JWT}")
        with WORLD.lock:
            code, told = self.act(path, body)
        if mood == "half":
            return self.tell(code, told, cut=9)
        if mood == "late":
            time.sleep(12)
        return self.tell(code, told)

    do_GET = do_POST = do_DELETE = answer

    def act(self, path, body):
        missing = (404, {"kind": "Status", "reason": "NotFound", "message": f"{path} not found", "code": 404})
        bad = lambda why: (422, {"kind": "Status", "reason": "Invalid", "message": why, "code": 422})
        if self.command == "GET":
            if path == "/version":
                return 200, {"major": "1", "minor": "34"}
            return (200, WORLD.objects[path]) if path in WORLD.objects else missing
        if self.command == "DELETE":
            found = WORLD.objects.pop(path, None)
            if found is None:
                return missing
            # As the garbage collector of a cluster: what it owned goes with it.
            uid = found["metadata"].get("uid")
            for other in [key for key, it in WORLD.objects.items() if any(o["uid"] == uid for o in it["metadata"].get("ownerReferences", []))]:
                del WORLD.objects[other]
            return 200, found
        given = json.loads(body)
        if path.endswith("/token"):
            if path.removesuffix("/token") not in WORLD.objects:
                return missing
            secs = given["spec"]["expirationSeconds"]
            if given["kind"] != "TokenRequest" or secs < 600:
                return bad("spec.expirationSeconds: may not specify a duration less than 10 minutes")
            secs = WORLD.token_secs or secs
            part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
            now = int(time.time())
            return 201, {"kind": "TokenRequest", "status": {"token": f"{part({'alg': 'RS256'})}.{part({'iat': now, 'exp': now + secs, 'aud': given['spec'].get('audiences')})}.c2ln"}}
        folder = path.rsplit("/", 1)[1]
        name, namespace = given["metadata"]["name"], given["metadata"].get("namespace")
        if given["kind"] != KINDS[folder] or (namespace and f"/namespaces/{namespace}/" not in path):
            return bad("the kind or the namespace is not that of the path")
        for owner in given["metadata"].get("ownerReferences", []):
            if not any(it["metadata"].get("uid") == owner["uid"] and it["metadata"]["name"] == owner["name"] for it in WORLD.objects.values()):
                return bad("the owner is not there")
        if f"{path}/{name}" in WORLD.objects:
            return 409, {"kind": "Status", "reason": "AlreadyExists", "message": f"{name} already exists", "code": 409}
        WORLD.uids += 1
        given["metadata"]["uid"] = f"00000000-0000-0000-0000-{WORLD.uids:012}"
        WORLD.objects[f"{path}/{name}"] = given
        return 201, given


def serve(work):
    make_authority(work)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    # Connections that the server under test gives up are part of the walk.
    server.handle_error = lambda *_: None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / "server.pem", work / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
