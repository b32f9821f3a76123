"""A client that writes and reads all the time, through the address of a service: what was acknowledged has to be there, at once and at the end.

Each read may reach another server than the write before it. So a reader says where the write stood (`X-Vault-Index`), as docs/operations/cluster.md tells those
who want to read what they wrote.
"""

import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.request

SECS_MAX = 10
# Between two writes: what is written is read again twice, all of it.
PAUSE_SECS = 0.02


class Client:
    def __init__(self, address, authority=None):
        context = ssl.create_default_context(cafile=authority) if authority else None
        handlers = [urllib.request.HTTPSHandler(context=context)] if context else []
        self.address, self.token = address, ""
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)

    def ask(self, method, path, body=None, position=""):
        return self.answer(method, path, body, position)[0]

    def answer(self, method, path, body=None, position=""):
        """With the position that the server gave it."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Vault-Token": self.token, **({"X-Vault-Index": position} if position else {})}
        request = urllib.request.Request(f"{self.address}/v1/{path}", data, headers, method=method)
        with self.opener.open(request, timeout=SECS_MAX) as answer:
            return json.loads(answer.read() or b"{}"), answer.headers.get("X-Vault-Index", "")


class Load:
    """A thread that writes key after key, and one that reads what was acknowledged."""

    def __init__(self, client, folder):
        self.client, self.folder = client, folder
        self.written, self.lost, self.failed = {}, [], {"write": 0, "read": 0}
        self.longest, self.reads, self.errors = {"write": 0.0, "read": 0.0}, 0, []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=one, daemon=True) for one in (self.write, self.read)]
        for thread in self.threads:
            thread.start()

    def write(self):
        number, last = 0, time.monotonic()
        while not self.over.is_set():
            number += 1
            key, value = f"{self.folder}/{number}", f"value {number}"
            made = self.tried("write", lambda: self.client.answer("PUT", key, {"value": value}))
            if made:
                self.longest["write"], last = max(self.longest["write"], time.monotonic() - last), time.monotonic()
                self.written[key] = value, made[1]
            self.over.wait(PAUSE_SECS)

    def read(self):
        last = time.monotonic()
        while not self.over.is_set():
            keys = list(self.written)
            if not keys:
                time.sleep(0.05)
                continue
            # Often the newest, of which a standby hears last.
            key = keys[-1] if random.random() < 0.5 else random.choice(keys)
            if self.tried("read", lambda: self.is_there(key)):
                self.longest["read"], last = max(self.longest["read"], time.monotonic() - last), time.monotonic()
                self.reads += 1

    def tried(self, kind, ask):
        """What was answered, or nothing where it failed."""
        try:
            return ask()
        except (OSError, ValueError) as error:
            self.failed[kind] += 1
            said = error.read().decode().strip() if isinstance(error, urllib.error.HTTPError) else ""
            self.errors.append(f"{kind}: {error!r} {said}")
            # As a client would: a little later, on a new connection.
            time.sleep(0.1)
            return None

    def is_there(self, key):
        value, position = self.written[key]
        try:
            found = self.client.ask("GET", key, position=position)["data"]["value"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            found = None
        if found != value:
            self.lost.append(f"{key}: {found!r}")
        return True

    def end(self):
        """Ends it, and reads all that was acknowledged once more."""
        self.over.set()
        for thread in self.threads:
            thread.join(2 * SECS_MAX)
        for key in self.written:
            self.is_there(key)
        return self

    def says(self):
        return (
            f"{len(self.written)} writes and {self.reads} reads, longest without a write {self.longest['write']:.1f} s, without a read {self.longest['read']:.1f} s, "
            f"{self.failed['write']} writes and {self.failed['read']} reads failed and were tried again {self.errors[:5] or ''}"
        )
