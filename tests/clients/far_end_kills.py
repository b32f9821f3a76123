"""Kills a server, and the PostgreSQL that it asks, at every step of creations, revocations and rotations, and counts in the database afterwards.

  far_end_kills.py KALLISTO_BINARY

A wire between the two (`far_ends/tap.py`) counts the pieces that go over it. At a piece drawn by a seed the server, the database or both are killed
by SIGKILL, before the piece goes on or right after it; a step past the last piece kills when all is answered. Then what died is started again.

FAR_END_CREATIONS says how many creations are under way at a kill, 48 when nobody says, and FAR_END_ROTATIONS how many rotations, 24. FAR_END_SEED is
the seed. KALLISTO_LEDGER names a file that gets two lines; tests/LEDGER.md has the runs that count.
"""

import concurrent.futures
import datetime
import os
import random
import shutil
import sys
import time

from far_ends.postgresql import ROOT, ROOT_PASSWORD, Postgres
from far_ends.processes import check, end_all, find_tool, make_folder, ok, skip, until
from far_ends.servers import Cluster
from far_ends.tap import Tap

BINARY = os.path.realpath(sys.argv[1])
CREATIONS = int(os.environ.get("FAR_END_CREATIONS", "48"))
ROTATIONS = int(os.environ.get("FAR_END_ROTATIONS", "24"))
SEED = int(os.environ.get("FAR_END_SEED", random.randrange(1 << 32)))
# Requests that are under way at once when there is a kill.
TOGETHER = 4
# How many steps are drawn from, by how many pieces are usual: some are past the last one.
PAST = 1.3
CREATE = ["CREATE ROLE \"{{name}}\" WITH LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'",
          "GRANT SELECT ON ALL TABLES IN SCHEMA public TO \"{{name}}\""]
# How long what crashes left may take: an intent is rolled back after a minute and in its turn, a rotation is taken up after one.
RECOVERY_SECS = 900
# Rotations of a static role are of one of so many, and of root passwords of one connection of so many.
STATIC_ROLES, CONNECTIONS = 20, 10


