"""A stand-in for NVIDIA's device plugin: offers `COUNT` GPUs that nobody has to a real kubelet.

`python -m tests.node.device_plugin FOLDER COUNT`, with the folder of the kubelet's sockets. Each container that asks is
told its devices in NVIDIA_VISIBLE_DEVICES, as by the real one. The messages and their numbers are those of the
kubelet's deviceplugin/v1beta1/api.proto.
"""

import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RESOURCE = "nvidia.com/gpu"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_SOCKET = "stand-in.sock"
_MESSAGES = {
    "Empty": {},
    "Options": {},
    "Register": {"version": 1, "endpoint": 2, "resource_name": 3},
    "Device": {"ID": 1, "health": 2},
    "Devices": {"*Device devices": 1},
    "Wanted": {"*device_ids": 1},
    "AllWanted": {"*Wanted containers": 1},
    "Variable": {"key": 1, "value": 2},  # an entry of a map is a message of this form
    "Given": {"*Variable variables": 1},
    "AllGiven": {"*Given containers": 1},
}


def _declared() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="ebbtide-device-plugin.proto", package="ebbtide.devices")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text, number in fields.items():
            kind, _, field = text.lstrip("*").rpartition(" ")
            one = message.field.add(name=field, number=number, label=3 if text.startswith("*") else 1, type=9)
            if kind:
                one.type, one.type_name = 11, f".ebbtide.devices.{kind}"  # pyright: ignore[reportAttributeAccessIssue]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(found[name]) for name in _MESSAGES}


_M = _declared()


def _options(_request: object, _context: object) -> object:
    return _M["Options"]()


def _allocated(request: Any, _context: object) -> object:
    return _M["AllGiven"](
        containers=[
            {"variables": [{"key": VISIBLE, "value": ",".join(wanted.device_ids)}]} for wanted in request.containers
        ]
    )


def _service(count: int, over: threading.Event) -> grpc.GenericRpcHandler:
    devices = _M["Devices"](devices=[{"ID": f"GPU-{number}", "health": "Healthy"} for number in range(count)])

    def watched(_request: object, _context: object) -> Iterator[object]:
        yield devices
        over.wait()  # the kubelet takes an ended stream for a plugin that has gone

    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    return grpc.method_handlers_generic_handler(
        "v1beta1.DevicePlugin",
        {
            "GetDevicePluginOptions": unary(_options, _M["Empty"].FromString, _encoded),
            "ListAndWatch": stream(watched, _M["Empty"].FromString, _encoded),
            "Allocate": unary(_allocated, _M["AllWanted"].FromString, _encoded),
        },
    )


def _encoded(message: Any) -> bytes:
    return message.SerializeToString()


def main(folder: Path, count: int) -> None:
    with tempfile.TemporaryDirectory() as near:
        sockets = Path(near) / "s"  # a socket's path has 107 characters at most
        sockets.symlink_to(folder)
        over = threading.Event()
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        server.add_generic_rpc_handlers((_service(count, over),))
        server.add_insecure_port(f"unix:{sockets}/{_SOCKET}")
        server.start()
        with grpc.insecure_channel(f"unix:{sockets}/kubelet.sock") as channel:
            register = channel.unary_unary("/v1beta1.Registration/Register", _encoded, _M["Empty"].FromString)
            register(
                _M["Register"](version="v1beta1", endpoint=_SOCKET, resource_name=RESOURCE),
                timeout=60,
                wait_for_ready=True,
            )
        print(f"registered {count} of {RESOURCE}", flush=True)
        server.wait_for_termination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
