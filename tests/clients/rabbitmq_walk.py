"""Drives the engine for RabbitMQ against a broker of this machine, and logs in to it with what was issued by rabbitmqctl and its HTTP API.

  rabbitmq_walk.py [BAO]

Starts a broker in a folder of its own with ports of its own, and ends it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

from far_ends.processes import check, make_folder, ok, skip
from far_ends.rabbitmq import BIN, Broker

BAO = sys.argv[1] if len(sys.argv) > 1 else None
WORK = make_folder("rabbitmq-walk-")
ADDRESS = os.environ.get("VAULT_ADDR", "")
TOKEN = os.environ.get("VAULT_TOKEN", "root")


def ask(method, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", data, method=method)
    request.add_header("X-Vault-Token", TOKEN)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else {}
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else {}


def done(method, path, body=None):
    code, answer = ask(method, path, body)
    if code not in (200, 204):
        raise SystemExit(f"{method} {path}: {code} {answer}")
    return answer


def walk(broker):
    uri = f"http://127.0.0.1:{broker.port}"
    done("POST", "sys/mounts/rabbitmq", {"type": "rabbitmq"})
    code, answer = ask("POST", "rabbitmq/config/connection", {})
    check(code == 400 and "missing connection_uri" in str(answer), "a connection says what is missing")
    code, answer = ask("POST", "rabbitmq/config/connection", {"connection_uri": uri, "username": "guest", "password": "wrong-canary"})
    check(code == 400 and "401" in str(answer) and "wrong-canary" not in str(answer), f"a login that the broker refuses is told: {answer}")
    done("POST", "rabbitmq/config/connection", {"connection_uri": uri, "username": "guest", "password": "guest"})
    check(ask("GET", "rabbitmq/config/connection")[0] == 405, "a connection cannot be read")
    done("POST", "rabbitmq/config/lease", {"ttl": "1h", "max_ttl": "24h"})
    for bad in ({"vhosts": "x"}, {"vhosts": {"/": {"admin": ".*"}}}, {}):
        code, answer = ask("POST", "rabbitmq/roles/r", bad)
        if code != 400:
            raise SystemExit(f"{bad}: {code} {answer}")
    ok("a role that cannot be is refused")
    done("POST", "rabbitmq/roles/r", {"tags": "management", "vhosts": '{"/":{"configure":".*","write":".*","read":".*"}}',
                                      "vhost_topics": '{"/":{"amq.topic":{"write":".*","read":".*"}}}'})
    made = done("GET", "rabbitmq/creds/r")
    user, password = made["data"]["username"], made["data"]["password"]
    check(made["lease_duration"] == 3600 and made["renewable"], "a user comes with a lease")
    check(broker.ctl("authenticate_user", user, password).returncode == 0, f"rabbitmqctl authenticate_user {user}")
    who = broker.api(user, password, "whoami")[1]
    check(who["name"] == user and "management" in str(who["tags"]), "the user has the tags of the role")
    rights = broker.api("guest", "guest", f"users/{user}/permissions")[1]
    check([(one["vhost"], one["configure"], one["write"], one["read"]) for one in rights] == [("/", ".*", ".*", ".*")], "and its permissions")
    topics = broker.api("guest", "guest", f"users/{user}/topic-permissions")[1]
    check([(one["exchange"], one["write"]) for one in topics] == [("amq.topic", ".*")], "and those of topics")
    done("PUT", "sys/leases/renew", {"lease_id": made["lease_id"], "increment": "2h"})
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    check(broker.ctl("authenticate_user", user, password).returncode != 0, "after revocation it does not log in")
    check(broker.api("guest", "guest", f"users/{user}")[0] == 404, "and is gone")
    done("POST", "rabbitmq/roles/bad", {"tags": "management", "vhosts": {"nowhere": {"read": ".*"}}})
    before = len(broker.api("guest", "guest", "users")[1])
    code, answer = ask("GET", "rabbitmq/creds/bad")
    after = len(broker.api("guest", "guest", "users")[1])
    check(code == 400 and before == after, f"a user whose permissions are refused is taken back: {answer}")
    connection = {"connection_uri": uri, "username": "guest", "password": "guest"}
    code, answer = ask("POST", "rabbitmq/config/connection", {**connection, "username_template": "u-{{.RoleName}}"})
    check(code == 400 and "same name each time" in str(answer), "a template that makes one name for all is refused")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    for one in letters:
        if broker.api("guest", "guest", f"users/taken-{one}", {"password": f"own-{one}", "tags": ""})[0] not in (201, 204):
            raise SystemExit("a user was not made")
    done("POST", "rabbitmq/config/connection", {**connection, "username_template": "taken-{{random 1 | lowercase}}"})
    for _ in range(5):
        code, answer = ask("GET", "rabbitmq/creds/r")
        if code != 400 or "already" not in str(answer):
            raise SystemExit(f"{code} {answer}")
    time.sleep(1.5)
    known = {one["name"] for one in broker.api("guest", "guest", "users")[1]}
    check(known >= {f"taken-{one}" for one in letters}, "users that were there before are left alone")
    check(broker.ctl("authenticate_user", "taken-a", "own-a").returncode == 0, "with their passwords")
    check(ask("GET", "sys/leases/lookup/rabbitmq/creds/r?list=true")[0] == 404, "and no lease is left of them")
    for one in letters:
        broker.api("guest", "guest", f"users/taken-{one}", method="DELETE")
    done("POST", "rabbitmq/config/connection", connection)
    made = done("GET", "rabbitmq/creds/r")
    broker.ctl("delete_user", made["data"]["username"])
    done("PUT", "sys/leases/revoke", {"lease_id": made["lease_id"], "sync": True})
    ok("a user that somebody else deleted is a success")
    if BAO:
        said = subprocess.run([BAO, "read", "-format=json", "rabbitmq/creds/r"], capture_output=True, text=True, timeout=60)
        data = json.loads(said.stdout)["data"]
        check(broker.ctl("authenticate_user", data["username"], data["password"]).returncode == 0, "bao read rabbitmq/creds/r")
        done("PUT", "sys/leases/revoke-prefix/rabbitmq/creds/r", {"sync": True})
        check(len(broker.api("guest", "guest", "users")[1]) == before, "revoke-prefix leaves none")
    done("DELETE", "rabbitmq/roles/r")
    done("DELETE", "rabbitmq/roles/none")
    told = [one for one in done("GET", "sys/kallisto/far-ends?try=true")["data"]["far_ends"] if one["mount"] == "rabbitmq/"]
    check(len(told) == 1 and told[0]["protocol"] == "http" and told[0]["answers"] and told[0]["calls"] > 10, f"the far ends have the broker: {told}")
    broker.stop()
    begun = time.time()
    done("POST", "rabbitmq/roles/r", {"tags": "management"})
    code, answer = ask("GET", "rabbitmq/creds/r")
    check(code == 503 and time.time() - begun < 30, f"a broker that is gone is told: {answer}")
    told = [one for one in done("GET", "sys/kallisto/far-ends?try=true")["data"]["far_ends"] if one["mount"] == "rabbitmq/"]
    check(not told[0]["answers"] and told[0]["error"], f"by the far ends too: {told}")


if not (BIN / "rabbitmq-server").exists():
    skip("rabbitmq: RabbitMQ is not installed (rabbitmq-server)")
    raise SystemExit(0)
broker = Broker(WORK)
try:
    walk(broker)
finally:
    if broker.process.poll() is None:
        broker.stop()
    shutil.rmtree(WORK, ignore_errors=True)
