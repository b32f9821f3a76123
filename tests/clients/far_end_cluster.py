"""Three servers, of which the leader is killed while a follower's request is at the far end: databases, directories, brokers, clusters, second factors.

  far_end_cluster.py KALLISTO_BINARY [ENGINE...]

In a round a follower takes requests, and at a piece on the wire to the far end, drawn by a seed, the leader is killed by SIGKILL. It is started again
once another leads. At the end there are as many users as leases, what was told is there, what is stored logs in, and all leases are revoked while the
leader is killed once more: nothing is left then.

FAR_END_KILLS says how many leaders are killed an engine, 5 when nobody says; FAR_END_SEED is the seed. KALLISTO_LEDGER names a file that gets a line
an engine; tests/LEDGER.md has the runs that count.
"""

import base64
import concurrent.futures
import datetime
import hashlib
import hmac
import os
import random
import shutil
import struct
import sys
import threading
import time
import urllib.parse

from far_ends import kubernetes, rabbitmq, slapd
from far_ends.postgresql import ROOT, ROOT_PASSWORD, Postgres
from far_ends.processes import check, end_all, find_tool, make_folder, ok, skip, until
from far_ends.servers import Cluster
from far_ends.tap import Tap

BINARY = os.path.realpath(sys.argv[1])
ENGINES = sys.argv[2:]
KILLS = int(os.environ.get("FAR_END_KILLS", "5"))
SEED = int(os.environ.get("FAR_END_SEED", random.randrange(1 << 32)))
# How many steps are drawn from, by how many pieces are usual: some are past the last one.
PAST = 1.2
# How long what a kill left may take: an intent is rolled back after a minute, a rotation is taken up after one.
RECOVERY_SECS = 200


class Scene:
    """An engine and its far end. `made` are those that were told, by lease."""

    prefixes = ()

    def __init__(self, cluster, work):
        self.cluster, self.work, self.made, self.told, self.asked = cluster, work, {}, 0, 0
        self.done = cluster.done
        self.tap = Tap(self.begin())

    def requests(self, _number):
        raise NotImplementedError

    def note(self, request, code, answer):
        self.asked += 1
        self.told += code in (200, 204)
        if code == 200 and answer.get("lease_id"):
            self.made[answer["lease_id"]] = answer["data"]

    def leases(self):
        return {lease for prefix in self.prefixes for lease in self.cluster.leases(prefix)}

    def judge(self):
        """What is at the far end, and the leases: as many of one as of the other, and all that were told."""
        waited = until("as many at the far end as leases", lambda: len(self.there()) == len(self.leases()), RECOVERY_SECS, 1)
        there, leases = self.there(), self.leases()
        check(len(there) == len(leases), f"{self.name}: {len(there)} at the far end and {len(leases)} leases, {waited:.0f} s after")
        wrong = [lease for lease, data in self.made.items() if lease not in leases or not self.is_good(data, there)]
        check(not wrong, f"{self.name}: all {len(self.made)} that were told are there and log in: {wrong[:3]}")
        return len(there), waited

    def emptied(self):
        """All leases end; a leader is killed while they do."""
        leader = self.cluster.wait_for_leader()
        self.tap.arm(3, True, leader.kill)
        for prefix in self.prefixes:
            try:
                self.cluster.follower(leader).ask("PUT", f"sys/leases/revoke-prefix/{prefix}", {}, token=self.cluster.token, timeout=20)
            except (OSError, ValueError):
                pass
        _, killed = self.tap.disarm()
        if not killed:
            leader.kill()
        self.cluster.restart(leader)
        for prefix in self.prefixes:
            self.done("PUT", f"sys/leases/revoke-prefix/{prefix}", {})
        until("nothing is left", lambda: not self.there() and not self.leases(), RECOVERY_SECS, 1)
        wrong = [lease for lease, data in self.made.items() if self.is_good(data, set())]
        check(not wrong, f"{self.name}: revoked while a leader is killed, none is left, and none of {len(self.made)} logs in: {wrong[:3]}")


