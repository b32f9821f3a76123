"""A wire between a server and its far end that counts what goes over it, and does something at a step of it.

A step is a piece of bytes as it came, in either direction. What is done at a step is done before the piece goes on, which it then does not,
or right after it went on.
"""

import socket
import threading

PIECE_BYTES = 1 << 16


class Tap:
    def __init__(self, port):
        self.to = port
        self.lock = threading.Lock()
        self.seen, self.step, self.goes_on, self.act = 0, None, False, None
        self.acted = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def arm(self, step, goes_on, act):
        """`act` is called at the piece of this number, counted from 0 from now on; never where `step` is None."""
        with self.lock:
            self.seen, self.step, self.goes_on, self.act = 0, step, goes_on, act
            self.acted.clear()

    def disarm(self):
        """How many pieces there were, and whether the step was one of them."""
        with self.lock:
            self.step, self.act = None, None
            return self.seen, self.acted.is_set()

    def _listen(self):
        while True:
            near, _ = self.listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.to), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one, other):
        try:
            while piece := one.recv(PIECE_BYTES):
                with self.lock:
                    act = self.act if self.seen == self.step else None
                    goes_on = self.goes_on
                    self.seen += 1
                    if act and not goes_on:
                        act()
                        self.acted.set()
                        break
                    other.sendall(piece)
                    if act:
                        act()
                        self.acted.set()
        except OSError:
            pass
        finally:
            for end in (one, other):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
