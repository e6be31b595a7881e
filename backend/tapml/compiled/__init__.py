"""What a page loads (docs/model-format.md): the document, defined once, its reading, and the proof that it stays inside
its buffers.

`python -m tapml.compiled` prints the JSON Schema; runner_js has its types from it (`make schemas`).
"""
