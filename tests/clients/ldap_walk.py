"""Drives the login method and the secrets engine for directories against a slapd of this machine, and logs in to it with what they issued.

  ldap_walk.py KALLISTO_BINARY [BAO]

Starts slapd in a folder of its own, and a server of its own besides that it kills by SIGKILL while entries are made. LDAP_CREATIONS says how
many are made then; 40 when nobody says. Needs hvac for a part, and says so where it is not there.
"""

import concurrent.futures
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from far_ends.processes import check, end_all, free_port, is_listening, make_folder, ok, skip, start
from far_ends.slapd import BASE, CREATION, DELETION, GROUPS, PEOPLE, SLAPD, Directory

BINARY = sys.argv[1]
BAO = sys.argv[2] if len(sys.argv) > 2 else None
CREATIONS = int(os.environ.get("LDAP_CREATIONS", "40"))
WORK = make_folder("ldap-walk-")
ADDRESS = os.environ.get("VAULT_ADDR", "")
TOKEN = os.environ.get("VAULT_TOKEN", "root")


def ask(method, path, body=None, address=None, timeout=60, token=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{address or ADDRESS}/v1/{path}", data, method=method)
    request.add_header("X-Vault-Token", token or TOKEN)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else {}


def done(method, path, body=None, **more):
    code, answer = ask(method, path, body, **more)
    if code not in (200, 204):
        raise SystemExit(f"{method} {path}: {code} {answer}")
    return answer


def login(name, password, **more):
    return ask("POST", f"auth/ldap/login/{urllib.parse.quote(name, safe='')}", {"password": password}, **more)


def auth_walk(directory):
    done("POST", "sys/auth/ldap", {"type": "ldap"})
    done("POST", "sys/auth/ldap/tune", {"user_lockout_config": {"lockout_disable": True}})
    for bad in ({"url": "bogus://x"}, {"url": "nonsense"}, {"userfilter": "((bad"}, {"userfilter": "(uid={{.Nope}})"}, {"groupfilter": "((bad"},
                {"dereference_aliases": "x"}):
        code, answer = ask("POST", "auth/ldap/config", {"url": directory.url(), **bad})
        if code != 400 or ask("GET", "auth/ldap/config")[1]["data"]["url"] != "ldap://127.0.0.1":
            raise SystemExit(f"{bad}: {code} {answer}")
    ok("settings that would fail at a login are refused when they are written")
    done("POST", "auth/ldap/config", {"url": directory.url(), "userdn": PEOPLE, "userattr": "uid", "groupdn": GROUPS, "binddn": f"cn=binder,{BASE}",
                                      "bindpass": "binderpw", "token_policies": "base", "token_ttl": "1h", "token_max_ttl": "2h"})
    read = done("GET", "auth/ldap/config")
    check("binderpw" not in json.dumps(read) and read["data"]["binddn"] == f"cn=binder,{BASE}", "the configuration is read without its password")
    done("POST", "auth/ldap/groups/engineers", {"policies": "eng,Dev"})
    done("POST", "auth/ldap/groups/all%20staff", {"policies": ["staff"]})
    done("POST", "auth/ldap/groups/odd%20ones", {"policies": ["odd"]})
    done("POST", "auth/ldap/groups/local-g", {"policies": "local-p"})
    done("POST", "auth/ldap/groups/outer", {"policies": "outer-p"})
    done("POST", "auth/ldap/users/alice", {"groups": "local-g", "policies": "alice-p"})
    code, answer = login("alice", "alicepw")
    check(code == 200 and answer["auth"]["policies"] == ["alice-p", "base", "default", "dev", "eng", "local-p", "staff"],
          "alice logs in with the policies of her groups and her own")
    entity = answer["auth"]["entity_id"]
    alice = answer["auth"]["client_token"]
    spellings = ["ALICE", "alice ", " alice", "AlIcE", "  ALICE  "]
    check({login(one, "alicepw")[1]["auth"]["entity_id"] for one in spellings} == {entity}, "however her name is spelled she is one entity")
    code, answer = login("bob", "bobpw")
    check(code == 200 and answer["auth"]["policies"] == ["base", "default", "staff"], "parentheses in the name of an entry find its groups")
    code, answer = login("odd", "*()\\ üodd")
    check(code == 200 and answer["auth"]["policies"] == ["base", "default", "odd"],
          "a comma, a star and a backslash in the name of an entry find its groups, and a password may have *()\\ and ü")

    told = set()
    names = ["*", "a*", "alice)(uid=*", "*)(uid=*))(|(uid=*", "(", ")", "alice)(|(cn=*))", "nobody",
             "alice,ou=people", "cn=Alice A", "＊", "ali\u00adce", "\ufeffalice", "\uff41lice", "al\u034fice", "ali\u3164ce", "al\u2071ce", "two"]
    for name in names:
        code, answer = login(name, "alicepw")
        told.add((code, str(answer.get("errors"))))
    told.add((lambda answer: (answer[0], str(answer[1].get("errors"))))(login("alice", "wrong")))
    check(told == {(400, "['ldap operation failed: failed to bind as user']")},
          f"{len(names)} names that are filters, names of nobody and a wrong password are told the same: {sorted(told)}")
    codes = {login(name, "alicepw")[0] for name in ("\\2a", "al\\69ce", "alice\x00", "\\")}
    check(codes == {400}, "and no path has a backslash or a control character")
    for name in ("two", "deux"):
        code, answer = login(name, "twopw")
        if code != 400 or "shows 2 values" not in str(answer):
            raise SystemExit(f"{name}: {code} {answer}")
    ok("an entry that is called by two names is nobody, and is told so with the right password only")
    code, answer = login("alice", "")
    check(code == 400 and "zero length" in str(answer), "an empty password is refused")
    done("POST", "auth/ldap/config", {"deny_null_bind": False})
    code, answer = login("alice", "")
    check(code == 400 and "failed to bind as user" in str(answer), "and without deny_null_bind too, since the directory takes it for nobody")
    done("POST", "auth/ldap/config", {"deny_null_bind": True})

    renewed = done("POST", "auth/token/renew-self", {}, token=alice)
    check(renewed["auth"]["client_token"] == alice, "a token is renewed while its groups are the same")
    directory.change(f"dn: cn=engineers,{GROUPS}\nchangetype: modify\nreplace: member\nmember: cn=svc1,{PEOPLE}\n")
    code, answer = ask("POST", "auth/token/renew-self", {}, token=alice)
    check(code == 400 and "policies have changed, not renewing" in str(answer), "a group that was left stops the renewal")
    directory.change(f"dn: cn=engineers,{GROUPS}\nchangetype: modify\nreplace: member\nmember: cn=Alice A,{PEOPLE}\n")
    done("POST", "auth/token/renew-self", {}, token=alice)

    done("POST", "auth/ldap/config", {"groupfilter": "(|(member={{.UserDN}})(&(cn=outer)(member=cn=engineers," + GROUPS + ")))"})
    check("outer-p" in login("alice", "alicepw")[1]["auth"]["policies"], "a filter may name groups of groups")
    done("POST", "auth/ldap/config", {"groupfilter": ""})

    done("POST", "auth/ldap/config", {"userattr": "cn", "binddn": "", "bindpass": ""})
    code, answer = login("Alice A", "alicepw")
    check(code == 200 and answer["auth"]["policies"] == ["base", "default", "dev", "eng", "staff"] and answer["auth"]["metadata"]["username"] == "alice a",
          "without binddn the name of the entry is made of the user's, and groups are found as the user")
    check(login("Bob (B)", "bobpw")[0] == 200, "with the characters that names of entries escape")
    done("POST", "auth/ldap/users/alice%20a", {"groups": "local-g"})
    code, answer = login("Alice A", "alicepw")
    check(code == 200 and "local-p" in answer["auth"]["policies"], "and with the groups that they have here")
    mine = answer["auth"]["client_token"]
    done("POST", "auth/token/renew-self", {}, token=mine)
    done("DELETE", "auth/ldap/users/alice%20a")
    code, answer = ask("POST", "auth/token/renew-self", {}, token=mine)
    check(code == 400 and "policies have changed" in str(answer), "a group that was taken away here stops the renewal")
    check(login("Alice A,ou=people", "alicepw")[0] == 400 and login("Bob (B)", "wrong")[0] == 400, "and no more than that")
    done("POST", "auth/ldap/config", {"discoverdn": True, "anonymous_group_search": True, "userattr": "uid"})
    check(login("alice", "alicepw")[0] == 200, "users and groups may be searched for as nobody")
    done("POST", "auth/ldap/config", {"discoverdn": False, "anonymous_group_search": False, "binddn": f"cn=binder,{BASE}", "bindpass": "wrong-canary"})
    code, answer = login("alice", "alicepw")
    check(code == 503 and "wrong-canary" not in str(answer) and "invalidCredentials" in str(answer), "a wrong bindpass is no mistake of who logs in, and is told")
    done("POST", "auth/ldap/config", {"bindpass": "binderpw", "userfilter": "(&(objectClass=inetOrgPerson)({{.UserAttr}}={{.Username}})(mail=*))"})
    check(login("alice", "alicepw")[0] == 200 and login("bob", "bobpw")[0] == 400, "a userfilter says who may log in")
    done("POST", "auth/ldap/config", {"userfilter": "", "username_as_alias": True})
    check(login("ALICE", "alicepw")[1]["auth"]["entity_id"] == entity, "username_as_alias is the same alias")
    done("POST", "auth/ldap/config", {"url": f"ldap://127.0.0.1:1,{directory.url()}", "username_as_alias": False})
    check(login("alice", "alicepw")[0] == 200, "the next URL is asked when the first does not answer")
    with socket.socket() as hung:
        hung.bind(("127.0.0.1", 0))
        hung.listen(64)
        done("POST", "auth/ldap/config", {"url": f"ldap://127.0.0.1:{hung.getsockname()[1]},{directory.url()}", "connection_timeout": 1})
        begun = time.time()
        code, answer = login("alice", "alicepw")
        check(code == 200, f"and when the first takes the connection and says nothing, in {time.time() - begun:.1f} s: {str(answer.get('errors'))}")
    done("POST", "auth/ldap/config", {"url": directory.url(), "connection_timeout": 30})
    code, answer = ask("POST", "auth/ldap/config", {"url": "ldap://u:canary@127.0.0.1"})
    check(code == 400 and "canary" not in str(answer), "no error quotes a URL that may have a password")
    ask("POST", "auth/ldap/config", {"url": "LDAP://127.evil.example.org"})
    check("without TLS" in str(ask("GET", "auth/ldap/config")[1]), "passwords in clear are warned of by the host that is meant")
    done("POST", "auth/ldap/config", {"url": directory.url()})
    listed = done("GET", "auth/ldap/groups?list=true&after=all%20staff")["data"]["keys"]
    check("all staff" not in listed and "engineers" in listed, "a list goes on after a name")
    done("POST", "auth/ldap/users/t%20%20wo", {"policies": "spaces"})
    check(done("GET", "auth/ldap/users/T%20Wo")["data"]["policies"] == ["spaces"], "names here have single spaces")
    done("DELETE", "auth/ldap/users/t%20wo")
    if directory.has_tls:
        pem = (WORK / "ca.pem").read_text()
        done("POST", "auth/ldap/config", {"url": f"ldaps://127.0.0.1:{directory.tls_port}", "certificate": pem})
        code, answer = login("alice", "alicepw")
        check(code == 200, f"over ldaps, with the authority that was given: {str(answer.get('errors'))}")
        done("POST", "auth/ldap/config", {"certificate": ""})
        code, answer = login("alice", "alicepw")
        check(code == 503 and "certificate" in str(answer).lower(), f"an authority that is not known is refused: {str(answer)[:160]}")
        done("POST", "auth/ldap/config", {"url": directory.url(), "starttls": True, "certificate": pem, "tls_min_version": "tls13"})
        check(login("alice", "alicepw")[0] == 200, "over StartTLS with TLS 1.3")
        done("POST", "auth/ldap/config", {"starttls": False, "tls_min_version": "tls12"})
    else:
        skip("ldap over TLS: openssl is not installed")
    done("POST", "auth/ldap/config", {"url": directory.url()})
    if BAO:
        home = {**os.environ, "HOME": str(WORK)}
        said = subprocess.run([BAO, "write", "-format=json", "auth/ldap/login/alice", "password=alicepw"],
                              capture_output=True, text=True, timeout=60, env=home)
        check(said.returncode == 0 and "eng" in json.loads(said.stdout)["auth"]["policies"], f"bao write auth/ldap/login/alice (its own login knows no ldap any more) {said.stderr[:200]}")
    own = subprocess.run([BINARY, "login", "-method=ldap", "-format=json", "-no-store", "username=alice", "password=alicepw"], capture_output=True, text=True,
                         timeout=60, env={**os.environ, "HOME": str(WORK)})
    check(own.returncode == 0 and "eng" in own.stdout, f"kallisto login -method=ldap {own.stderr[:200]}")
    try:
        import hvac
        client = hvac.Client(url=ADDRESS)
        check("eng" in client.auth.ldap.login(username="alice", password="alicepw")["auth"]["policies"], "hvac logs in")
        client.token = TOKEN
        check(client.auth.ldap.read_configuration()["data"]["userattr"] == "uid", "hvac reads the configuration")
        check(set(client.auth.ldap.list_groups()["data"]["keys"]) >= {"engineers", "all staff"}, "hvac lists groups")
    except ImportError:
        skip("hvac at ldap: it is not installed")

    done("POST", "sys/auth/ldap/tune", {"user_lockout_config": {"lockout_disable": False, "lockout_threshold": "5", "lockout_duration": "5m", "lockout_counter_reset": "5m"}})
    for one in ("bob", "BOB", " bob", "bob ", "Bob"):
        login(one, "wrong")
    check(login("bob", "bobpw")[0] == 403, "wrong passwords under five spellings lock one user")
    check(login("alice", "alicepw")[0] == 200, "and nobody else")
    locked = done("GET", "sys/locked-users")["data"]
    check(locked["total"] == 1 and "cn=bob (b)," in json.dumps(locked), f"who is locked out is told by the name of the entry: {json.dumps(locked)[:300]}")
    accessor = locked["by_namespace"][0]["mount_accessors"][0]["mount_accessor"]
    done("POST", f"sys/locked-users/{accessor}/unlock/" + urllib.parse.quote(f"cn=bob (b),{PEOPLE}", safe=""))
    check(login("bob", "bobpw")[0] == 200, "and let in again by it")
    done("POST", "sys/auth/ldap/tune", {"user_lockout_config": {"lockout_disable": True}})


def element(tag, content):
    return bytes([tag, 0x84]) + len(content).to_bytes(4, "big") + content


def nested_page(depth):
    """The end of a bind with a control of paged results whose value is nested this deep."""
    value = b"".join(b"\x30\x84" + (6 * inside).to_bytes(4, "big") for inside in reversed(range(depth)))
    control = element(0x30, element(0x04, b"1.2.840.113556.1.4.319") + element(0x04, value))
    return element(0x30, b"\x02\x01\x01" + element(0x61, b"\x0a\x01\x00\x04\x00\x04\x00") + element(0xa0, control))


def hang_walk(directory):
    """A directory that takes connections and says nothing, and one that says nonsense."""
    hung = socket.socket()
    hung.bind(("127.0.0.1", 0))
    hung.listen(64)
    done("POST", "sys/auth/hung", {"type": "ldap"})
    done("POST", "auth/hung/config", {"url": f"ldap://127.0.0.1:{hung.getsockname()[1]}", "userdn": PEOPLE, "userattr": "uid", "connection_timeout": 5,
                                      "binddn": f"cn=binder,{BASE}", "bindpass": "binderpw", "request_timeout": 10})
    done("POST", "secret/data/hang", {"data": {"a": "b"}})

    def p99():
        times = []
        for _ in range(300):
            begun = time.perf_counter()
            done("GET", "secret/data/hang")
            times.append(time.perf_counter() - begun)
        return sorted(times)[297] * 1000

    def reads():
        """The best of three: what the directory delays is slow each time, and what the machine delays is not."""
        return min(p99() for _ in range(3))

    # Whether they are any slower is the question of far_end_hangs.py, beside which nothing runs: this machine has other work.
    before = reads()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        asked = [pool.submit(ask, "POST", "auth/hung/login/alice", {"password": "alicepw"}) for _ in range(32)]
        time.sleep(0.3)
        during = reads()
        begun = time.time()
        code = login("alice", "alicepw")[0]
        took = time.time() - begun
        codes = {one.result()[0] for one in asked}
    check(during < 1000, f"reads of KV beside 32 logins that hang: p99 {during:.1f} ms, {before:.1f} ms without")
    check(code == 200 and took < 5, f"another directory logs in meanwhile, in {took:.2f} s")
    check(codes == {503}, f"who asks the one that hangs is told so: {codes}")
    hung.close()

    answers = [b"\x30\x84\xff\xff\xff\xff", b"HTTP/1.0 400 Bad\r\n\r\n", b"\x30\x80" * 4096, b"\x30\x03\x02\x01\x01", b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x01\xff\x04\x00",
               # An entry for a bind, the end of a bind for another request, and a nested value of the control of paged results.
               b"\x30\x0c\x02\x01\x01\x64\x07\x04\x03abc\x30\x00", b"\x30\x0c\x02\x01\x07\x61\x07\x0a\x01\x00\x04\x00\x04\x00", nested_page(100_000)]
    liar = socket.socket()
    liar.bind(("127.0.0.1", 0))
    liar.listen(64)

    def lie():
        for answer in answers:
            with liar.accept()[0] as peer:
                peer.recv(4096)
                peer.sendall(answer)
                time.sleep(0.2)

    done("POST", "auth/hung/config", {"url": f"ldap://127.0.0.1:{liar.getsockname()[1]}"})
    lying = threading.Thread(target=lie, daemon=True)
    lying.start()
    told = []
    for _ in answers:
        code, answer = ask("POST", "auth/hung/login/alice", {"password": "alicepw"})
        told.append(code)
        # Longer than the circuit breaker is open: each answer is heard.
        time.sleep(4.5)
    lying.join(30)
    liar.close()
    check(not lying.is_alive() and ask("GET", "sys/health")[0] == 200, "each lie is told, and the server is there")
    check(set(told) == {503}, f"a directory that speaks no LDAP is told of: {told}")
    done("DELETE", "sys/auth/hung")

    directory.stop()
    code, answer = login("alice", "alicepw")
    check(code == 503 and "refused" in str(answer), f"a directory that is gone is told: {str(answer)[:160]}")
    check(reads() < 1000, "and delays no read")
    directory.start()
    for _ in range(300):
        if login("alice", "alicepw")[0] == 200:
            break
        time.sleep(0.1)
    check(login("alice", "alicepw")[0] == 200, "and logs in when it is back")


def secrets_walk(directory):
    done("POST", "sys/mounts/ldap", {"type": "ldap"})
    done("POST", "sys/mounts/openldap", {"type": "openldap"})
    done("DELETE", "sys/mounts/openldap")
    code, answer = ask("GET", "ldap/creds/d")
    check(code == 400 and "unknown role: d" in str(answer), "a role that is not there is told")
    done("POST", "ldap/config", {"binddn": f"cn=manager,{BASE}", "bindpass": "managerpw", "url": directory.url(), "userdn": PEOPLE, "userattr": "cn"})
    read = done("GET", "ldap/config")
    check("managerpw" not in json.dumps(read) and read["data"]["schema"] == "openldap", "the configuration is read without its password")

    done("POST", "ldap/static-role/s1", {"username": "svc1", "dn": f"cn=svc1,{PEOPLE}", "rotation_period": "24h"})
    first = done("GET", "ldap/static-cred/s1")["data"]
    check(directory.logs_in(first["dn"], first["password"]) and not directory.logs_in(first["dn"], "old1") and first["last_password"] == "",
          "ldapwhoami logs in with the password of a static role, and not with the one before")
    done("POST", "ldap/rotate-role/s1")
    second = done("GET", "ldap/static-cred/s1")["data"]
    check(second["last_password"] == first["password"] and directory.logs_in(second["dn"], second["password"]) and second["ttl"] > 86000, "rotate-role changes it")
    done("POST", "ldap/static-role/s1", {"rotation_period": "5s"})
    for _ in range(600):
        third = done("GET", "ldap/static-cred/s1")["data"]
        if third["password"] != second["password"]:
            break
        time.sleep(0.1)
    check(third["password"] != second["password"] and directory.logs_in(third["dn"], third["password"]), "it changes by itself")
    for body in ({"username": "svc1", "rotation_period": "1h"}, {"username": "other", "dn": f"CN=svc1,{PEOPLE}", "rotation_period": "1h"}):
        code, answer = ask("POST", "ldap/static-role/s2", body)
        if code != 400 or "already managed" not in str(answer):
            raise SystemExit(f"{body}: {code} {answer}")
    ok("an entry belongs to one static role, by whatever name")
    code, answer = ask("POST", "ldap/static-role/s2", {"username": "*", "rotation_period": "1h"})
    check(code == 400 and "found none" in str(answer), "a name that is a pattern finds no entry")
    code, answer = ask("POST", "ldap/static-role/s2", {"username": "x", "dn": f"cn=nobody,{PEOPLE}", "rotation_period": "1h"})
    check(code == 400 and "noSuchObject" in str(answer) and ask("GET", "ldap/static-role/s2")[0] == 404, "an entry that is not there leaves no role")
    for body in ({"username": "x", "dn": f"CN=Manager, {BASE}", "rotation_period": "1h"}, {"username": "x", "dn": f"cn=man\\61ger,{BASE}", "rotation_period": "1h"}):
        code, answer = ask("POST", "ldap/static-role/s2", body)
        if code != 400 or "is the binddn" not in str(answer):
            raise SystemExit(f"{body}: {code} {answer}")
    ok("the entry of binddn belongs to no static role, however it is spelled")
    code, answer = ask("POST", "ldap/static-role/s2", {"username": "other", "dn": f"cn=s\\76c1,{PEOPLE}", "rotation_period": "1h"})
    check(code == 400 and "already managed" in str(answer), "an escaped name is the same name")
    done("POST", "ldap/static-role/s3", {"username": "svc2", "rotation_period": "24h", "skip_import_rotation": True})
    check(directory.logs_in(f"cn=svc2,{PEOPLE}", "old2"), "skip_import_rotation leaves the password")
    done("DELETE", "ldap/static-role/s1")
    done("DELETE", "ldap/static-role/s3")

    role = {"creation_ldif": CREATION, "deletion_ldif": DELETION, "rollback_ldif": DELETION, "default_ttl": "1h", "max_ttl": "24h"}
    for bad in ({"creation_ldif": "nonsense"}, {"deletion_ldif": ""}, {"creation_ldif": CREATION.replace(".Username", ".Nope")}, {"username_template": "{{"},
                {"username_template": "v-{{.RoleName}}"}, {"deletion_ldif": DELETION.replace("ou=people", "ou=peopel")},
                {"creation_ldif": CREATION.replace("dn: cn={{.Username}}", "dn: cn=fixed")}):
        code, answer = ask("POST", "ldap/role/d", {**role, **bad})
        if code != 400 or ask("GET", "ldap/role/d")[0] != 404:
            raise SystemExit(f"{bad}: {code} {answer}")
    ok("LDIF that cannot be read, leaves entries or names others, and names that come twice, are refused when they are written")
    done("POST", "ldap/role/d", role)
    made = done("GET", "ldap/creds/d")
    dn, password = made["data"]["distinguished_names"][0], made["data"]["password"]
    check(made["data"]["username"].startswith("v_token_d_") or made["data"]["username"].startswith("v_root_d_"), f"a name says who and for what: {made['data']['username']}")
    check(directory.logs_in(dn, password), "ldapwhoami logs in with what was made")
    done("PUT", "sys/leases/renew", {"lease_id": made["lease_id"], "increment": "2h"})
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    check(not directory.logs_in(dn, password) and directory.count("v_*") == 0, "and not after revocation: the entry is gone")
    made = done("GET", "ldap/creds/d")
    directory.tool("ldapdelete", f"cn=admin,{BASE}", "adminpw", made["data"]["distinguished_names"][0])
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    ok("an entry that somebody else deleted is a success")
    broken = CREATION + "\ndn: cn={{.Username}}-2," + PEOPLE + "\nobjectClass: nonsense\ncn: x\n"
    done("POST", "ldap/role/half", {**role, "creation_ldif": broken, "deletion_ldif": DELETION + "\n" + DELETION.replace("}},", "}}-2,")})
    code, answer = ask("GET", "ldap/creds/half")
    check(code == 400 and directory.count("v_*") == 0, f"a creation that fails half-way is taken back: {str(answer)[:200]}")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    done("POST", "ldap/role/taken", {**role, "username_template": "taken_{{random 1 | lowercase}}"})
    directory.change("".join(f"dn: cn=taken_{one},{PEOPLE}\nchangetype: add\nobjectClass: person\ncn: taken_{one}\nsn: x\n\n" for one in letters))
    before = directory.count("taken_*")
    for _ in range(5):
        code, answer = ask("GET", "ldap/creds/taken")
        if code != 400 or "entryAlreadyExists" not in str(answer):
            raise SystemExit(f"{code} {answer}")
    time.sleep(1.5)
    check(directory.count("taken_*") == before == 36, f"entries that were there before are left alone: {before}")
    check(ask("GET", "sys/leases/lookup/ldap/creds/taken?list=true")[0] == 404, "and no lease is left of them")
    name = "x\ndn: cn=admin," + BASE + "\n,*)(\\"
    child = done("POST", "auth/token/create", {"display_name": name, "policies": ["root"]})["auth"]["client_token"]
    made = done("GET", "ldap/creds/d", token=child)
    made_dn = made["data"]["distinguished_names"]
    check(len(made_dn) == 1 and made_dn[0].endswith(f",{PEOPLE}") and directory.logs_in(made_dn[0], made["data"]["password"]) and directory.count("v_*") == 1
          and directory.logs_in(f"cn=admin,{BASE}", "adminpw"), f"whoever has LDIF in their name gets an entry, and nothing else happens: {made['data']['distinguished_names'][0]}")
    done("POST", "auth/token/revoke", {"token": child})
    for _ in range(600):
        if directory.count("v_*") == 0:
            break
        time.sleep(0.1)
    check(directory.count("v_*") == 0, "the end of a token deletes its entries")

    library_walk(directory)
    schemas_walk(directory)
    directory.stop()
    code, answer = ask("POST", "ldap/rotate-root")
    check(code == 503 and "both passwords are kept" in str(answer), f"a change of the root password that is not heard of keeps both: {str(answer)[:160]}")
    code, answer = ask("POST", "ldap/config", {"bindpass": "other"})
    check(code == 503 and "is being changed" in str(answer), "and bindpass stays as long")
    directory.start()
    for _ in range(300):
        if ask("POST", "ldap/rotate-root")[0] == 204:
            break
        time.sleep(0.1)
    check(not directory.logs_in(f"cn=manager,{BASE}", "managerpw") and "managerpw" not in json.dumps(done("GET", "ldap/config")), "rotate-root changes the password of binddn")
    made = done("GET", "ldap/creds/d")
    check(directory.logs_in(made["data"]["distinguished_names"][0], made["data"]["password"]), "and entries are made as before")
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    if BAO:
        said = subprocess.run([BAO, "read", "-format=json", "ldap/creds/d"], capture_output=True, text=True, timeout=60)
        data = json.loads(said.stdout)
        check(directory.logs_in(data["data"]["distinguished_names"][0], data["data"]["password"]), "bao read ldap/creds/d")
        done("PUT", "sys/leases/revoke", {"lease_id": data["lease_id"], "sync": True})


def schemas_walk(directory):
    """Passwords as Active Directory and RACF want them, in a directory that keeps the bytes."""
    if not directory.has_tls:
        skip("ldap: schemas of others: openssl is not installed")
        return
    pem = (WORK / "ca.pem").read_text()
    for schema in ("ad", "racf"):
        dn = f"cn=of-{schema},{PEOPLE}"
        directory.change(f"dn: {dn}\nchangetype: add\nobjectClass: inetOrgPerson\nobjectClass: foreignPerson\ncn: of-{schema}\nsn: x\n")
        done("POST", f"sys/mounts/ldap-{schema}", {"type": "ldap"})
        config = {"binddn": f"cn=admin,{BASE}", "bindpass": "adminpw", "userdn": PEOPLE, "userattr": "cn", "schema": schema}
        done("POST", f"ldap-{schema}/config", {**config, "url": f"ldaps://127.0.0.1:{directory.tls_port}", "certificate": pem})
        done("POST", f"ldap-{schema}/static-role/s", {"username": f"of-{schema}", "dn": dn, "rotation_period": "24h"})
        password = done("GET", f"ldap-{schema}/static-cred/s")["data"]["password"]
        if schema == "ad":
            # [MS-ADTS] 3.1.1.3.1.5.1: UTF-16, little-endian, within quotes.
            wanted = b'"\0' + b"".join(bytes([letter, 0]) for letter in password.encode()) + b'"\0'
            check(directory.value(dn, "unicodePwd") == wanted, "ad: unicodePwd is the password in quotes, as UTF-16")
        else:
            check(directory.value(dn, "racfPassword") == password.encode() and directory.value(dn, "racfAttributes") == b"noexpired",
                  "racf: racfPassword is the password, and it has not expired")
        check(directory.value(dn, "userPassword") is None, f"{schema}: nothing else is set")
        done("POST", f"ldap-{schema}/rotate-role/s")
        again = done("GET", f"ldap-{schema}/static-cred/s")["data"]
        check(again["last_password"] == password and again["password"] != password, f"{schema}: rotate-role changes it")
        done("DELETE", f"sys/mounts/ldap-{schema}")


def library_walk(directory):
    done("POST", "ldap/library/set", {"service_account_names": "svc1,svc2", "ttl": "1h", "max_ttl": "20h"})
    check(not directory.logs_in(f"cn=svc1,{PEOPLE}", "old1") and not directory.logs_in(f"cn=svc2,{PEOPLE}", "old2"), "accounts of a set get other passwords")
    code, answer = ask("POST", "ldap/static-role/s1", {"username": "svc1", "rotation_period": "1h"})
    check(code == 400 and "already managed" in str(answer), "and belong to no static role")
    one = done("POST", "ldap/library/set/check-out", {"ttl": "30m"})
    two = done("POST", "ldap/library/set/check-out", {"ttl": "100h"})
    check(one["lease_duration"] == 1800 and two["lease_duration"] == 3600, "an account is lent for no longer than its set says")
    for lent in (one, two):
        if not directory.logs_in(f"cn={lent['data']['service_account_name']},{PEOPLE}", lent["data"]["password"]):
            raise SystemExit("a lent account does not log in")
    before = done("GET", "ldap/library/set")["data"]
    code, answer = ask("POST", "ldap/library/set", {"service_account_names": "svc1,svc2,nobody"})
    check(code == 400 and done("GET", "ldap/library/set")["data"] == before, "a write that fails leaves the set as it was")
    code, answer = ask("POST", "ldap/library/set", {"service_account_names": "svc1,svc3"})
    check(code == 400 and "checked out" in str(answer) and done("GET", "ldap/library/set")["data"] == before
          and all(directory.logs_in(f"cn={lent['data']['service_account_name']},{PEOPLE}", lent["data"]["password"]) for lent in (one, two)),
          "one that is lent cannot be replaced, and what is lent logs in as before")
    code, answer = ask("POST", "ldap/library/set/check-out")
    check(code == 400 and "No service accounts available for check-out." in str(answer), "there are no more than there are")
    status = done("GET", "ldap/library/set/status")["data"]
    check([state["available"] for state in status.values()] == [False, False], "the status says so")
    code, answer = ask("POST", "ldap/library/set/check-in", {})
    check(code == 400 and "when multiple service accounts are checked out" in str(answer), "which one comes back has to be said")
    name = one["data"]["service_account_name"]
    check(done("POST", "ldap/library/set/check-in", {"service_account_names": [name]})["data"]["check_ins"] == [name], "one is given back")
    check(not directory.logs_in(f"cn={name},{PEOPLE}", one["data"]["password"]), "and its password is no good any more")
    done("PUT", "sys/policies/acl/lib", {"policy": 'path "ldap/library/*" { capabilities=["create","read","update"] }'})
    lent, other = (done("POST", "auth/token/create", {"policies": ["lib"]})["auth"]["client_token"] for _ in range(2))
    borrowed = done("POST", "ldap/library/set/check-out", {}, token=lent)["data"]["service_account_name"]
    code, answer = ask("POST", "ldap/library/set/check-in", {"service_account_names": [borrowed]}, token=other)
    check(code == 400 and "checked in because it wasn" in str(answer), f"nobody gives back what another borrowed: {code} {answer}")
    code, answer = ask("DELETE", "ldap/library/set")
    check(code == 400 and "checked out" in str(answer), "a set with lent accounts stays")
    check(done("POST", "ldap/library/manage/set/check-in", {"service_account_names": ["svc1", "svc2"]})["data"]["check_ins"] == ["svc1", "svc2"], "by force all come back")
    done("PUT", "sys/leases/revoke-prefix/ldap/library", {"sync": True})
    lease = done("POST", "ldap/library/set/check-out", {})
    done("PUT", "sys/leases/revoke", {"lease_id": lease["lease_id"], "sync": True})
    check(all(state["available"] for state in done("GET", "ldap/library/set/status")["data"].values()), "the end of a lease gives it back")
    done("POST", "ldap/library/set", {"service_account_names": "svc1,svc2,svc3"})
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: ask("POST", "ldap/library/set/check-out", {}), range(64)))
    names = [answer["data"]["service_account_name"] for code, answer in answers if code == 200]
    check(sorted(names) == ["svc1", "svc2", "svc3"] and all(code in (200, 400) for code, _ in answers), "64 who borrow at once get three accounts, each once")
    done("PUT", "sys/leases/revoke-prefix/ldap/library", {"sync": True})
    code, answer = ask("POST", "ldap/library/none/check-out", {})
    check(code == 400 and "t exist" in str(answer), "a set that is not there is told")
    done("POST", "ldap/library/set", {"service_account_names": "svc1"})
    done("DELETE", "ldap/library/set")
    code, _ = ask("POST", "ldap/static-role/s1", {"username": "svc1", "rotation_period": "1h"})
    check(code == 204, "and its accounts are free again")
    done("DELETE", "ldap/static-role/s1")


