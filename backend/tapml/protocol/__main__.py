"""`python -m tapml.protocol` prints the protocol's JSON Schema."""

import json

from tapml.protocol.schema import schema

print(json.dumps(schema(), indent=1))
