#include "tests/golden/npz.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace met::golden {

namespace {

template <class T>
T load(const std::string& bytes, std::size_t at) {
  T v{};
  if (at + sizeof v > bytes.size()) throw std::runtime_error("truncated archive");
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

template <class T>
void append(const std::string& bytes, std::size_t at, std::size_t count, std::vector<double>& out) {
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<double>(load<T>(bytes, at + i * sizeof(T))));
}

Array read_npy(const std::string& bytes, std::size_t at) {
  const auto header_size = load<std::uint16_t>(bytes, at + 8);
  const std::string header = bytes.substr(at + 10, header_size);
  Array array;
  std::size_t count = 1;
  const auto open = header.find('(');
  const std::string dims = header.substr(open + 1, header.find(')') - open - 1);
  for (std::size_t i = 0; i < dims.size();) {
    std::size_t used = 0;
    array.shape.push_back(std::stoul(dims.substr(i), &used));
    count *= array.shape.back();
    i = dims.find_first_of("0123456789", std::min(dims.find(',', i + used), dims.size()));
    if (i == std::string::npos) break;
  }
  const std::size_t data = at + 10 + header_size;
  const auto type = header.substr(header.find("'descr': '") + 10, 3);
  if (type == "<f4")
    append<float>(bytes, data, count, array.values);
  else if (type == "<f8")
    append<double>(bytes, data, count, array.values);
  else if (type == "<i4")
    append<std::int32_t>(bytes, data, count, array.values);
  else if (type == "<i8")
    append<std::int64_t>(bytes, data, count, array.values);
  else
    throw std::runtime_error("array of type " + type);
  return array;
}

}  // namespace

std::map<std::string, Array> read_npz(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::map<std::string, Array> arrays;
  for (std::size_t at = 0; at + 4 <= bytes.size() && load<std::uint32_t>(bytes, at) == 0x04034b50;) {
    const auto method = load<std::uint16_t>(bytes, at + 8);
    auto size = static_cast<std::size_t>(load<std::uint32_t>(bytes, at + 18));
    const auto name_size = load<std::uint16_t>(bytes, at + 26);
    const auto extra_size = load<std::uint16_t>(bytes, at + 28);
    if (method != 0) throw std::runtime_error(path + ": compressed member");
    const std::string name = bytes.substr(at + 30, name_size);
    if (size == 0xFFFFFFFF)
      size = load<std::uint64_t>(bytes, at + 30 + name_size + 12);  // zip64: compressed size
    const std::size_t data = at + 30 + name_size + extra_size;
    arrays[name.substr(0, name.size() - 4)] = read_npy(bytes, data);
    at = data + size;
  }
  if (arrays.empty()) throw std::runtime_error(path + ": no arrays");
  return arrays;
}

}  // namespace met::golden
