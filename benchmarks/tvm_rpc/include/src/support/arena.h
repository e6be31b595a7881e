// SPDX-License-Identifier: Apache-2.0
// Memory that is freed all at once, as TVM's RPC endpoint uses it: the wheel lacks this header.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace tvm::support {

class Arena {
 public:
  template <typename T>
  T* allocate_(int count) {
    size_t units = sizeof(T) * count / sizeof(std::max_align_t) + 1;
    blocks_.push_back(std::make_unique<std::max_align_t[]>(units));
    return reinterpret_cast<T*>(blocks_.back().get());
  }
  void RecycleAll() { blocks_.clear(); }

 private:
  std::vector<std::unique_ptr<std::max_align_t[]>> blocks_;
};

}  // namespace tvm::support
