"""A RabbitMQ of this machine: its users are counted and tried by its own command and its HTTP API."""

import base64
import json
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

from far_ends.processes import free_port

BIN = pathlib.Path("/usr/lib/rabbitmq/bin")


class Broker:
    """A RabbitMQ with its management interface, in a folder and on ports of its own."""

    def __init__(self, work):
        self.work = work
        self.port = free_port()
        (self.work / "plugins").write_text("[rabbitmq_management].\n")
        (self.work / "conf.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{free_port()}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.port}\n")
        self.env = {**os.environ, "HOME": str(self.work), "ERL_EPMD_PORT": str(free_port()), "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_NODENAME": "walk@localhost",
                    "RABBITMQ_DIST_PORT": str(free_port()), "RABBITMQ_MNESIA_BASE": str(self.work / "mnesia"), "RABBITMQ_LOG_BASE": str(self.work / "log"),
                    "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.work / "plugins"), "RABBITMQ_CONFIG_FILE": str(self.work / "conf"), "RABBITMQ_CONF_ENV_FILE": str(self.work / "none"),
                    "RABBITMQ_PID_FILE": str(self.work / "pid")}
        log = open(self.work / "broker.log", "wb")
        self.process = subprocess.Popen([str(BIN / "rabbitmq-server")], stdout=log, stderr=log, cwd=self.work, env=self.env)
        for _ in range(300):
            if self.api("guest", "guest", "whoami")[0] == 200:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.3)
        raise SystemExit("RabbitMQ does not answer: " + (self.work / "broker.log").read_text()[-800:])

    def api(self, user, password, path, body=None, method=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/{path}", data, method=method or ("PUT" if body is not None else "GET"))
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, None
        except OSError:
            return 0, None

    def ctl(self, *words):
        return subprocess.run([str(BIN / "rabbitmqctl"), "-n", "walk@localhost", *words], env=self.env, capture_output=True, text=True, timeout=60)

    def stop(self):
        self.ctl("stop")
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        # The port mapper that the broker started, by its port.
        subprocess.run(["epmd", "-port", self.env["ERL_EPMD_PORT"], "-kill"], env=self.env, capture_output=True)
