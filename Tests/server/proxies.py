"""Proxies that pass connections on and cut some of them."""

import random
import re
import socket
import struct
import threading


class Proxy:
    """Passes connections on to a port; a subclass says in `pass_on` what becomes of the bytes from the client."""

    def __init__(self, port):
        self.port, self.connections = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near, self.connections), daemon=True).start()
            self.connections += 1

    def serve(self, near, number):
        with near, socket.create_connection(("127.0.0.1", self.port)) as far:
            threading.Thread(target=self.copy, args=(far, near), daemon=True).start()
            try:
                self.pass_on(near, far, number)
            except OSError:
                pass

    @staticmethod
    def reset(near, far):
        for side in (near, far):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            side.shutdown(socket.SHUT_RDWR)  # wakes the other thread, which would keep the socket open

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Gate(Proxy):
    """Lets so many bytes of clients pass, and the rest when it is opened."""

    def __init__(self, port, count):
        self.left, self.lock = count, threading.Lock()
        self.reached, self.opened = threading.Event(), threading.Event()
        super().__init__(port)

    def pass_on(self, near, far, number):
        while data := near.recv(65536):
            far.sendall(data)
            with self.lock:
                self.left -= len(data)
            if self.left <= 0:
                self.reached.set()
                self.opened.wait()
        far.shutdown(socket.SHUT_WR)


class RandomCuts(Proxy):
    """Resets the connections of the first requests of one kind, each after a random number of the request's bytes."""

    def __init__(self, port, request, count, seed):
        self.request, self.left, self.random = request, count, random.Random(seed)
        self.lock, self.cuts = threading.Lock(), []  # the cuts: position and length of each request
        super().__init__(port)

    def pass_on(self, near, far, number):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = near.recv(65536)
            if not piece:
                return
            data += piece
        cut, passed = self.position(data), 0
        while cut is None or passed < cut:
            data = data if cut is None else data[:cut - passed]
            far.sendall(data)
            passed += len(data)
            if passed != cut and not (data := near.recv(65536)):
                return
        self.reset(near, far)

    def position(self, head):
        """Where to cut a request; None for one that passes."""
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)\r\n", head)
        if not head.startswith(self.request) or not length or int(length[1]) == 0:
            return None
        with self.lock:
            if self.left == 0:
                return None
            self.left -= 1
            total = head.index(b"\r\n\r\n") + 4 + int(length[1])
            self.cuts.append((self.random.randint(1, total), total))
            return self.cuts[-1][0]
