// SPDX-License-Identifier: Apache-2.0
// tensor_cache_support.cc includes this header but uses nothing from it.
#pragma once
