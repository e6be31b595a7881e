"""The wasm that tvmjs runs whole models with: TVM's runtime, built here by emscripten."""
