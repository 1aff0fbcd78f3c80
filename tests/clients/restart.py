"""A server program that is stopped and started again under a connected client."""

import re
import socket
import subprocess
import tempfile
from contextlib import contextmanager

URL = re.compile(r"http://127\.0\.0\.1:\d+/mcp")


class Server:
    """The program on one port with one data folder, over any number of lives."""

    def __init__(self, program, data):
        self.program = program
        self.data = data
        # The port must stay the same, so it is chosen here and not by the server.
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]

    def start(self):
        listen = f"127.0.0.1:{self.port}"
        command = [self.program, "--listen", listen, "--data", self.data]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if found := URL.search(line):
                return found.group()
        raise AssertionError(f"{self.program} ended without naming its URL")

    def kill(self):
        """As a crash would: no time to say goodbye or to write anything."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        self.start()


@contextmanager
def server(program):
    """Gives the running server and its URL; stops it at the end."""
    with tempfile.TemporaryDirectory() as data:
        running = Server(program, data)
        url = running.start()
        try:
            yield running, url
        finally:
            running.kill()
