// SPDX-License-Identifier: Apache-2.0
// The byte stream that TVM's runtime reads executables and tensors through. The apache-tvm wheel ships the sources
// that include this header but not the header: this one offers what those sources call.
#pragma once

#include <tvm/ffi/endian.h>

#include <cstddef>

namespace tvm {
namespace support {

// How a T is laid out in a stream; defined in tvm/support/serializer.h, specialised by the runtime's own types.
template <typename T, typename Enable = void>
struct Serializer;

class Stream {
 public:
  virtual ~Stream() = default;

  // Both return how many bytes they moved, which is less than `size` at the end of the stream.
  virtual size_t Read(void* data, size_t size) = 0;
  virtual size_t Write(const void* data, size_t size) = 0;

  template <typename T>
  bool Read(T* value) {
    return Serializer<T>::Read(this, value);
  }

  template <typename T>
  void Write(const T& value) {
    Serializer<T>::Write(this, value);
  }

  // Elements only: the callers write and read the count themselves.
  template <typename T>
  bool ReadArray(T* values, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!Serializer<T>::Read(this, values + i)) return false;
    }
    return true;
  }

  template <typename T>
  void WriteArray(const T* values, size_t count) {
    for (size_t i = 0; i < count; ++i) Serializer<T>::Write(this, values[i]);
  }
};

}  // namespace support
}  // namespace tvm
