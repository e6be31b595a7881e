// SPDX-License-Identifier: Apache-2.0
// The one helper that TVM's RPC endpoint uses: the wheel lacks this header.
#pragma once
#include <string>

namespace tvm::support {
inline bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
}  // namespace tvm::support
