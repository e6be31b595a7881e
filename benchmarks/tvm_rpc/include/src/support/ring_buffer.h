// SPDX-License-Identifier: Apache-2.0
// A queue of bytes, as TVM's RPC endpoint uses it: the wheel lacks this header.
#pragma once
#include <cstring>
#include <vector>

namespace tvm::support {

class RingBuffer {
 public:
  size_t bytes_available() const { return bytes_.size() - begin_; }

  void Reserve(size_t size) { bytes_.reserve(begin_ + size); }

  void Write(const void* data, size_t size) {
    const char* from = static_cast<const char*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }

  void Read(void* data, size_t size) {
    std::memcpy(data, bytes_.data() + begin_, size);
    Drop(size);
  }

  // `take(pointer, most)` says how many bytes it took.
  template <typename Take>
  size_t ReadWithCallback(Take take, size_t most) {
    size_t taken = take(bytes_.data() + begin_, most);
    Drop(taken);
    return taken;
  }

  // `give(pointer, most)` says how many bytes it gave.
  template <typename Give>
  size_t WriteWithCallback(Give give, size_t most) {
    size_t before = bytes_.size();
    bytes_.resize(before + most);
    size_t given = give(bytes_.data() + before, most);
    bytes_.resize(before + given);
    return given;
  }

 private:
  void Drop(size_t size) {
    begin_ += size;
    if (begin_ == bytes_.size()) {
      bytes_.clear();
      begin_ = 0;
    } else if (begin_ > bytes_.size() / 2 && begin_ > (1 << 20)) {
      bytes_.erase(bytes_.begin(), bytes_.begin() + begin_);
      begin_ = 0;
    }
  }

  std::vector<char> bytes_;
  size_t begin_ = 0;
};

}  // namespace tvm::support
