// SPDX-License-Identifier: Apache-2.0
// Streams over bytes in memory.
#pragma once

#include <tvm/ffi/string.h>
#include <tvm/support/io.h>
#include <tvm/support/serializer.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tvm {
namespace support {

// Reads bytes that the caller keeps alive.
class BytesInStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  explicit BytesInStream(const std::string& bytes) : next_(bytes.data()), left_(bytes.size()) {}
  explicit BytesInStream(const ffi::Bytes& bytes) : next_(bytes.data()), left_(bytes.size()) {}

  size_t Read(void* data, size_t size) final {
    const size_t count = std::min(size, left_);
    if (count != 0) std::memcpy(data, next_, count);
    next_ += count;
    left_ -= count;
    return count;
  }
  size_t Write(const void*, size_t) final { TVM_FFI_THROW(InternalError) << "this stream is for reading"; }

 private:
  const char* next_;
  size_t left_;
};

// Appends to a string that the caller owns.
class BytesOutStream : public Stream {
 public:
  using Stream::Read;
  using Stream::Write;

  explicit BytesOutStream(std::string* bytes) : bytes_(bytes) {}

  size_t Read(void*, size_t) final { TVM_FFI_THROW(InternalError) << "this stream is for writing"; }
  size_t Write(const void* data, size_t size) final {
    bytes_->append(static_cast<const char*>(data), size);
    return size;
  }

 private:
  std::string* bytes_;
};

}  // namespace support
}  // namespace tvm
