"""Drives the login method `github` by hvac against a stand-in for GitHub that refuses, hangs up, lies and has pages.

  github_walk.py
"""

import json
import os
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hvac

ROOT = hvac.Client(os.environ["VAULT_ADDR"], os.environ["VAULT_TOKEN"])
TEAMS = 230
MODE = {"now": "good"}
ASKED = []


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    print("ok ", what, flush=True)


class Hub(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        page = int(urllib.parse.parse_qs(url.query).get("page", ["1"])[0])
        token = self.headers.get("Authorization", "")
        ASKED.append((url.path, token))
        mode = MODE["now"]
        if mode == "hangs up":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        link, status = "", 200
        if url.path == "/orgs/acme":
            body = {"login": "acme", "id": 42}
        elif token not in ("Bearer ghp_alice", "Bearer ghp_mallory"):
            status, body = 401, {"message": "Bad credentials"}
        elif mode == "fails":
            status, body = 500, {"message": "the token was " + token}
        elif url.path == "/user":
            body = {"login": token.removeprefix("Bearer ghp_")}
        elif url.path == "/user/orgs":
            body = [{"login": "acme", "id": 42 if token.endswith("alice") else 43}]
        else:
            names = [f"team-{n}" for n in range(TEAMS)][(page - 1) * 100:page * 100]
            body = [{"name": name, "slug": name, "organization": {"id": 42}} for name in names]
            if mode == "leaves" and page == 1:
                body = []
            elif page * 100 < TEAMS:
                there = "https://evil.example" if mode == "lies" else f"http://{self.headers['Host']}"
                link = f'<{there}/user/teams?per_page=100&page={page + 1}>; rel="next"'
        text = b'{"login": "al' if mode == "is half" else json.dumps(body).encode()
        self.send_response(status)
        if link:
            self.send_header("Link", link)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def code_of(what):
    try:
        what()
        return 200
    except hvac.exceptions.VaultError as error:
        told = str(error)
        assert "ghp_" not in told, told
        return {"InvalidRequest": 400, "InternalServerError": 500, "VaultDown": 503, "Forbidden": 403}[type(error).__name__]


hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=hub.serve_forever, daemon=True).start()
ROOT.sys.enable_auth_method("github", path="hub")
ROOT.auth.github.configure("acme", base_url=f"http://127.0.0.1:{hub.server_port}", mount_point="hub")
config = ROOT.auth.github.read_configuration(mount_point="hub")["data"]
check(config["organization_id"] == 42, "the number of the organization is asked for")
ROOT.auth.github.map_team("team-229", ["last"], mount_point="hub")
ROOT.auth.github.map_user("alice", ["hers"], mount_point="hub")

alice = hvac.Client(os.environ["VAULT_ADDR"])
enter = lambda token: alice.auth.github.login(token, mount_point="hub")
auth = enter("ghp_alice")["auth"]
check(auth["policies"] == ["default", "hers", "last"], "policies of a person and of a team on the third page")
check(auth["metadata"] == {"org": "acme", "username": "alice"}, "who it is")
check(alice.auth.token.lookup_self()["data"]["path"] == "auth/hub/login", "the token works")
check(all(path.startswith("/orgs/") or token == "Bearer ghp_alice" for path, token in ASKED), "nobody else's token is shown")
check(code_of(alice.auth.token.renew_self) == 200, "a renewal")

check(code_of(lambda: enter("ghp_nobody")) == 400, "a token that GitHub refuses")
check(code_of(lambda: enter("ghp_mallory")) == 500, "a member of another organization of the same name")
check(code_of(lambda: enter("a\r\nX-Evil: 1")) == 400, "a token that is a header")
for mode in ["fails", "hangs up", "is half", "lies"]:
    MODE["now"] = mode
    check(code_of(lambda: enter("ghp_alice")) == 503, f"a GitHub that {mode}")
    check(code_of(alice.auth.token.renew_self) == 503, f"a renewal while it {mode}")
MODE["now"] = "leaves"
check(code_of(alice.auth.token.renew_self) == 400, "who left the team renews nothing")
hub.shutdown()
hub.server_close()
check(code_of(lambda: enter("ghp_alice")) == 503, "a GitHub that is gone")
ROOT.sys.disable_auth_method("hub")