class Database(Scene):
    name, prefixes = "database", ("database/creds/app",)

    def begin(self):
        self.postgres = Postgres(self.work)
        return self.postgres.port

    def configure(self):
        self.done("POST", "sys/mounts/database", {"type": "database"})
        self.done("POST", "database/config/pg", {"plugin_name": "postgresql-database-plugin", "connection_url": self.postgres.url(self.tap.port),
                                                 "username": ROOT, "password": ROOT_PASSWORD, "allowed_roles": "*"})
        self.done("POST", "database/roles/app", {"db_name": "pg", "creation_statements": "CREATE ROLE \"{{name}}\" WITH LOGIN PASSWORD '{{password}}'", "default_ttl": "24h"})
        for number in range(4):
            self.postgres.sql(f"CREATE ROLE st_{number} LOGIN PASSWORD 'old'")
            self.done("POST", f"database/static-roles/st-{number}", {"db_name": "pg", "username": f"st_{number}", "rotation_period": "24h"})

    def requests(self, number):
        rotation = "rotate-root/pg" if number % 5 == 4 else f"rotate-role/st-{number % 4}"
        return [("GET", "database/creds/app"), ("GET", "database/creds/app"), ("POST", f"database/{rotation}")]

    def there(self):
        return self.postgres.users()

    def is_good(self, data, _there):
        return self.postgres.logs_in(data["username"], data["password"])

    def judge(self):
        for number in range(4):
            password = lambda: self.done("GET", f"database/static-creds/st-{number}")["data"]["password"]
            until("a static password logs in", lambda: self.postgres.logs_in(f"st_{number}", password()), RECOVERY_SECS, 1)
        ok("database: the passwords of static roles that are stored log in")
        return super().judge()


class Ldap(Scene):
    name, prefixes = "ldap", ("ldap/creds/d",)
    library = "ldap/library/set/check-out"
    accounts = ("svc1", "svc2")

    def begin(self):
        self.directory = slapd.Directory(self.work)
        return self.directory.port

    def configure(self):
        self.done("POST", "sys/mounts/ldap", {"type": "ldap"})
        self.done("POST", "ldap/config", {"binddn": f"cn=manager,{slapd.BASE}", "bindpass": "managerpw", "url": f"ldap://127.0.0.1:{self.tap.port}",
                                          "userdn": slapd.PEOPLE, "userattr": "cn"})
        self.done("POST", "ldap/role/d", {"creation_ldif": slapd.CREATION, "deletion_ldif": slapd.DELETION, "rollback_ldif": slapd.DELETION, "default_ttl": "24h"})
        self.done("POST", "ldap/static-role/s3", {"username": "svc3", "rotation_period": "24h"})
        self.done("POST", "ldap/library/set", {"service_account_names": ",".join(self.accounts), "ttl": "24h"})
        self.lent = {}

    def requests(self, number):
        third = ("POST", "ldap/rotate-root") if number % 5 == 4 else ("POST", "ldap/rotate-role/s3")
        # What is lent comes back in the next round.
        lent = sorted(self.cluster.leases(self.library))
        fourth = ("PUT", "sys/leases/revoke", {"lease_id": lent[0], "sync": True}) if lent else ("POST", self.library, {})
        return [("GET", "ldap/creds/d"), third, fourth]

    def note(self, request, code, answer):
        if request[1] != self.library:
            return super().note(request, code, answer)
        self.asked += 1
        self.told += code in (200, 204)
        if code == 200:
            self.lent[answer["lease_id"]] = answer["data"]
        return None

    def there(self):
        return set(range(self.directory.count("v_*")))

    def is_good(self, data, _there):
        return self.directory.logs_in(data["distinguished_names"][0], data["password"])

    def lent_out(self):
        """The accounts that nobody can borrow now."""
        status = self.done("GET", "ldap/library/set/status")["data"]
        return [account for account, one in status.items() if not one["available"]]

    def judge(self):
        stored = lambda: self.done("GET", "ldap/static-cred/s3")["data"]
        until("a static password logs in", lambda: self.directory.logs_in(stored()["dn"], stored()["password"]), RECOVERY_SECS, 1)
        ok("ldap: the password of the static role that is stored logs in")

        until("as many accounts lent as leases", lambda: len(self.lent_out()) == len(self.cluster.leases(self.library)), RECOVERY_SECS, 1)
        good = lambda data: self.directory.logs_in(f"cn={data['service_account_name']},{slapd.PEOPLE}", data["password"])

        def wrong():
            leases = self.cluster.leases(self.library)
            return [lease for lease, data in self.lent.items() if good(data) != (lease in leases)]
        # A return that was cut off is ended within minutes: until then its lease is there, and its password is another already.
        until("those log in that have a lease", lambda: not wrong(), RECOVERY_SECS, 1)
        ok(f"ldap: of {len(self.lent)} accounts that were lent those log in that have a lease, and no others")
        self.done("PUT", f"sys/leases/revoke-prefix/{self.library}", {"sync": True})
        told = [lease for lease, data in self.lent.items() if good(data)]
        check(not told, f"ldap: after revocation none of the {len(self.lent)} that were told logs in: {told}")
        # A loan that a killed leader was making is passed by, since nobody was told of it; the queue ends it a minute after it began.
        until("all are back", lambda: not self.lent_out(), RECOVERY_SECS, 1)
        ok("ldap: and all are back")
        return super().judge()


