// SPDX-License-Identifier: Apache-2.0
// Told to emcc by --js-library: tvmjs gives the wasm these two when it is instantiated. Naming them lets the linker
// still report every other undefined symbol. The bodies are never used, since only the .wasm file is kept.
mergeInto(LibraryManager.library, {
  TVMFFIWasmSafeCall: function () {},
  TVMFFIWasmFunctionDeleter: function () {},
});
