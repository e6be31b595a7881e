// SPDX-License-Identifier: Apache-2.0
// Streams that keep tensors as base64 text inside JSON. Whole texts at a time, by tvm-ffi's own coder: the runtime
// has these functions registered, but no model that runs in a browser calls them.
#pragma once

#include <tvm/ffi/extra/base64.h>

#include <string>

#include "bytes_io.h"

namespace tvm {
namespace support {

class Base64InStream : public BytesInStream {
 public:
  explicit Base64InStream(Stream* text) : BytesInStream(ffi::Bytes()), text_(text) {}

  // Decodes all that is left of the text. Call once, before the first Read.
  void InitPosition() {
    std::string encoded;
    for (char letter; text_->Read(&letter);) encoded.push_back(letter);
    bytes_ = ffi::Base64Decode(ffi::String(encoded));
    BytesInStream::operator=(BytesInStream(bytes_));
  }

 private:
  Stream* text_;
  ffi::Bytes bytes_;
};

class Base64OutStream : public BytesOutStream {
 public:
  explicit Base64OutStream(Stream* text) : BytesOutStream(&bytes_), text_(text) {}

  // Encodes what was written. Call once, after the last Write.
  void Finish() {
    const ffi::String encoded = ffi::Base64Encode(ffi::Bytes(bytes_));
    text_->Write(static_cast<const void*>(encoded.data()), encoded.size());
  }

 private:
  Stream* text_;
  std::string bytes_;
};

}  // namespace support
}  // namespace tvm
