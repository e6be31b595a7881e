// SPDX-License-Identifier: Apache-2.0
// Second of the runtime's two units: tensors, devices and the Relax virtual machine, compiled from the sources in the
// apache-tvm wheel, of which runtime.py leaves some out; and the C functions that tvmjs (the JavaScript half) calls in
// its wasm. The wheel's tvmjs_support.cc has those as well, but not without RPC.
#include "web/emcc/wasm_runtime.cc"
#include "web/emcc/webgpu_runtime.cc"

extern "C" {

// Both are JavaScript, given by tvmjs (see imports.js): call the function numbered `self`, and forget it.
int TVMFFIWasmSafeCall(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
void TVMFFIWasmFunctionDeleter(void* self);

// Space for arguments, aligned to 8 bytes as TVMFFIAny is.
TVM_DLL void* TVMWasmAllocSpace(int size) { return new int64_t[(size + 7) / 8]; }
TVM_DLL void TVMWasmFreeSpace(void* space) { delete[] static_cast<int64_t*>(space); }

// Wraps a JavaScript function, which tvmjs knows by the number `self`.
TVM_DLL int TVMFFIWasmFunctionCreate(void* self, TVMFFIObjectHandle* out) {
  return TVMFFIFunctionCreate(self, TVMFFIWasmSafeCall, TVMFFIWasmFunctionDeleter, out);
}

// The text of the error that a C function just reported by its return code; valid until the next call.
TVM_DLL const char* TVMFFIWasmGetLastError() {
  static std::string text;
  text = tvm::ffi::details::MoveFromSafeCallRaised().what();
  return text.c_str();
}

}  // extern "C"