def crash_walk(directory):
    """SIGKILL while entries are made and passwords change: afterwards there is no entry without a lease, and what is stored logs in."""
    place, port = WORK / "data", free_port()
    place.mkdir()
    config = WORK / "server.hcl"
    config.write_text(f'storage "raft" {{\n path = "{place}"\n node_id = "one"\n}}\nlistener "tcp" {{\n address = "127.0.0.1:{port}"\n '
                      f'tls_disable = true\n}}\napi_addr = "http://127.0.0.1:{port}"\ncluster_addr = "http://127.0.0.1:{free_port()}"\ndisable_mlock = true\n')
    address = f"http://127.0.0.1:{port}"

    def run():
        # A client that connects to a port where nobody listens may get that very port for itself, and keep it for a moment.
        for _ in range(20):
            process = start([BINARY, "server", f"-config={config}"], WORK / "server.log", cwd=WORK)
            if is_listening(port, process):
                return process
            time.sleep(0.5)
        raise SystemExit(f"the server does not listen: {(WORK / 'server.log').read_text()[-2000:]}")

    global TOKEN
    own = TOKEN
    process = run()
    keys = done("POST", "sys/init", {"secret_shares": 1, "secret_threshold": 1}, address=address)
    TOKEN = keys["root_token"]

    def unseal():
        done("POST", "sys/unseal", {"key": keys["keys"][0]}, address=address)
        for _ in range(600):
            if ask("GET", "sys/leader", address=address)[1].get("is_self"):
                return
            time.sleep(0.1)

    unseal()
    done("POST", "sys/mounts/ldap", {"type": "ldap"}, address=address)
    directory.change(f"dn: cn=manager,{BASE}\nchangetype: modify\nreplace: userPassword\nuserPassword: managerpw2\n")
    done("POST", "ldap/config", {"binddn": f"cn=manager,{BASE}", "bindpass": "managerpw2", "url": directory.url(), "userdn": PEOPLE}, address=address)
    done("POST", "ldap/role/d", {"creation_ldif": CREATION, "deletion_ldif": DELETION, "default_ttl": "1h"}, address=address)
    done("POST", "ldap/static-role/s1", {"username": "svc1", "rotation_period": "5s"}, address=address)
    made, kills, rotations = 0, 0, 0
    stop = threading.Event()

    def make():
        count = 0
        while not stop.is_set():
            try:
                count += ask("GET", "ldap/creds/d", address=address, timeout=10)[0] == 200
            except (OSError, ValueError):
                time.sleep(0.05)
        return count

    def rotate():
        count = 0
        while not stop.is_set():
            try:
                count += ask("POST", "ldap/rotate-role/s1", address=address, timeout=10)[0] == 204
                count += ask("POST", "ldap/rotate-root", address=address, timeout=10)[0] == 204
            except (OSError, ValueError):
                time.sleep(0.05)
        return count

    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        makers = [pool.submit(make) for _ in range(8)]
        rotator = pool.submit(rotate)
        while kills < 5 or directory.count("v_*") < CREATIONS:
            time.sleep(0.5 + 0.13 * (kills % 5))
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            process = run()
            unseal()
            if kills > 100:
                break
        stop.set()
        made, rotations = sum(one.result() for one in makers), rotator.result()

    def counts():
        listed = ask("GET", "sys/leases/lookup/ldap/creds/d?list=true", address=address)[1]
        return directory.count("v_*"), len(listed.get("data", {}).get("keys", []))

    entries, leases = counts()
    ok(f"{kills} kills, {made} answers, {rotations} rotations, {entries} entries and {leases} leases at once after")
    for _ in range(150):
        entries, leases = counts()
        if entries == leases:
            break
        time.sleep(1)
    check(entries == leases, f"{entries} entries and {leases} leases: none without the other")
    for _ in range(90):
        stored = done("GET", "ldap/static-cred/s1", address=address)["data"]
        # Looked at once: it changes every few seconds.
        is_good = directory.logs_in(stored["dn"], stored["password"])
        if is_good:
            break
        time.sleep(1)
    check(is_good, "the password of the static role that is stored logs in")
    done("PUT", "sys/leases/revoke-prefix/ldap/creds/d", {"sync": True}, address=address, timeout=120)
    # Those whose creation a kill cut off are rolled back by the clock, with the record that each has.
    for _ in range(150):
        if counts() == (0, 0):
            break
        time.sleep(1)
    check(counts() == (0, 0), f"and none once all are revoked, by the password of binddn that is stored: {counts()}")
    process.kill()
    process.wait()
    TOKEN = own


def main():
    if not SLAPD or not shutil.which("ldapwhoami"):
        skip("ldap: slapd is not installed (slapd, ldap-utils)")
        return
    directory = Directory(WORK)
    auth_walk(directory)
    hang_walk(directory)
    secrets_walk(directory)
    crash_walk(directory)


try:
    main()
finally:
    end_all(WORK)
