"""A second factor for logins, with clients nobody here wrote: pyotp makes the codes, `bao login` shows them, hvac logs in.

Reads VAULT_ADDR and VAULT_TOKEN (root) from the environment; `bao` is on the path. Prints a line for each thing that held.
"""

import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request

import hvac
import pyotp

ADDR, ROOT = os.environ["VAULT_ADDR"], os.environ["VAULT_TOKEN"]


def call(method, path, body=None, token=ROOT, namespace=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{ADDR}/v1/{path}", data, method=method)
    for name, value in {"X-Vault-Token": token, "X-Vault-Namespace": namespace, **(headers or {})}.items():
        if value:
            request.add_header(name, value)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            text = reply.read()
            return reply.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else {}


def ok(what, held):
    print(f"{'ok' if held else 'NOT OK'} {what}")
    if not held:
        raise SystemExit(1)


def period_of(totp):
    return int(time.time()) // totp.interval


def fresh_code(totp):
    """A code of a period that was not used: the next one, and long enough before its end."""
    used = fresh_code.used.setdefault(totp.secret, set())
    while True:
        period = period_of(totp)
        if period not in used and totp.interval - time.time() % totp.interval > 1:
            used.add(period)
            return totp.at(period * totp.interval)
        time.sleep(0.2)


fresh_code.used = {}


def in_time(totp, give, is_good):
    """What `give` makes of a fresh code. Where that is not good and the period ended meanwhile, the machine was too slow: again, with the next."""
    for _ in range(10):
        code = fresh_code(totp)
        period = period_of(totp)
        made = give(code)
        if is_good(made) or period_of(totp) == period:
            break
    return code, made


def totp_of(url):
    return pyotp.parse_uri(url)


status, made = call("POST", "identity/mfa/method/totp", {"issuer": "Kallisto", "method_name": "app", "period": 3, "skew": 0})
ok("a method is made", status == 200 and made["data"]["method_id"])
method = made["data"]["method_id"]
status, read = call("GET", f"identity/mfa/method/totp/{method}")
data = read["data"]
ok("a method is read, whole", (data["type"], data["issuer"], data["period"], data["algorithm"], data["digits"], data["name"],
                              data["max_validation_attempts"]) == ("totp", "Kallisto", 3, "SHA1", 6, "app", 5))
ok("a method is read without its type", call("GET", f"identity/mfa/method/{method}")[1]["data"] == data)
ok("methods are listed", call("LIST", "identity/mfa/method/totp")[1]["data"]["keys"] == [method])
ok("a method without an issuer is refused", call("POST", "identity/mfa/method/totp", {})[0] == 400)
for field, value in [("digits", 7), ("algorithm", "MD5"), ("skew", 2), ("period", 0), ("max_validation_attempts", -1)]:
    status, refused = call("POST", "identity/mfa/method/totp", {"issuer": "K", field: value})
    ok(f"{field} {value} is refused by name", status == 400 and refused["errors"][0])
ok("a second method of a name is refused", call("POST", "identity/mfa/method/totp", {"issuer": "K", "method_name": "APP"})[0] == 400)

call("POST", "sys/auth/userpass", {"type": "userpass"})
call("POST", "sys/auth/approle", {"type": "approle"})
call("POST", "auth/userpass/users/mfa-ann", {"password": "pw", "token_policies": "mfa"})
call("PUT", "sys/policies/acl/mfa", {"policy": 'path "identity/mfa/method/totp/generate" { capabilities = ["update"] }'})
accessor = call("GET", "sys/auth")[1]["data"]["userpass/"]["accessor"]
login = {"password": "pw"}
status, reply = call("POST", "auth/userpass/login/mfa-ann", login, token=None)
entity, own = reply["auth"]["entity_id"], reply["auth"]["client_token"]
ok("a login without a rule has its token, and no requirement", status == 200 and own and reply["auth"]["mfa_requirement"] is None)

status, key = call("POST", "identity/mfa/method/totp/generate", {"method_id": method}, token=own)
ok("whoever asks has a key made, with its QR code", status == 200 and key["data"]["barcode"] and key["data"]["url"].startswith("otpauth://totp/Kallisto:"))
totp = totp_of(key["data"]["url"])
status, again = call("POST", "identity/mfa/method/totp/generate", {"method_id": method}, token=own)
ok("a key is made once, and shown once", status == 200 and not again.get("data") and "already has a secret" in again["warnings"][0])
ok("a key for nobody is refused", call("POST", "identity/mfa/method/totp/admin-generate", {"method_id": method, "entity_id": "x"})[0] == 400)
ok("root has no entity to make a key for", call("POST", "identity/mfa/method/totp/generate", {"method_id": method})[0] == 400)

for body in [{}, {"mfa_method_ids": [method]}, {"mfa_method_ids": ["nope"], "auth_method_types": ["userpass"]},
             {"mfa_method_ids": [method], "auth_method_accessors": ["auth_nope_1"]}]:
    ok("a rule for nothing that is there is refused", call("POST", "identity/mfa/login-enforcement/two", body)[0] == 400)
status, _ = call("POST", "identity/mfa/login-enforcement/two", {"mfa_method_ids": [method], "auth_method_accessors": [accessor]})
ok("a rule is made", status == 204)
status, rule = call("GET", "identity/mfa/login-enforcement/two")
ok("a rule is read", rule["data"]["mfa_method_ids"] == [method] and rule["data"]["auth_method_accessors"] == [accessor] and rule["data"]["name"] == "two")
ok("rules are listed", call("LIST", "identity/mfa/login-enforcement")[1]["data"]["keys"] == ["two"])
status, refused = call("DELETE", f"identity/mfa/method/totp/{method}")
ok("a method that a rule names is not deleted", status == 400 and "still used" in refused["errors"][0])

status, reply = call("POST", "auth/userpass/login/mfa-ann", login, token=None)
need = reply["auth"]["mfa_requirement"]
ok("a login says what is to be shown, and has no token", status == 200 and reply["auth"]["client_token"] == "" and reply["warnings"])
ok("the requirement names the rule and its methods", need["mfa_constraints"]["two"]["any"] == [{"type": "totp", "id": method, "uses_passcode": True, "name": "app"}])
ok("nothing of who logs in is told", reply["auth"]["entity_id"] == "" and reply["auth"]["policies"] is None)
asked = need["mfa_request_id"]
validate = lambda code, request=asked, **kw: call("POST", "sys/mfa/validate", {"mfa_request_id": request, "mfa_payload": {method: [code]}}, token=None, **kw)
wrong = f"{(int(totp.now()) + 500000) % 1000000:06}"
status, refused = validate(wrong)
ok("a wrong code is refused, and names the rule", status == 403 and "failed to satisfy enforcement two" in refused["errors"][0])
for bad in ["", "12345", "1234567", "abcdef", " 12345", "１２３４５６"]:
    ok(f"{bad!r} is no code", validate(bad)[0] == 403)
ok("an unknown request is refused", validate("000000", "00000000-0000-4000-8000-000000000000")[0] == 400)
ok("a path is no request", validate("000000", "../../../../sys/policy")[0] == 400)
ok("a payload is needed", call("POST", "sys/mfa/validate", {"mfa_request_id": asked}, token=None)[0] == 400)
is_200 = lambda made: made[0] == 200
code, (status, reply) = in_time(totp, validate, is_200)
token = reply.get("auth", {}).get("client_token")
ok("a good code has the token of the login", status == 200 and token and reply["auth"]["token_policies"] == ["default", "mfa"] and reply["auth"]["metadata"] == {"username": "mfa-ann"})
ok("the token is good, and of the login's path", call("GET", "auth/token/lookup-self", token=token)[1]["data"]["path"] == "auth/userpass/login/mfa-ann")
ok("a request is good for one token", validate(code)[0] == 400)
asked2 = call("POST", "auth/userpass/login/mfa-ann", login, token=None)[1]["auth"]["mfa_requirement"]["mfa_request_id"]
status, refused = validate(code, asked2)
ok("a code is good once", status == 403 and ("already used" in refused["errors"][0] or "failed to validate" in refused["errors"][0]))
ok("the login that waits takes the next", is_200(in_time(totp, lambda code: validate(code, asked2), is_200)[1]))

with_header = lambda value: call("POST", "auth/userpass/login/mfa-ann", login, token=None, headers={"X-Vault-MFA": value})
_, (status, reply) = in_time(totp, lambda code: with_header(f"{method}:{code}"), is_200)
ok("one header is the whole login", status == 200 and reply["auth"]["client_token"])
_, (status, reply) = in_time(totp, lambda code: with_header(f"app:{code}"), is_200)
ok("the header may name the method", status == 200 and reply["auth"]["client_token"])
ok("a wrong code in the header is refused", with_header(f"app:{wrong}")[0] == 403)
ok("a header for another method is refused", with_header(f"other:{wrong}")[0] == 403)
ok("a wrong password is refused as ever", call("POST", "auth/userpass/login/mfa-ann", {"password": "no"}, token=None, headers={"X-Vault-MFA": f"app:{fresh_code(totp)}"})[0] == 400)

# 32 of the same code at once: one token.
def race(code):
    tokens = []
    def show(request):
        status, reply = validate(code, request)
        if status == 200:
            tokens.append(reply["auth"]["client_token"])
    threads = [threading.Thread(target=show, args=(requests[at % 8],)) for at in range(32)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return tokens
requests = [call("POST", "auth/userpass/login/mfa-ann", login, token=None)[1]["auth"]["mfa_requirement"]["mfa_request_id"] for _ in range(8)]
tokens = in_time(totp, race, bool)[1]
ok("of 32 that show one code at once, one has a token", len(tokens) == 1)

# Guessing.
for _ in range(10):
    time.sleep(totp.interval - time.time() % totp.interval)
    period = period_of(totp)
    seen = [with_header(f"app:{wrong}")[0] for _ in range(8)]
    # Eight in one period, where the machine is quick enough.
    if period_of(totp) == period:
        break
ok("wrong codes are looked at five times in a period", 429 in seen and seen.count(403) <= 6)
ok("the next period takes a good one again", with_header(f"app:{fresh_code(totp)}")[0] in (200, 403, 429) and is_200(in_time(totp, lambda code: with_header(f"app:{code}"), is_200)[1]))

# A login that waits is bounded, and the oldest gives way.
ids = [call("POST", "auth/userpass/login/mfa-ann", login, token=None)[1]["auth"]["mfa_requirement"]["mfa_request_id"] for _ in range(20)]
ok("the oldest login that waits gives way", validate("000000", ids[-1])[0] in (403, 429) and len(set(ids)) == 20)

# hvac and bao.
environment = {**os.environ, "HOME": os.environ.get("HOME", "/tmp"), "BAO_ADDR": ADDR, "VAULT_TOKEN": "", "BAO_TOKEN": ""}
bao = lambda *words, feed=None: subprocess.run(["bao", *words], env=environment, input=feed, capture_output=True, text=True, timeout=60)
has_ended_well = lambda done: done.returncode == 0
_, done = in_time(totp, lambda code: bao("login", "-no-store", "-format=json", "-method=userpass", f"-mfa={method}:{code}", "username=mfa-ann", "password=pw"), has_ended_well)
ok("bao logs in with -mfa", done.returncode == 0 and json.loads(done.stdout)["auth"]["client_token"])
done = bao("login", "-no-store", "-non-interactive", "-format=json", "-method=userpass", "username=mfa-ann", "password=pw")
asked = json.loads(done.stdout)["auth"]["mfa_requirement"]["mfa_request_id"]
payload = lambda code: json.dumps({"mfa_request_id": asked, "mfa_payload": {method: [code]}})
_, done = in_time(totp, lambda code: bao("write", "-format=json", "sys/mfa/validate", "-", feed=payload(code)), has_ended_well)
ok("bao shows what is due, and validates it", done.returncode == 0 and json.loads(done.stdout)["auth"]["client_token"])
client = hvac.Client(url=ADDR)
reply = client.auth.userpass.login("mfa-ann", "pw", use_token=False)
asked = reply["auth"]["mfa_requirement"]["mfa_request_id"]
def by_hvac(code):
    try:
        return client.adapter.post("/v1/sys/mfa/validate", json={"mfa_request_id": asked, "mfa_payload": {method: [code]}})
    except hvac.exceptions.VaultError:
        return None
reply = in_time(totp, by_hvac, bool)[1]
ok("hvac logs in and validates", reply and reply["auth"]["client_token"])
kallisto = os.environ["KALLISTO"]
ours = lambda *words: subprocess.run([kallisto, *words], env={**environment, "VAULT_ADDR": ADDR}, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
_, done = in_time(totp, lambda code: ours("login", "-no-store", "-format=json", "-method=userpass", f"-mfa={code}", "username=mfa-ann", "password=pw"), has_ended_well)
ok("kallisto logs in with -mfa", done.returncode == 0 and json.loads(done.stdout)["auth"]["client_token"])
done = ours("login", "-no-store", "-format=json", "-method=userpass", "username=mfa-ann", "password=pw")
ok("kallisto shows what is due where there is no terminal", done.returncode == 0 and json.loads(done.stdout)["auth"]["mfa_requirement"])
import pty
import select
def at_terminal():
    main, other = pty.openpty()
    terminal = subprocess.Popen([kallisto, "login", "-token-only", "-method=userpass", "username=mfa-ann", "password=pw"],
                                env={**environment, "VAULT_ADDR": ADDR}, stdin=other, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
    # What is typed before the question may be thrown away.
    select.select([main, terminal.stderr], [], [], 30)
    time.sleep(0.2)
    code = fresh_code(totp)
    period = period_of(totp)
    os.write(main, (code + "\n").encode())
    said, _ = terminal.communicate(timeout=30)
    is_late = period_of(totp) != period
    return terminal.returncode == 0, said, is_late
for _ in range(5):
    held, said, is_late = at_terminal()
    if held or not is_late:
        break
ok("kallisto asks for the code at a terminal", held and call("GET", "auth/token/lookup-self", token=said.strip())[0] == 200)

# By type, group and entity; other logins are as they were.
call("POST", "auth/approle/role/mfa-r", {"token_policies": "default"})
role = call("GET", "auth/approle/role/mfa-r/role-id")[1]["data"]["role_id"]
secret = lambda: call("POST", "auth/approle/role/mfa-r/secret-id")[1]["data"]["secret_id"]
approle = lambda: call("POST", "auth/approle/login", {"role_id": role, "secret_id": secret()}, token=None)[1]["auth"]
machine = approle()
ok("a login that no rule is for is as it was", machine["client_token"])
call("POST", "identity/mfa/login-enforcement/machines", {"mfa_method_ids": [method], "auth_method_types": ["approle"]})
ok("a rule is for a type of method", approle()["mfa_requirement"])
call("DELETE", "identity/mfa/login-enforcement/machines")
group = call("POST", "identity/group", {"name": "mfa-g", "member_entity_ids": [machine["entity_id"]]})[1]["data"]["id"]
call("POST", "identity/mfa/login-enforcement/grouped", {"mfa_method_ids": [method], "identity_group_ids": [group]})
waiting = approle()["mfa_requirement"]["mfa_request_id"]
ok("a rule is for a group", waiting)
status, refused = validate("123456", waiting)
ok("who has no key is told so", status == 403 and "not present" in refused["errors"][0])
call("DELETE", "identity/mfa/login-enforcement/grouped")
call("POST", "identity/mfa/login-enforcement/one", {"mfa_method_ids": [method], "identity_entity_ids": [machine["entity_id"]]})
ok("a rule is for an entity", approle()["mfa_requirement"])
call("DELETE", "identity/mfa/login-enforcement/one")
ok("a deleted rule holds no more", approle()["client_token"])

# Two rules of one method: one code is enough for both. An entity that was disabled meanwhile has nothing.
call("POST", "identity/mfa/login-enforcement/three", {"mfa_method_ids": [method], "identity_entity_ids": [entity]})
reply = call("POST", "auth/userpass/login/mfa-ann", login, token=None)[1]["auth"]["mfa_requirement"]
ok("two rules are two constraints", sorted(reply["mfa_constraints"]) == ["three", "two"])
ok("one code is enough for two rules of one method", is_200(in_time(totp, lambda code: validate(code, reply["mfa_request_id"]), is_200)[1]))
call("DELETE", "identity/mfa/login-enforcement/three")
waiting = call("POST", "auth/userpass/login/mfa-ann", login, token=None)[1]["auth"]["mfa_requirement"]["mfa_request_id"]
call("POST", f"identity/entity/id/{entity}", {"disabled": True})
ok("an entity disabled meanwhile has no token", validate(fresh_code(totp), waiting)[0] == 403)
call("POST", f"identity/entity/id/{entity}", {"disabled": False})

# Namespaces: a rule above holds inside, by a method above, with a key made inside.
if call("POST", "sys/namespaces/mfa-team")[0] == 200:
    inside = lambda method_, path, body=None, token=ROOT: call(method_, path, body, token, namespace="mfa-team")
    inside("POST", "sys/auth/userpass", {"type": "userpass"})
    inside("POST", "auth/userpass/users/bob", {"password": "pw"})
    bob = inside("POST", "auth/userpass/login/bob", login, None)[1]["auth"]["entity_id"]
    call("POST", "identity/mfa/login-enforcement/all", {"mfa_method_ids": [method], "auth_method_types": ["userpass"]})
    waiting = inside("POST", "auth/userpass/login/bob", login, None)[1]["auth"]["mfa_requirement"]
    ok("a rule above holds inside", "all" in waiting["mfa_constraints"])
    key = inside("POST", "identity/mfa/method/totp/admin-generate", {"method_id": method, "entity_id": bob})[1]["data"]
    body = lambda code: {"mfa_request_id": waiting["mfa_request_id"], "mfa_payload": {method: [code]}}
    bobs = totp_of(key["url"])
    ok("a login is validated in its own namespace alone", call("POST", "sys/mfa/validate", body(bobs.now()), None)[0] == 400)
    _, (status, reply) = in_time(bobs, lambda code: inside("POST", "sys/mfa/validate", body(code), None), is_200)
    ok("a login inside is validated there", status == 200 and reply["auth"]["client_token"])
    call("DELETE", "identity/mfa/login-enforcement/all")
    ok("a rule inside is not one above", inside("GET", "identity/mfa/login-enforcement/two")[0] == 404)

status, _ = call("POST", "identity/mfa/method/totp/admin-destroy", {"method_id": method, "entity_id": entity})
ok("a key is destroyed", status == 204)
status, key = call("POST", "identity/mfa/method/totp/admin-generate", {"method_id": method, "entity_id": entity})
ok("and another made", status == 200 and totp_of(key["data"]["url"]).secret != totp.secret)
call("DELETE", "identity/mfa/login-enforcement/two")
ok("a method that no rule names is deleted", call("DELETE", f"identity/mfa/method/totp/{method}")[0] == 204 and call("GET", f"identity/mfa/method/totp/{method}")[0] == 404)