class RabbitMq(Scene):
    name, prefixes = "rabbitmq", ("rabbitmq/creds/r",)

    def begin(self):
        self.broker = rabbitmq.Broker(self.work)
        return self.broker.port

    def configure(self):
        self.done("POST", "sys/mounts/rabbitmq", {"type": "rabbitmq"})
        self.done("POST", "rabbitmq/config/connection", {"connection_uri": f"http://127.0.0.1:{self.tap.port}", "username": "guest", "password": "guest"})
        self.done("POST", "rabbitmq/config/lease", {"ttl": "24h", "max_ttl": "24h"})
        self.done("POST", "rabbitmq/roles/r", {"tags": "management", "vhosts": '{"/":{"configure":".*","write":".*","read":".*"}}'})

    def requests(self, _number):
        return [("GET", "rabbitmq/creds/r"), ("GET", "rabbitmq/creds/r")]

    def there(self):
        return {one["name"] for one in self.broker.api("guest", "guest", "users")[1]} - {"guest"}

    def is_good(self, data, _there):
        return self.broker.api(data["username"], data["password"], "whoami")[0] == 200


class Kubernetes(Scene):
    name, prefixes = "kubernetes", ("kubernetes/creds/gen",)

    def begin(self):
        self.server = kubernetes.serve(self.work)
        self.before = set(kubernetes.WORLD.objects)
        return self.server.server_address[1]

    def configure(self):
        self.done("POST", "sys/mounts/kubernetes", {"type": "kubernetes"})
        self.done("POST", "kubernetes/config", {"kubernetes_host": f"https://127.0.0.1:{self.tap.port}", "service_account_jwt": kubernetes.JWT,
                                                "kubernetes_ca_cert": (self.work / "ca.pem").read_text()})
        self.done("POST", "kubernetes/roles/gen", {"allowed_kubernetes_namespaces": "*", "token_default_ttl": "12h",
                                                   "generated_role_rules": "rules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list]\n"})

    def requests(self, _number):
        return [("POST", "kubernetes/creds/gen", {"kubernetes_namespace": "test"})] * 2

    def objects(self):
        with kubernetes.WORLD.lock:
            return set(kubernetes.WORLD.objects) - self.before

    def there(self):
        """Names with a role, a binding or an account: one is as much as all three."""
        return {path.rsplit("/", 1)[1] for path in self.objects()}

    def is_good(self, data, _there):
        return sum(path.endswith("/" + data["service_account_name"]) for path in self.objects()) == 3


