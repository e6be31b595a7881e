// SPDX-License-Identifier: Apache-2.0
// First of the runtime's two units: tvm-ffi (objects, functions, modules, JSON), compiled from the sources in its wheel.
#define TVM_FFI_USE_LIBBACKTRACE 0

#include "tvm_ffi/src/ffi/backtrace.cc"
#include "tvm_ffi/src/ffi/container.cc"
#include "tvm_ffi/src/ffi/custom_allocator.cc"
#include "tvm_ffi/src/ffi/dtype.cc"
#include "tvm_ffi/src/ffi/error.cc"
#include "tvm_ffi/src/ffi/extra/env_c_api.cc"
#include "tvm_ffi/src/ffi/extra/env_context.cc"
#include "tvm_ffi/src/ffi/extra/json_parser.cc"
#include "tvm_ffi/src/ffi/extra/json_writer.cc"
#include "tvm_ffi/src/ffi/extra/library_module.cc"
#include "tvm_ffi/src/ffi/extra/library_module_system_lib.cc"
#include "tvm_ffi/src/ffi/extra/module.cc"
#include "tvm_ffi/src/ffi/function.cc"
#include "tvm_ffi/src/ffi/init_once.cc"
#include "tvm_ffi/src/ffi/object.cc"
#include "tvm_ffi/src/ffi/tensor.cc"
