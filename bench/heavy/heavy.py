#!/usr/bin/env python3
"""Health checks while the largest legal requests are under way.

    python3 bench/heavy/heavy.py BINARY [BINARY..] [--only WORD] [--seconds N]

For each route and binary: a dev server of its own, four connections that send the route's largest legal request
again and again, and beside them `GET /v1/sys/health` on a new connection every 5 ms. A check counts from when it
was due (an open loop), and one that is not answered at the end counts with its age. Prints a table in Markdown:
p99 and the longest of the checks in milliseconds, and how many of the heavy requests were answered.
"""

import argparse, base64, json, multiprocessing, os, selectors, shutil, socket, ssl, subprocess, sys, tempfile, time

HOST, TOKEN = "127.0.0.1", "root"
SENDERS, PERIOD_S, PATIENCE_S = 4, 0.005, 2.0
MIB = 1 << 20


def free_port():
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, binary, has_tls):
        self.port, self.tls_port = free_port(), free_port()
        self.directory = tempfile.mkdtemp()
        self.log = tempfile.TemporaryFile()
        options = ["-dev", f"-dev-root-token-id={TOKEN}", "-dev-no-store-token", f"-dev-listen-address={HOST}:{self.port}"]
        if has_tls:
            options = [f"-config={self.tls_config()}"]
        self.process = subprocess.Popen([binary, "server", *options], stdout=self.log, stderr=self.log)
        for _ in range(500):
            try:
                # A server with TLS is not initialized, and answers even so.
                if self.ask("GET", "sys/health")[0] == (501 if has_tls else 200):
                    return
            except OSError:
                time.sleep(0.02)
        raise SystemExit("the server does not start")

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory)

    def tls_config(self):
        """A server with a second listener, whose key takes long to sign."""
        path = lambda name: os.path.join(self.directory, name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:4096", "-nodes", "-subj", "/CN=localhost",
                        "-keyout", path("key.pem"), "-out", path("cert.pem")], check=True, capture_output=True)
        with open(path("server.hcl"), "w") as file:
            file.write(f'storage "raft" {{\n  path = "{path("data")}"\n  node_id = "a"\n}}\n'
                       f'listener "tcp" {{\n  address = "{HOST}:{self.port}"\n  tls_disable = true\n}}\n'
                       f'api_addr = "http://{HOST}:{self.port}"\n'
                       f'listener "tcp" {{\n  address = "{HOST}:{self.tls_port}"\n  tls_cert_file = "{path("cert.pem")}"\n'
                       f'  tls_key_file = "{path("key.pem")}"\n}}\n')
        return path("server.hcl")

    def ask(self, method, path, body=None, token=TOKEN, connection=None):
        body = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        with connect(self.port, 120) as stream:
            stream.sendall(request(method, path, body, token))
            return receive(stream)

    def must(self, method, path, body=None):
        status, text = self.ask(method, path, body)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {text[:300]}")
        return json.loads(text) if text else None


def connect(port, timeout):
    stream = socket.create_connection((HOST, port), timeout=timeout)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def request(method, path, body=None, token=TOKEN):
    head = f"{method} /v1/{path} HTTP/1.1\r\nHost: bench\r\nX-Vault-Token: {token}\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


def receive(stream):
    data = b""
    while b"\r\n\r\n" not in data:
        part = stream.recv(65536)
        if not part:
            raise OSError("the server hung up")
        data += part
    head, rest = data.split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    status, length = int(lines[0].split()[1]), 0
    for line in lines[1:]:
        name, value = line.split(b":", 1)
        if name.lower() == b"content-length":
            length = int(value)
    parts, got = [rest], len(rest)
    while got < length:
        part = stream.recv(1 << 20)
        if not part:
            raise OSError("the server hung up")
        parts.append(part)
        got += len(part)
    return status, b"".join(parts)


def send(port, pieces, seconds, done, refused):
    """Sends these again and again on one connection."""
    end = time.monotonic() + seconds
    try:
        with connect(port, seconds) as stream:
            while time.monotonic() < end:
                for piece in pieces:
                    stream.sendall(piece)
                    stream.settimeout(max(0.05, end - time.monotonic()))
                    status, _ = receive(stream)
                    with done.get_lock():
                        done.value += 1
                    if status in (429, 503):
                        with refused.get_lock():
                            refused.value += 1
    except OSError:
        pass


