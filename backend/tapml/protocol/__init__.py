"""The session protocol between the server and its devices, defined once: docs/protocol.md is the prose.

`python -m tapml.protocol` prints the JSON Schema; runner_js/src/protocol/generated is made from it (`make schemas`).
"""

from tapml.protocol.base import MAX_MESSAGE_BYTES, MAX_WGSL_BYTES, PROTOCOL_VERSION
from tapml.protocol.errors import ErrorReport
from tapml.protocol.kernels import Kernel, Variant
from tapml.protocol.session import Hello, Progress, Refusal, Reply, Resume, Welcome

__all__ = [
    "MAX_MESSAGE_BYTES",
    "MAX_WGSL_BYTES",
    "PROTOCOL_VERSION",
    "ErrorReport",
    "Hello",
    "Kernel",
    "Progress",
    "Refusal",
    "Reply",
    "Resume",
    "Variant",
    "Welcome",
]