class Campaign:
    def __init__(self, work):
        self.random = random.Random(SEED)
        self.postgres = Postgres(work)
        self.tap = Tap(self.postgres.port)
        self.cluster = Cluster(BINARY, work, 1)
        self.server = self.cluster.servers[0]
        self.server_kills = self.database_kills = 0
        self.steps = set()

    def send(self, method, path, body=None, timeout=20):
        """An answer, or nothing where none came."""
        try:
            return self.server.ask(method, path, body, token=self.cluster.token, timeout=timeout)
        except (OSError, ValueError):
            return None, {}

    def cycle(self, requests, victims, step, goes_on):
        """Sends requests and kills at a step; gives the answers once what died is back."""
        def act():
            for victim in victims:
                victim.kill()
        self.tap.arm(step, goes_on, act)
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            answers = list(pool.map(lambda request: self.send(*request), requests))
        seen, acted = self.tap.disarm()
        if not acted:
            act()
        self.steps.add((step if acted else "past", goes_on))
        for victim in victims:
            if victim is self.postgres:
                victim.restart()
                self.database_kills += 1
        for victim in victims:
            if victim is self.server:
                self.cluster.restart(victim)
                self.server_kills += 1
        self.cluster.wait_for_leader()
        return answers, seen

    def victims(self, number):
        """Mostly the server, then the database, then both at once."""
        return {5: [self.postgres], 7: [self.server, self.postgres]}.get(number % 8, [self.server])

    def configure(self):
        done = self.cluster.done
        self.postgres.sql("CREATE TABLE things (a int)")
        done("POST", "sys/mounts/database", {"type": "database"})
        url = self.postgres.url(self.tap.port)
        connection = {"plugin_name": "postgresql-database-plugin", "connection_url": url, "allowed_roles": "*"}
        done("POST", "database/config/pg", {**connection, "username": ROOT, "password": ROOT_PASSWORD})
        done("POST", "database/roles/app", {"db_name": "pg", "creation_statements": CREATE, "default_ttl": "24h"})
        for number in range(CONNECTIONS):
            self.postgres.sql(f"CREATE ROLE adm_{number} LOGIN CREATEROLE PASSWORD 'first'; CREATE ROLE made_by_{number}; GRANT made_by_{number} TO adm_{number} WITH ADMIN OPTION")
            done("POST", f"database/config/root-{number}", {**connection, "username": f"adm_{number}", "password": "first"})
            done("POST", f"database/roles/r-{number}", {"db_name": f"root-{number}", "creation_statements": CREATE[0], "default_ttl": "1h"})
        for number in range(STATIC_ROLES):
            self.postgres.sql(f"CREATE ROLE st_{number} LOGIN PASSWORD 'old'")
            done("POST", f"database/static-roles/st-{number}", {"db_name": "pg", "username": f"st_{number}", "rotation_period": "24h"})

    # Creations and revocations

    def requests(self, known):
        """Creations, and one revocation in a third of the cycles."""
        requests = [("GET", "database/creds/app")] * TOGETHER
        if known and self.random.random() < 0.34:
            lease = self.random.choice(sorted(known))
            requests.append(("PUT", "sys/leases/revoke", {"lease_id": lease, "sync": True}))
        return requests

    def creations(self):
        begun = time.monotonic()
        known, revoked, unclear, base = {}, {}, set(), self.postgres.users()
        # What is usual when no session is there yet.
        _, usual = self.cycle([("GET", "database/creds/app")] * TOGETHER, [self.server], None, False)
        under_way, answered, cycles, revocations = 0, 0, 0, 0
        while under_way < CREATIONS:
            step = self.random.randrange(int(usual * PAST))
            requests = self.requests(known)
            answers, _ = self.cycle(requests, self.victims(cycles), step, self.random.random() < 0.5)
            cycles += 1
            for request, (code, answer) in zip(requests, answers):
                if request[0] == "GET":
                    under_way += 1
                    if code == 200:
                        answered += 1
                        known[answer["lease_id"]] = answer["data"]["username"]
                    continue
                revocations += 1
                lease = request[2]["lease_id"]
                if code == 204:
                    revoked[lease] = known.pop(lease)
                else:
                    unclear.add(lease)
            if cycles % 25 == 0:
                ok(f"{cycles} cycles, {under_way} creations, {len(self.postgres.users())} users, {time.monotonic() - begun:.0f} s")
        return self.judge(known, revoked, unclear, base, [begun, usual, cycles, under_way, answered, revocations])

    def judge(self, known, revoked, unclear, base, told):
        begun, usual, cycles, under_way, answered, revocations = told
        counts = lambda: (len(self.postgres.users() - base), len(self.cluster.leases("database/creds/app")))
        at_once = counts()
        given_up = set()

        def is_even():
            # A database that was dead has refused nothing: no lease is irrevocable.
            kept = self.cluster.done("GET", "sys/leases?type=irrevocable")["data"]["leases"]
            given_up.update(lease["lease_id"] for lease in kept)
            return len(set(counts())) == 1
        waited = until("as many users as leases", is_even, RECOVERY_SECS, 1)
        check(not given_up, f"no lease is irrevocable: {sorted(given_up)[:3]}")
        users, leases = self.postgres.users(), self.cluster.leases("database/creds/app")
        check(len(users - base) == len(leases), f"{cycles} kills, {under_way} creations: {at_once[0]} users and {at_once[1]} leases at once after, "
              f"{len(users - base)} and {len(leases)} after {waited:.0f} s")
        wrong = [lease for lease, user in known.items() if (lease in leases) != (user in users)]
        wrong += [lease for lease, user in known.items() if lease not in leases and lease not in unclear]
        check(not wrong, f"all {len(known)} users that were told and not revoked are there with their leases: {wrong[:3]}")
        wrong = [lease for lease, user in revoked.items() if lease in leases or user in users]
        check(not wrong, f"none of {len(revoked)} that were told to be revoked is there: {wrong[:3]}")
        for lease in leases - set(known):
            until("what was not told is looked up", lambda: self.cluster.ask("PUT", "sys/leases/lookup", {"lease_id": lease})[0] == 200, 60)
        self.cluster.done("PUT", "sys/leases/revoke-prefix/database/creds/app", {"sync": True}, timeout=300)
        check(counts() == (0, 0), "and none of either once all are revoked")
        took = time.monotonic() - begun
        return (f"| {datetime.date.today()} | {SEED} | {self.server_kills} | {self.database_kills} | {under_way} ({answered}) | {revocations} ({len(revoked)}) | "
                f"{usual} | {len(self.steps)} | {at_once[0]}, {at_once[1]} | {len(users - base)}, {len(leases)} | {len(given_up)} | 0 | {took:.0f} s |")

    # Rotations

    def rotations(self):
        begun, self.server_kills, self.database_kills, self.steps = time.monotonic(), 0, 0, set()
        told, behind, slowest, refused = 0, 0, 0.0, 0
        # A rotation when no session is there yet, of a static role and of a root password.
        usual = [self.cycle([("POST", path)], [self.server], None, False)[1] for path in ("database/rotate-role/st-0", "database/rotate-root/root-0")]
        check(min(usual) > 4, f"a rotation is {usual[0]} pieces on the wire, of a root password {usual[1]}")
        for number in range(ROTATIONS):
            is_root = number % 2 == 1
            of = number // 2 % (CONNECTIONS if is_root else STATIC_ROLES)
            path = f"database/rotate-root/root-{of}" if is_root else f"database/rotate-role/st-{of}"
            victims = {3: [self.postgres], 4: [self.postgres], 7: [self.server, self.postgres]}.get(number // 2 % 8, [self.server])
            if number // 2 % 8 == 4:
                # One that is dead before, and comes back while the rotation is asked for.
                self.postgres.kill()
                code, _ = self.send("POST", path)
                self.postgres.restart()
                self.database_kills += 1
            else:
                step = self.random.randrange(int(usual[is_root] * PAST))
                ((code, _),), _ = self.cycle([("POST", path)], victims, step, self.random.random() < 0.5)
            told += code == 204
            refused += code not in (None, 204)
            waited = self.log_in(is_root, of)
            behind += waited > 2
            slowest = max(slowest, waited)
            if number % 20 == 19:
                ok(f"{number + 1} rotations, {behind} behind, {time.monotonic() - begun:.0f} s")
        for number in range(STATIC_ROLES):
            self.log_in(False, number)
        for number in range(CONNECTIONS):
            self.log_in(True, number)
        check(True, f"{ROTATIONS} rotations, {told} told to be done and {refused} not: afterwards every password that is stored logs in, {slowest:.1f} s after at the latest")
        took = time.monotonic() - begun
        return (f"| {datetime.date.today()} | {SEED} | {self.server_kills} | {self.database_kills} | {ROTATIONS} ({told}) | {usual[0]}, {usual[1]} | {len(self.steps)} | {behind} | "
                f"{slowest:.1f} s | 0 | {took:.0f} s |")

    def log_in(self, is_root, of):
        """Waits until what is stored logs in, and says for how long."""
        def static():
            code, answer = self.send("GET", f"database/static-creds/st-{of}")
            if code != 200:
                return False
            # Whatever was killed: what is told logs in, unless it has changed since it was told.
            if self.postgres.logs_in(f"st_{of}", answer["data"]["password"]):
                return True
            code, again = self.send("GET", f"database/static-creds/st-{of}")
            if code == 200 and again["data"]["password"] == answer["data"]["password"]:
                raise SystemExit(f"not so: the password of st_{of} that is told logs in")
            return False

        def root():
            code, answer = self.send("GET", f"database/creds/r-{of}")
            return code == 200 and self.postgres.logs_in(answer["data"]["username"], answer["data"]["password"])
        return until(f"the password of {of} that is stored logs in (root: {is_root})", root if is_root else static, RECOVERY_SECS, 0.5)


def main():
    if not find_tool("initdb") or not shutil.which("psql"):
        skip("far-end-kills: PostgreSQL is not installed (postgresql, postgresql-client)")
        return
    work = make_folder("far-end-kills-")
    try:
        ok(f"seed {SEED}")
        campaign = Campaign(work)
        campaign.configure()
        lines = [campaign.creations()] if CREATIONS else []
        lines += [campaign.rotations()] if ROTATIONS else []
        for line in lines:
            print(line, flush=True)
            if os.environ.get("KALLISTO_LEDGER"):
                with open(os.environ["KALLISTO_LEDGER"], "a", encoding="utf-8") as ledger:
                    ledger.write(f"{line}\n")
        campaign.cluster.end()
    finally:
        end_all(work)


main()