def shake(port, seconds, done):
    """Does one handshake after another, each in full."""
    end = time.monotonic() + seconds
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while time.monotonic() < end:
        try:
            with connect(port, max(0.05, end - time.monotonic())) as stream, context.wrap_socket(stream):
                with done.get_lock():
                    done.value += 1
        except OSError:
            pass


def probe(port, seconds, out):
    """Checks in an open loop; latencies in milliseconds."""
    asked = request("GET", "sys/health")
    begin, latencies = time.monotonic(), []
    waiting, selector, due = {}, selectors.DefaultSelector(), time.monotonic()

    def over(stream):
        latencies.append((time.monotonic() - waiting.pop(stream)) * 1e3)
        selector.unregister(stream)
        stream.close()

    while True:
        now = time.monotonic()
        is_over = now - begin > seconds
        if is_over and (not waiting or now - begin > seconds + PATIENCE_S):
            break
        while not is_over and due <= now:
            stream = socket.socket()
            stream.setblocking(False)
            stream.connect_ex((HOST, port))
            waiting[stream] = due
            selector.register(stream, selectors.EVENT_WRITE)
            due += PERIOD_S
        for key, events in selector.select(max(0.0, min(due - time.monotonic(), 0.05))):
            stream = key.fileobj
            try:
                if events & selectors.EVENT_WRITE:
                    stream.send(asked)
                    selector.modify(stream, selectors.EVENT_READ)
                elif stream.recv(4096):
                    over(stream)
            except BlockingIOError:
                pass
            except OSError:
                over(stream)
    now = time.monotonic()
    latencies += [(now - since) * 1e3 for since in waiting.values()]
    out.put(sorted(latencies))


# The rows: what is set up, and what is sent.

def b64(size):
    return base64.b64encode(b"a" * size).decode()


def policy(rules, name="app"):
    return "".join(f'path "secret/data/{name}{at}/*" {{ capabilities = ["read"] }}\n' for at in range(rules))


def post(path, body, token=TOKEN):
    return request("POST", path, json.dumps(body).encode(), token)


def with_key(server, kind):
    server.must("POST", "sys/mounts/transit", {"type": "transit"})
    server.must("POST", "transit/keys/k", {"type": kind})


def batch(path, items, item):
    return lambda server: [post(path, {"batch_input": [item] * items})]


def transit(kind, make):
    def rows(server):
        with_key(server, kind)
        return make(server)
    return rows


def rsa_verify(server):
    signature = server.must("POST", "transit/sign/k", {"input": "aGk="})["data"]["signature"]
    return [post("transit/verify/k", {"batch_input": [{"input": "aGk=", "signature": signature}] * 40_000})]


def rsa_decrypt(server):
    text = server.must("POST", "transit/encrypt/k", {"plaintext": "aGk="})["data"]["ciphertext"]
    return [post("transit/decrypt/k", {"batch_input": [{"ciphertext": text}] * 40_000})]


def keys(server):
    server.must("POST", "sys/mounts/transit", {"type": "transit"})
    return [post(f"transit/keys/k{os.getpid()}-{at}", {"type": "rsa-4096"}) for at in range(1000)]


def tokens_with(server, count, policies):
    made = []
    for at in range(count):
        body = {"policies": policies, "display_name": f"client-{at}"}
        made.append(server.must("POST", "auth/token/create", body)["auth"]["client_token"])
    return made


def compiled(server):
    names = [f"p{at}" for at in range(8)]
    for name in names:
        server.must("PUT", f"sys/policies/acl/{name}", {"policy": policy(16_000, name)})
    pieces = []
    for at, token in enumerate(tokens_with(server, 40, names)):
        pieces.append(request("GET", "auth/token/lookup-self", token=token))
        if at % 10 == 0:
            pieces.append(request("PUT", "sys/policies/acl/small", json.dumps({"policy": policy(1)}).encode()))
    return pieces


