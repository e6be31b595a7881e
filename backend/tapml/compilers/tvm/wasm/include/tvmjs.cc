// SPDX-License-Identifier: Apache-2.0
// What tvmjs expects of its wasm besides TVM's runtime: C functions by name, and global functions under "tvmjs.".
// tvmjs looks up every one of them when it is instantiated and fails if one is missing.
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/tensor.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

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

// Parallel loops of host code: one thread, so one task.
int TVMBackendParallelLaunch(FTVMParallelLambda body, void* data, int) {
  TVMParallelGroupEnv env{};
  env.num_task = 1;
  return body(0, &env, data);
}
int TVMBackendParallelBarrier(int, TVMParallelGroupEnv*) { return 0; }

}  // extern "C"

namespace tvm {
namespace runtime {
namespace detail {

void LogMessageImpl(const std::string& file, int line, int level, const std::string& message) {
  std::cout << "[tvm " << level << "] " << file << ":" << line << ": " << message << std::endl;
}

[[noreturn]] void LogFatalImpl(const std::string& file, int line, const std::string& message) {
  TVM_FFI_THROW(InternalError) << file << ":" << line << ": " << message;
}

}  // namespace detail

// Fills a CPU tensor with stored weights; "f32-to-bf16" keeps the upper half of each float32.
void DecodeStorage(Tensor tensor, TVMFFIByteArray* bytes, const std::string& format, const std::string& dtype) {
  if (format != "f32-to-bf16" || dtype != "float32") {
    tensor.CopyFromBytes(bytes->data, bytes->size);
    return;
  }
  std::vector<uint32_t> values(bytes->size / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t upper;
    std::memcpy(&upper, bytes->data + 2 * i, 2);
    values[i] = static_cast<uint32_t>(upper) << 16;
  }
  tensor.CopyFromBytes(values.data(), 4 * values.size());  // checks the size
}

void ConcatArrays(ffi::PackedArgs arrays, ffi::Any* result) {
  ffi::Array<ffi::Any> all;
  for (int i = 0; i < arrays.size(); ++i) {
    for (const ffi::Any& item : arrays[i].cast<ffi::Array<ffi::Any>>()) all.push_back(item);
  }
  *result = all;
}

void ConcatEmbeddings(ffi::PackedArgs, ffi::Any*) {
  TVM_FFI_THROW(RuntimeError) << "tvmjs.runtime.ConcatEmbeddings is not part of tapml's wasm runtime";
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("tvmjs.array.decode_storage", DecodeStorage)
      .def_packed("tvmjs.runtime.ArrayConcat", ConcatArrays)
      .def_packed("tvmjs.runtime.ConcatEmbeddings", ConcatEmbeddings)
      .def("tvmjs.runtime.TensorCopyFromBytes",
           [](Tensor tensor, TVMFFIByteArray* bytes) { tensor.CopyFromBytes(bytes->data, bytes->size); })
      .def("tvmjs.runtime.TensorCopyToBytes", [](Tensor tensor) {
        std::string bytes(ffi::GetDataSize(*tensor.operator->()), '\0');
        tensor.CopyToBytes(bytes.data(), bytes.size());
        return ffi::Bytes(std::move(bytes));
      });
}

}  // namespace runtime
}  // namespace tvm
