"""Drives the login method `okta` by hvac against a stand-in for Okta that asks for second factors, fails, lies and forgets people.

  okta_walk.py
"""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hvac

ROOT = hvac.Client(os.environ["VAULT_ADDR"], os.environ["VAULT_TOKEN"])
MODE = {"now": "good"}
GROUPS = ["Everyone", "App Admins"]


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    print("ok ", what, flush=True)


class Okta(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body, link=""):
        text = b'{"status": "SUC' if MODE["now"] == "is half" else json.dumps(body).encode()
        self.send_response(status)
        if link:
            self.send_header("Link", '<https://elsewhere.example/self>; rel="self"')
            self.send_header("Link", link)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        user = {"id": "00u1", "profile": {"login": "Ada@example.org"}}
        inside = {"user": user, "factors": [{"id": "opf1", "factorType": "token:software:totp", "provider": "OKTA"}]}
        if MODE["now"].startswith("push"):
            inside["factors"].append({"id": "opf2", "factorType": "push", "provider": "OKTA"})
        if MODE["now"] == "fails":
            self.answer(500, {})
        elif self.path == "/api/v1/authn/factors/opf1/verify":
            good = body == {"passCode": "123456", "stateToken": "state"}
            self.answer(200 if good else 403, {"status": "SUCCESS", "_embedded": {"user": user}})
        elif self.path == "/api/v1/authn/factors/opf2/verify":
            MODE["polls"] = MODE.get("polls", 0) + 1
            waits = MODE["now"] == "push is ignored" or MODE["polls"] < 3
            result = "WAITING" if waits else {"push is denied": "REJECTED"}.get(MODE["now"])
            more = {"status": "MFA_CHALLENGE", "factorResult": result} if result else {"status": "SUCCESS", "_embedded": {"user": user}}
            self.answer(200 if body == {"stateToken": "state"} else 403, {**more, "stateToken": "state"})
        elif body.get("username", "").lower() not in ("ada", "ada@example.org", "root") or body["password"] != "pw":
            self.answer(401, {"errorCode": "E0000004", "errorSummary": "Authentication failed"})
        else:
            if MODE["now"] == "is slow":
                time.sleep(8)
            status = {"mfa": "MFA_REQUIRED", "push": "MFA_REQUIRED", "push is denied": "MFA_REQUIRED", "push is ignored": "MFA_REQUIRED", "expired": "PASSWORD_EXPIRED"}.get(MODE["now"], "SUCCESS")
            self.answer(200, {"status": status, "stateToken": "state", "_embedded": inside})

    def do_GET(self):
        if MODE["now"] == "is slow":
            time.sleep(8)
        if self.headers["Authorization"] != "SSWS okta-api-token":
            self.answer(401, {})
        elif self.path == "/api/v1/users/00u1":
            self.answer(200, {"id": "00u1", "status": "DEPROVISIONED" if MODE["now"] == "forgets" else "ACTIVE"})
        elif self.path == "/api/v1/users/00u1/groups":
            there = "https://evil.example" if MODE["now"] == "lies" else f"http://{self.headers['Host']}"
            self.answer(200, [{"profile": {"name": GROUPS[0]}}], f'<{there}/api/v1/users/00u1/groups?after=g1>; rel="next"')
        else:
            self.answer(200, [{"profile": {"name": name}} for name in GROUPS[1:]])


def code_of(what):
    try:
        what()
        return 200
    except hvac.exceptions.VaultError as error:
        assert "okta-api-token" not in str(error), error
        return {"InvalidRequest": 400, "InternalServerError": 500, "VaultDown": 503, "Forbidden": 403}[type(error).__name__]


okta = ThreadingHTTPServer(("127.0.0.1", 0), Okta)
# Connections that the server under test gives up are part of the walk.
okta.handle_error = lambda *_: None
threading.Thread(target=okta.serve_forever, daemon=True).start()
ROOT.sys.enable_auth_method("okta", path="people")
here = ROOT.auth.okta
here.configure("acme", api_token="okta-api-token", base_url=f"http://127.0.0.1:{okta.server_port}", mount_point="people")
config = here.read_config(mount_point="people")
check("okta-api-token" not in json.dumps(config), "the token is not shown")
here.register_group("app admins", policies=["admins"], mount_point="people")
here.register_user("ada@example.org", policies=["hers"], groups=["local"], mount_point="people")
here.register_group("local", policies=["local"], mount_point="people")
here.register_user("root", policies=["stolen"], mount_point="people")

ada = hvac.Client(os.environ["VAULT_ADDR"], timeout=90)
enter = lambda name="ada", password="pw": ada.auth.okta.login(name, password, mount_point="people")
auth = enter()["auth"]
check(auth["policies"] == ["admins", "default", "hers", "local"], "policies of groups on two pages, of a user and of their groups here")
check(auth["metadata"]["username"] == "ada@example.org", "who it is")
check(enter("ADA@example.org")["auth"]["entity_id"] == auth["entity_id"], "however it is spelled")
check("stolen" not in enter("root")["auth"]["policies"], "a spelling that people choose gives nothing")
check(code_of(ada.auth.token.renew_self) == 200, "a renewal")

check(code_of(lambda: enter(password="no")) == 400, "a wrong password")
check(code_of(lambda: enter("nobody")) == 400, "a name that nobody has")
MODE["now"] = "mfa"
check(code_of(enter) == 400, "a second factor that is not shown")
with_code = lambda code: ada.auth.okta._adapter.login(url="/v1/auth/people/login/ada", use_token=True, json={"password": "pw", "totp": code})
check(code_of(lambda: with_code("654321")) == 400, "a wrong code")
check(with_code("123456")["auth"]["policies"] == auth["policies"], "a good code")
check(code_of(ada.auth.token.renew_self) == 200, "a renewal asks for no code")
for mode, expected, secs in [("push", 200, 4), ("push is denied", 400, 4), ("push is ignored", 400, 36)]:
    MODE.update(now=mode, polls=0)
    begun = time.monotonic()
    told = code_of(enter)
    took = time.monotonic() - begun
    check(told == expected and secs - 1 < took < secs + 12, f"Okta Verify, where a {mode}: {told} after {took:.0f} s and {MODE['polls']} questions")
MODE["now"] = "is slow"
begun = time.monotonic()
told = code_of(enter)
took = time.monotonic() - begun
check(told == 503 and 18 < took < 26, f"an Okta that takes 8 s for each of three answers holds a login for {took:.0f} s")
MODE["now"] = "expired"
check(code_of(enter) == 400, "a password that has expired")
for mode in ["fails", "is half", "lies"]:
    MODE["now"] = mode
    check(code_of(enter) == 503, f"an Okta that {mode}")
MODE["now"] = "forgets"
check(code_of(ada.auth.token.renew_self) == 400, "who is not active any more renews nothing")
MODE["now"] = "good"
for _ in range(5):
    code_of(lambda: enter(password="no"))
check(code_of(enter) == 403, "a name is locked after wrong passwords")
okta.shutdown()
okta.server_close()
check(code_of(lambda: enter("ada@example.org")) == 503, "an Okta that is gone")
ROOT.sys.disable_auth_method("people")
