"""The control plane of a cluster: etcd, a real kube-apiserver and a real kube-controller-manager, as processes; and how its API is asked.

They run in a network of their own (network.py), so ports are fixed and nobody else's.
"""

import json
import pathlib
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import network

SERVER = "https://127.0.0.1:6443"
# What of the controller manager a StatefulSet and its guards need.
CONTROLLERS = (
    "statefulset-controller", "endpointslice-controller", "disruption-controller", "serviceaccount-controller", "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller", "garbage-collector-controller", "namespace-controller", "persistentvolume-binder-controller",
)
MERGE = "application/merge-patch+json"
NAMES = (
    f"IP:127.0.0.1,IP:{network.HOST},IP:{network.API_SERVICE},DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
)


class Refused(Exception):
    """An answer of the API server that is no success."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Api:
    def __init__(self, authority, token):
        self.token = token
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority))
        )

    def ask(self, method, path, body=None, kind="application/json"):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(f"{SERVER}{path}", data, headers, method=method)
        try:
            with self.opener.open(request, timeout=20) as answer:
                text = answer.read()
                return json.loads(text) if text.startswith(b"{") else text.decode()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()[:500]) from None

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, body):
        return self.ask("POST", path, body)

    def merge(self, path, body):
        return self.ask("PATCH", path, body, MERGE)

    def delete(self, path, body=None):
        return self.ask("DELETE", path, body)

    def items(self, path):
        return self.get(path)["items"]

    def find(self, path):
        """An object, or nothing where there is none."""
        try:
            return self.get(path)
        except Refused as error:
            if error.code == 404:
                return None
            raise


class ControlPlane:
    def __init__(self, binaries, work):
        self.binaries, self.work = pathlib.Path(binaries), pathlib.Path(work)
        self.work.mkdir()
        self.token = secrets.token_hex(16)
        self.running = []
        self.make_keys()
        self.kubeconfig = self.work / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
            "clusters": [{"name": "here", "cluster": {"server": SERVER, "certificate-authority": f"{self.work}/ca.pem"}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
        }))
        self.api = Api(str(self.work / "ca.pem"), self.token)

    def make_keys(self):
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.work, check=True, capture_output=True)

        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        usage = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=the cluster's authority", *usage)
        openssl("req", *key, "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver")
        (self.work / "names").write_text(f"subjectAltName={NAMES}\nextendedKeyUsage=serverAuth\n")
        openssl("x509", "-req", "-in", "api.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "api.pem", "-days", "2", "-extfile", "names")
        openssl("genrsa", "-out", "accounts.key", "2048")
        (self.work / "tokens").write_text(f"{self.token},admin,admin,system:masters\n")
        for secret in self.work.iterdir():
            secret.chmod(0o600)

    def start(self):
        work = self.work
        self.run("etcd", f"--data-dir={work}/etcd", "--unsafe-no-fsync")
        self.run(
            self.binaries / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--service-cluster-ip-range={network.SERVICES}",
            f"--advertise-address={network.HOST}", "--secure-port=6443", f"--tls-cert-file={work}/api.pem", f"--tls-private-key-file={work}/api.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={work}/accounts.key",
            f"--service-account-signing-key-file={work}/accounts.key", f"--token-auth-file={work}/tokens", "--authorization-mode=RBAC",
        )
        self.until("the API server is ready", lambda: self.api.get("/readyz") == "ok", 180)
        self.run(
            self.binaries / "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", f"--controllers={','.join(CONTROLLERS)}",
            f"--service-account-private-key-file={work}/accounts.key", f"--root-ca-file={work}/ca.pem",
        )

    def run(self, program, *words):
        name = pathlib.Path(program).name
        with open(self.work / f"{name}.log", "wb") as log:
            # A signal to all of the test is for the test: pods are deleted by an API server that runs.
            self.running.append(subprocess.Popen([str(program), *words], stdout=log, stderr=log, cwd=self.work, start_new_session=True))

    def until(self, what, ask, secs):
        end = time.monotonic() + secs
        while time.monotonic() < end:
            if any(one.poll() is not None for one in self.running):
                break
            try:
                if ask():
                    return
            except (OSError, Refused):
                pass
            time.sleep(0.2)
        raise SystemExit(f"not so: {what}\n{self.logs()}")

    def logs(self):
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in self.work.glob("*.log"))

    def end(self):
        for one in reversed(self.running):
            one.terminate()
            try:
                one.wait(3)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
