"""`python -m tapml.results` prints the results' JSON Schema."""

import json

from tapml.results.schema import schema

print(json.dumps(schema(), indent=1))
