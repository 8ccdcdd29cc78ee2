"""What the kernel counts of a TCP connection: probes of a keepalive carry no byte, and only show here."""

import socket
import struct

_SIZE, _SEGMENTS_IN = 192, 140  # of `struct tcp_info`, and where it has `tcpi_segs_in`


def segments_in(connection: socket.socket) -> int:
    """The segments that arrived."""
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    return struct.unpack_from("I", told, _SEGMENTS_IN)[0]
