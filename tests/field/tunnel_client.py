"""A device at its end of the tunnel, as plain as can be."""

from __future__ import annotations

import json
from typing import Any

from simple_websocket import Client

TASK = "shop/highlight"
DEVICE, STREAM = "device-0123456789", "stream-0123456789"


def record(value: Any, **more: Any) -> dict[str, Any]:
    return {"task": TASK, "version": "1.0", "name": "feature", "at": 5, "value": value, **more}


class Tunnel:
    """Says hello when it is made, unless told what else to say."""

    def __init__(self, url: str, device: str = DEVICE, stream: str = STREAM, **headers: str) -> None:
        self.socket = Client(url, headers=headers or None)
        self.acknowledged = self.ask({"tunnel": 1, "device": device, "stream": stream}).get("acknowledged")

    def ask(self, message: Any) -> dict[str, Any]:
        self.socket.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
        return dict(json.loads(self.socket.receive(20) or "{}"))

    def send(self, first: int, *values: Any) -> dict[str, Any]:
        return self.ask({"first": first, "records": [record(value) for value in values]})
