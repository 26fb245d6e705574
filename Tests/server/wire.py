"""HTTP by bare sockets, for what no decent client sends."""

import re
import select
import socket


class Wire:
    """A connection. `sent` may be text or bytes."""

    def __init__(self, server, sent=b"", timeout=300, small=False):
        self.socket = socket.socket()
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", server.port))
        self.send(sent)

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def rest(self):
        """All bytes until the server closes; what a reset leaves counts too."""
        data = b""
        try:
            while piece := self.socket.recv(65536):
                data += piece
        except ConnectionResetError:
            pass
        return data

    def statuses(self):
        """The status of every answer until the server closes."""
        return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", self.rest())]

    def status(self):
        """The status of one answer, whose body is left unread."""
        data = b""
        while b"\r\n" not in data:
            piece = self.socket.recv(1)
            assert piece, "closed without an answer"
            data += piece
        return int(data.split()[1])

    def is_closed(self):
        """Whether the server has ended it, or said something."""
        found = select.poll()
        found.register(self.socket, select.POLLIN)
        return bool(found.poll(0))

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def reset(self):
        """Vanishes without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def post(path, *headers, body=""):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", body])


GET = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST_GET = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def cost_of_silent_readers(server, paths, each):
    """By how many bytes the server's memory grows while so many clients ask for each path and take nothing."""
    before = server.memory()
    readers = [Wire(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n", small=True) for path in paths for _ in range(each)]
    try:
        assert {reader.status() for reader in readers} == {200}
        # What is given by now is in memory.
        for _ in range(100):
            assert server.is_well()
        return server.memory() - before
    finally:
        for reader in readers:
            reader.socket.close()