class SecondFactor(Scene):
    """Logins with a code: the leader is killed between the two steps, and while the code is looked at."""

    name = "mfa"
    # Long enough for a machine that takes its time to elect.
    period, left_min = 600, 60

    def begin(self):
        return 1

    def configure(self):
        self.done("POST", "sys/auth/userpass", {"type": "userpass"})
        self.method = self.done("POST", "identity/mfa/method/totp", {"issuer": "K", "period": self.period, "skew": 0})["data"]["method_id"]
        accessor = self.done("GET", "sys/auth")["data"]["userpass/"]["accessor"]
        self.keys = []
        for number in range(KILLS + 1):
            self.done("POST", f"auth/userpass/users/u{number}", {"password": "pw"})
            entity = self.done("POST", f"auth/userpass/login/u{number}", {"password": "pw"})["auth"]["entity_id"]
            url = self.done("POST", "identity/mfa/method/totp/admin-generate", {"method_id": self.method, "entity_id": entity})["data"]["url"]
            self.keys.append(urllib.parse.parse_qs(urllib.parse.urlparse(url).query)["secret"][0])
        self.done("POST", "identity/mfa/login-enforcement/two", {"mfa_method_ids": [self.method], "auth_method_accessors": [accessor]})

    def code(self, number):
        """The code of now; waits where its period is about to end."""
        while self.period - time.time() % self.period < self.left_min:
            time.sleep(0.5)
        secret = self.keys[number]
        key = base64.b32decode(secret + "=" * (-len(secret) % 8))
        mac = hmac.new(key, struct.pack(">Q", int(time.time()) // self.period), hashlib.sha1).digest()
        return f"{(struct.unpack_from('>I', mac, mac[-1] & 15)[0] & 0x7fffffff) % 1000000:06}"

    def log_in(self, server, number):
        return server.ask("POST", f"auth/userpass/login/u{number}", {"password": "pw"})[1]["auth"]["mfa_requirement"]["mfa_request_id"]

    def validate(self, server, request, code):
        return server.ask("POST", "sys/mfa/validate", {"mfa_request_id": request, "mfa_payload": {self.method: [code]}}, timeout=20)

    def again(self, request, code):
        """By whoever leads now."""
        for _ in range(20):
            try:
                return self.validate(self.cluster.wait_for_leader(), request, code)
            except (OSError, ValueError):
                continue
        raise SystemExit("mfa: no answer")

    def round(self, number, draw):
        leader = self.cluster.wait_for_leader()
        follower = self.cluster.follower(leader, number)
        request, code, tokens = self.log_in(follower, number), self.code(number), []
        self.asked += 1
        if number % 2 == 0:
            leader.kill()
        else:
            threading.Timer(draw.random() * 0.02, leader.kill).start()
            try:
                tokens.append(self.validate(follower, request, code))
            except (OSError, ValueError):
                pass
            until("the leader is dead", lambda: leader.process.poll() is not None, 30)
        tokens.append(self.again(request, code))
        another = self.log_in(self.cluster.wait_for_leader(), number)
        tokens.append(self.again(another, code))
        self.cluster.restart(leader)
        good = [answer["auth"]["client_token"] for status, answer in tokens if status == 200]
        if len(good) != 1 and not (number % 2 == 1 and not good):
            raise SystemExit(f"mfa: {len(good)} tokens by one code: {tokens}")
        if number % 2 == 0 and tokens[0][0] != 200:
            raise SystemExit(f"mfa: a login does not go on after its leader was killed: {tokens[0]}")
        self.told += len(good)
        self.lost = getattr(self, "lost", 0) + (not good)
        for token in good:
            for server in self.cluster.servers:
                until("the token is good at every server", lambda: server.ask("GET", "auth/token/lookup-self", token=token)[0] == 200, 60)


def run_round(scene, number, draw, usual):
    leader = scene.cluster.wait_for_leader()
    follower = scene.cluster.follower(leader, number)
    requests = scene.requests(number)

    def send(request):
        try:
            return follower.ask(*request, token=scene.cluster.token, timeout=30)
        except (OSError, ValueError):
            return None, {}
    step = draw.randrange(int(usual * PAST)) if usual else None
    scene.tap.arm(step, draw.random() < 0.5, leader.kill)
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(send, requests))
    seen, killed = scene.tap.disarm()
    if usual and not killed:
        leader.kill()
    for request, (code, answer) in zip(requests, answers):
        scene.note(request, code, answer)
    if usual:
        scene.cluster.restart(leader)
    return seen


def run(kind, work):
    begun, draw = time.monotonic(), random.Random(SEED)
    (work / kind.name).mkdir()
    (work / kind.name).chmod(0o755)
    cluster = Cluster(BINARY, work / kind.name, 3)
    scene = kind(cluster, work / kind.name)
    scene.configure()
    if kind is SecondFactor:
        for number in range(KILLS):
            scene.round(number, draw)
        check(True, f"mfa: {KILLS} leaders killed, {scene.told} tokens by as many codes, {scene.lost} codes used up without one, no code good twice")
        row = [KILLS, f"{scene.asked} ({scene.told})", "-", "-", "-"]
    else:
        # What is usual when no session is there yet.
        usual = run_round(scene, 0, draw, None)
        for number in range(KILLS):
            run_round(scene, number, draw, usual)
        at_once = f"{len(scene.there())}, {len(scene.leases())}"
        left, waited = scene.judge()
        scene.emptied()
        row = [KILLS + 1, f"{scene.asked} ({scene.told})", usual, at_once, f"{left}, {left} after {waited:.0f} s"]
    cluster.end()
    if kind is RabbitMq:
        scene.broker.stop()
    took = time.monotonic() - begun
    line = f"| {datetime.date.today()} | {kind.name} | {SEED} | {' | '.join(str(cell) for cell in row)} | 0 | {took:.0f} s |"
    print(line, flush=True)
    if os.environ.get("KALLISTO_LEDGER"):
        with open(os.environ["KALLISTO_LEDGER"], "a", encoding="utf-8") as ledger:
            ledger.write(f"{line}\n")


MISSING = {
    Database: lambda: None if find_tool("initdb") and shutil.which("psql") else "PostgreSQL (postgresql, postgresql-client)",
    Ldap: lambda: None if slapd.SLAPD and shutil.which("ldapwhoami") else "slapd (slapd, ldap-utils)",
    RabbitMq: lambda: None if (rabbitmq.BIN / "rabbitmq-server").exists() else "RabbitMQ (rabbitmq-server)",
    Kubernetes: lambda: None if shutil.which("openssl") else "openssl",
    SecondFactor: lambda: None,
}


def main():
    work = make_folder("far-end-cluster-")
    try:
        ok(f"seed {SEED}")
        for kind, missing in MISSING.items():
            if ENGINES and kind.name not in ENGINES:
                continue
            if missing():
                skip(f"far-end-cluster: {kind.name}: {missing()} is not installed")
                continue
            run(kind, work)
    finally:
        end_all(work)


main()