def grouped(server):
    """Templates that name groups, and an entity that is in as many."""
    server.must("POST", "sys/auth/userpass", {"type": "userpass"})
    accessor = server.must("GET", "sys/auth")["data"]["userpass/"]["accessor"]
    entity = server.must("POST", "identity/entity", {"name": "e", "policies": ["p"]})["data"]["id"]
    server.must("POST", "identity/entity-alias", {"name": "u", "canonical_id": entity, "mount_accessor": accessor})
    server.must("POST", "auth/userpass/users/u", {"password": "pw"})
    for at in range(1_000):
        server.must("POST", "identity/group", {"name": f"group-{at}", "member_entity_ids": [entity]})
    ids = [f"00000000-0000-4000-8000-{at:012x}" for at in range(11_000)]
    text = "".join(f'path "a/{{{{identity.groups.ids.{one}.name}}}}" {{ policy = "read" }}\n' for one in ids)
    server.must("PUT", "sys/policies/acl/p", {"policy": text})
    token = server.must("POST", "auth/userpass/login/u", {"password": "pw"})["auth"]["client_token"]
    change = request("PUT", "sys/policies/acl/small", json.dumps({"policy": policy(1)}).encode())
    return [request("GET", "auth/token/lookup-self", token=token), change]


def mounts(server):
    for at in range(2_000):
        server.must("POST", f"sys/mounts/m{at}", {"type": "kv"})


def names(server, count=80_000):
    for start in range(0, count, 4_000):
        writes = [{"path": f"secret/data/n/{start + at:06}", "data": {"a": "b"}} for at in range(4_000)]
        server.must("POST", "sys/kallisto/kv/write", {"writes": writes})


def after(prepare, *pieces):
    def rows(server):
        prepare(server)
        return list(pieces)
    return rows


def versions(server):
    server.must("POST", "secret/metadata/v", {"max_versions": 10_000})
    with connect(server.port, 60) as stream:
        for _ in range(10_000):
            stream.sendall(post("secret/data/v", {"data": {"a": "b"}}))
            receive(stream)
    some = list(range(1, 10_001, 7))
    return [post("secret/data/v", {"data": {"a": "b"}}), request("GET", "secret/metadata/v"),
            post("secret/delete/v", {"versions": some}), post("secret/undelete/v", {"versions": some}),
            post("secret/destroy/v", {"versions": [1]}), request("LIST", "secret/detailed-metadata")]


def large_secrets(server):
    server.must("POST", "secret/data/large", {"data": {"a": "x" * (MIB - 64)}})
    return [request("GET", "secret/data/large")]


def large_versions(server):
    server.must("POST", "secret/data/large", {"data": {f"k{at}": "x" * 8 for at in range(45_000)}})
    server.must("POST", "secret/data/large", {"data": {"a": "b"}})
    return [request("GET", f"secret/{noun}/large?version=1") for noun in ("data", "subkeys")]


def cubbyhole(server):
    server.must("POST", "cubbyhole/large", {"a": "x" * (MIB - 64)})
    return [request("GET", "cubbyhole/large")]


def audit(server):
    path = os.path.join(server.directory, "audit.log")
    return server.ask("POST", "sys/audit/file", {"type": "file", "options": {"file_path": path}})[0] < 300


def audited_secrets(server):
    return large_secrets(server) if audit(server) else None


def bulk(server):
    for at in range(512):
        server.must("POST", f"secret/data/b{at}", {"data": {"a": "x" * 32_000}})
    return [post("sys/kallisto/kv/read", {"paths": [f"secret/data/b{at}" for at in range(512)]})]


def audited(server):
    if not audit(server):
        return None
    return [post("secret/data/a", {"data": {f"k{at}": "x" * 512 for at in range(50_000)}})]


HANDSHAKES = "handshakes"


def handshakes(_):
    return HANDSHAKES


