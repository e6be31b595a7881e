// SPDX-License-Identifier: Apache-2.0
// Second of the runtime's two units: tensors, devices and the Relax virtual machine, compiled from the sources in the
// apache-tvm wheel, and the functions that tvmjs (the JavaScript half) calls in its wasm.
//
// Left out on purpose, against TVM's own wasm_runtime.cc: RPC, paged key-value caches, sorting on the CPU.
#define TVM_LOG_DEBUG 0
#define TVM_LOG_CUSTOMIZE 1  // LOG() ends in LogMessageImpl below

#include "src/runtime/cpu_device_api.cc"
#include "src/runtime/device_api.cc"
#include "src/runtime/file_utils.cc"
#include "src/runtime/memory/memory_manager.cc"
#include "src/runtime/tensor.cc"
#include "src/runtime/vm/builtin.cc"
#include "src/runtime/vm/bytecode.cc"
#include "src/runtime/vm/executable.cc"
#include "src/runtime/vm/lm_support.cc"
#include "src/runtime/vm/tensor_cache_support.cc"
#include "src/runtime/vm/vm.cc"
#include "src/runtime/workspace_pool.cc"

#undef TVM_FFI_ALWAYS_LOG_BEFORE_THROW  // webgpu_runtime.cc defines it again, to no effect at this point
#include "web/emcc/webgpu_runtime.cc"

#include "tvmjs.cc"
