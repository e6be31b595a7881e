"""What came of a job, defined once: docs/results-format.md is the prose, docs/results.schema.json is made from it.

`python -m tapml.results` prints the JSON Schema; webui and runner_js/repro have their types from it (`make schemas`).
"""