WIDE = {"data": {f"k{at}": "x" * 512 for at in range(50_000)}}
ROWS = [
    ("nothing else", lambda server: []),
    ("TLS handshakes under an RSA key of 4,096 bits", handshakes),
    ("transit/sign, RSA-4096, 100,000 inputs", transit("rsa-4096", batch("transit/sign/k", 100_000, {"input": "aGk="}))),
    ("transit/sign, RSA-4096, one input", transit("rsa-4096", lambda _: [post("transit/sign/k", {"input": "aGk="})])),
    ("transit/verify, RSA-4096, 40,000 inputs", transit("rsa-4096", rsa_verify)),
    ("transit/decrypt, RSA-4096, 40,000 inputs", transit("rsa-4096", rsa_decrypt)),
    ("transit/sign, Ed25519, 100,000 inputs", transit("ed25519", batch("transit/sign/k", 100_000, {"input": "aGk="}))),
    ("transit/encrypt, AES, 100,000 inputs", transit("aes256-gcm96", batch("transit/encrypt/k", 100_000, {"plaintext": "aGk="}))),
    ("transit/encrypt, AES, 22 MiB", transit("aes256-gcm96", lambda _: [post("transit/encrypt/k", {"plaintext": b64(22 * MIB)})])),
    ("transit/hmac, 100,000 inputs", transit("aes256-gcm96", batch("transit/hmac/k", 100_000, {"input": "aGk="}))),
    ("transit/keys, RSA-4096", keys),
    ("transit/hash, 23 MiB", transit("aes256-gcm96", lambda _: [post("transit/hash/sha3-512", {"input": b64(23 * MIB)})])),
    ("sys/tools/hash, 23 MiB", lambda _: [post("sys/tools/hash/sha3-512", {"input": b64(23 * MIB)})]),
    ("sys/policies/acl, 16,000 rules", lambda _: [request("PUT", "sys/policies/acl/p", json.dumps({"policy": policy(16_000)}).encode())]),
    ("tokens of eight policies of 16,000 rules, after each change", compiled),
    ("token with 11,000 templates and 1,000 groups, after each change", grouped),
    ("sys/capabilities-self, 100,000 paths", lambda _: [post("sys/capabilities-self", {"paths": [f"secret/data/{at}" for at in range(100_000)]})]),
    ("secret/data, a body of 27 MB that is refused", lambda _: [post("secret/data/a", WIDE)]),
    ("secret/data, the same, with an audit file", audited),
    ("secret/data, read of 1 MiB", large_secrets),
    ("secret/data, read of 1 MiB, with an audit file", audited_secrets),
    ("secret/data, a version of 1 MiB and its subkeys", large_versions),
    ("cubbyhole, read of 1 MiB", cubbyhole),
    ("data, metadata, delete, undelete and destroy of 10,000 versions", versions),
    ("secret/metadata, a list of 80,000 names", after(names, request("LIST", "secret/metadata/n"))),
    ("sys/kallisto/kv/search among 80,000 names", after(names, request("GET", "sys/kallisto/kv/search?path=secret/&name=7"))),
    ("sys/kallisto/kv/read, 512 secrets, 16 MiB", bulk),
    ("sys/mounts, 2,000 mounts", after(mounts, request("GET", "sys/mounts"))),
    ("sys/metrics, 2,000 mounts", after(mounts, request("GET", "sys/metrics"))),
    ("sys/internal/specs/openapi, 2,000 mounts", after(mounts, request("GET", "sys/internal/specs/openapi"))),
    ("sys/wrapping/wrap, 15 MiB", lambda _: [request("POST", "sys/wrapping/wrap", json.dumps({"a": "x" * (15 * MIB)}).encode()).replace(b"\r\nHost", b"\r\nX-Vault-Wrap-TTL: 60\r\nHost", 1)]),
]


def measure(binary, row, seconds):
    server = Server(binary, row is handshakes)
    try:
        pieces = row(server)
        if pieces is None:
            return None
        done, refused = multiprocessing.Value("q", 0), multiprocessing.Value("q", 0)
        out = multiprocessing.Queue()
        does, args = send, (server.port, pieces, seconds + 0.5, done, refused)
        if pieces == HANDSHAKES:
            does, args = shake, (server.tls_port, seconds + 0.5, done)
        senders = [multiprocessing.Process(target=does, args=args) for _ in range(SENDERS if pieces else 0)]
        for sender in senders:
            sender.start()
        # The checks begin when the requests are on their way.
        time.sleep(0.3)
        prober = multiprocessing.Process(target=probe, args=(server.port, seconds, out))
        prober.start()
        latencies = out.get()
        prober.join()
        for sender in senders:
            sender.terminate()
            sender.join()
        p99 = latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)]
        return p99, latencies[-1], done.value, refused.value
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="+", metavar="BINARY")
    parser.add_argument("--only", default="", help="rows that contain this")
    parser.add_argument("--seconds", type=float, default=4)
    given = parser.parse_args()
    blank = " | p99, ms | longest, ms | answered"
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    print("| while four of these are under way" + blank * len(given.binaries) + " |")
    print("|---" + "|---:" * 3 * len(given.binaries) + "|", flush=True)
    for name, row in ROWS:
        if given.only not in name:
            continue
        cells = [name]
        for binary in given.binaries:
            found = measure(binary, row, given.seconds)
            if found is None:
                cells += ["not had"] * 3
                continue
            p99, longest, answered, refused = found
            cells += [f"{p99:,.0f}", f"{longest:,.0f}", f"{answered:,}" + (f" ({refused:,} refused)" if refused else "")]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
