"""TVM's RPC proxy as a process of its own: prints its two ports, and ends when standard input does.

`python -m tvm_rpc.proxy PAGE SCRIPT` serves both files, so that the page has the origin that its WebSocket must have.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys

import tornado.web
from tvm.rpc.proxy import PopenProxyServerState


def main(page: str, script: str) -> None:
    # TVM's proxy would listen on every interface, and refuses to choose the port of the web itself.
    tornado.web.Application.listen = functools.partialmethod(tornado.web.Application.listen, address="127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        web_port = free.getsockname()[1]
    state = PopenProxyServerState("127.0.0.1", web_port=web_port, index_page=page, resource_files=[("/", script)])
    print(json.dumps([state.port, web_port]), flush=True)
    sys.stdin.read()
    os._exit(0)  # the server's thread never ends


if __name__ == "__main__":
    main(*sys.argv[1:])
