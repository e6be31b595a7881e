// SPDX-License-Identifier: Apache-2.0
// The layout of values in TVM's binary streams, as the compiler half of the apache-tvm wheel writes it: fixed-size
// values as their little-endian bytes, everything with a length as a 64-bit count followed by the elements.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tvm {
namespace support {

static_assert(TVM_FFI_IO_NO_ENDIAN_SWAP, "values are copied as they lie in memory, which must be little-endian");

// Numbers, enums and flat structs (DLDataType, DLDevice: no padding, fields in stream order).
template <typename T>
struct Serializer<T, std::enable_if_t<std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>>> {
  static void Write(Stream* stream, const T& value) { stream->Write(static_cast<const void*>(&value), sizeof(T)); }
  static bool Read(Stream* stream, T* value) {
    return stream->Read(static_cast<void*>(value), sizeof(T)) == sizeof(T);
  }
};

template <typename K, typename V>
struct Serializer<std::pair<K, V>, std::enable_if_t<!std::is_trivially_copyable_v<std::pair<K, V>>>> {
  static void Write(Stream* stream, const std::pair<K, V>& value) {
    stream->Write(value.first);
    stream->Write(value.second);
  }
  static bool Read(Stream* stream, std::pair<K, V>* value) {
    return stream->Read(&value->first) && stream->Read(&value->second);
  }
};

// What has elements and is made of a range of them; those of a map are pairs.
template <typename Container, typename T>
struct ContainerSerializer {
  static void Write(Stream* stream, const Container& values) {
    stream->Write(static_cast<uint64_t>(values.size()));
    for (const T& value : values) stream->Write(value);
  }
  static bool Read(Stream* stream, Container* values) {
    uint64_t count;
    if (!stream->Read(&count)) return false;
    std::vector<T> elements;
    for (T value; count > 0; --count) {
      if (!stream->Read(&value)) return false;
      elements.push_back(value);
    }
    *values = Container(elements.begin(), elements.end());
    return true;
  }
};

template <>
struct Serializer<std::string> : ContainerSerializer<std::string, char> {};

template <>
struct Serializer<ffi::String> {
  static void Write(Stream* stream, const ffi::String& value) { stream->Write(std::string(value)); }
  static bool Read(Stream* stream, ffi::String* value) {
    std::string text;
    if (!stream->Read(&text)) return false;
    *value = std::move(text);
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> : ContainerSerializer<std::vector<T>, T> {};

template <typename T>
struct Serializer<ffi::Array<T>> : ContainerSerializer<ffi::Array<T>, T> {};

template <typename K, typename V>
struct Serializer<std::unordered_map<K, V>> : ContainerSerializer<std::unordered_map<K, V>, std::pair<K, V>> {};

template <typename K, typename V>
struct Serializer<ffi::Map<K, V>> : ContainerSerializer<ffi::Map<K, V>, std::pair<K, V>> {};

}  // namespace support
}  // namespace tvm
