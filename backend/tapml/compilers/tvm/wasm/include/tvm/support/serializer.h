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

inline void WriteCount(Stream* stream, size_t count) { stream->Write(static_cast<uint64_t>(count)); }

inline bool ReadCount(Stream* stream, size_t* count) {
  uint64_t wide;
  if (!stream->Read(&wide) || wide > SIZE_MAX) return false;
  *count = static_cast<size_t>(wide);
  return true;
}

template <>
struct Serializer<std::string> {
  static void Write(Stream* stream, const std::string& value) {
    WriteCount(stream, value.size());
    stream->Write(static_cast<const void*>(value.data()), value.size());
  }
  static bool Read(Stream* stream, std::string* value) {
    size_t size;
    if (!ReadCount(stream, &size)) return false;
    value->resize(size);
    return stream->Read(static_cast<void*>(value->data()), size) == size;
  }
};

template <>
struct Serializer<ffi::String> {
  static void Write(Stream* stream, const ffi::String& value) {
    WriteCount(stream, value.size());
    stream->Write(static_cast<const void*>(value.data()), value.size());
  }
  static bool Read(Stream* stream, ffi::String* value) {
    std::string text;
    if (!stream->Read(&text)) return false;
    *value = std::move(text);
    return true;
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

// A growing sequence: std::vector and ffi::Array.
template <typename Sequence, typename T>
struct SequenceSerializer {
  static void Write(Stream* stream, const Sequence& values) {
    WriteCount(stream, values.size());
    for (const T& value : values) stream->Write(value);
  }
  static bool Read(Stream* stream, Sequence* values) {
    size_t count;
    if (!ReadCount(stream, &count)) return false;
    *values = Sequence();
    for (size_t i = 0; i < count; ++i) {
      T value;
      if (!stream->Read(&value)) return false;
      values->push_back(std::move(value));
    }
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> : SequenceSerializer<std::vector<T>, T> {};

template <typename T>
struct Serializer<ffi::Array<T>> : SequenceSerializer<ffi::Array<T>, T> {};

template <typename K, typename V>
struct Serializer<std::unordered_map<K, V>> {
  static void Write(Stream* stream, const std::unordered_map<K, V>& values) {
    WriteCount(stream, values.size());
    for (const auto& [key, value] : values) {
      stream->Write(key);
      stream->Write(value);
    }
  }
  static bool Read(Stream* stream, std::unordered_map<K, V>* values) {
    size_t count;
    if (!ReadCount(stream, &count)) return false;
    values->clear();
    for (size_t i = 0; i < count; ++i) {
      K key;
      V value;
      if (!stream->Read(&key) || !stream->Read(&value)) return false;
      values->emplace(std::move(key), std::move(value));
    }
    return true;
  }
};

template <typename K, typename V>
struct Serializer<ffi::Map<K, V>> {
  static void Write(Stream* stream, const ffi::Map<K, V>& values) {
    WriteCount(stream, values.size());
    for (const auto& [key, value] : values) {
      stream->Write(key);
      stream->Write(value);
    }
  }
  static bool Read(Stream* stream, ffi::Map<K, V>* values) {
    size_t count;
    if (!ReadCount(stream, &count)) return false;
    *values = ffi::Map<K, V>();
    for (size_t i = 0; i < count; ++i) {
      K key;
      V value;
      if (!stream->Read(&key) || !stream->Read(&value)) return false;
      values->Set(std::move(key), std::move(value));
    }
    return true;
  }
};

}  // namespace support
}  // namespace tvm
