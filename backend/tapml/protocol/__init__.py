"""The session protocol between the server and its devices, defined once: docs/protocol.md is the prose.

`python -m tapml.protocol` prints the JSON Schema; runner_js/src/protocol/generated is made from it (`make schemas`).
"""
