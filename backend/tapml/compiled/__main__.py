"""`python -m tapml.compiled` prints the compiled model's JSON Schema."""

import json

from tapml.compiled.schema import schema

print(json.dumps(schema(), indent=1))
