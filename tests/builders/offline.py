"""The `ebbtide` command in a process that can reach no other machine, and says so when it tries."""

OFFLINE = """
import socket, sys


class Reached(Exception):
    pass


def refused(self, address, *rest):
    if self.family != socket.AF_UNIX:
        raise Reached(f"a connection to {address}")
    return original(self, address, *rest)


def unresolved(*arguments, **named):
    raise Reached(f"the address of {arguments[0]}")


original = socket.socket.connect
socket.socket.connect = socket.socket.connect_ex = refused
socket.getaddrinfo = socket.gethostbyname = socket.create_connection = unresolved

from ebbtide.cli.__main__ import main

main()
"""
"""A program for `python -c`, followed by the command's arguments."""
