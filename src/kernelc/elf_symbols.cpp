#include "kernelc/elf_symbols.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "closure/schema.h"

namespace met::kernelc {
namespace {

constexpr unsigned char kCudaEntry = 0x10;  // st_other bit of a kernel in a cubin

/// The structure at an offset, where the file holds it whole.
template <class T>
std::optional<T> read_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T out;
  std::memcpy(&out, bytes.data() + offset, sizeof out);
  return out;
}

Binding binding_of(unsigned char info) {
  switch (ELF64_ST_BIND(info)) {
    case STB_GLOBAL:
      return Binding::kGlobal;
    case STB_WEAK:
      return Binding::kWeak;
    case STB_GNU_UNIQUE:
      return Binding::kUnique;
    default:
      return Binding::kLocal;
  }
}

bool collect(std::string_view bytes, const Elf64_Shdr& table, const Elf64_Shdr& names,
             std::vector<Symbol>& out) {
  if (table.sh_entsize != sizeof(Elf64_Sym)) return false;
  for (std::uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
    const auto symbol = read_at<Elf64_Sym>(bytes, table.sh_offset + i * sizeof(Elf64_Sym));
    if (!symbol || symbol->st_name >= names.sh_size) return false;
    if (names.sh_offset > bytes.size() || bytes.size() - names.sh_offset < names.sh_size) return false;
    const Binding binding = binding_of(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || binding == Binding::kLocal) continue;
    const std::string_view pool = bytes.substr(names.sh_offset, names.sh_size);
    const std::string_view name = pool.substr(symbol->st_name);
    out.push_back({std::string(name.substr(0, name.find('\0'))), binding,
                   ELF64_ST_TYPE(symbol->st_info) == STT_FUNC, (symbol->st_other & kCudaEntry) != 0});
  }
  return true;
}

}  // namespace

Result<std::vector<Symbol>> defined_symbols(const std::filesystem::path& path) {
  MET_ASSIGN(const std::string bytes, closure::read_text(path));
  const auto broken = [&] { return corrupt(path.string(), "is no 64-bit little-endian ELF file"); };
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return broken();
  std::vector<Symbol> out;
  for (int i = 0; i < header->e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return broken();
    if (section->sh_type != SHT_SYMTAB) continue;
    const auto names = read_at<Elf64_Shdr>(bytes, header->e_shoff + section->sh_link * sizeof(Elf64_Shdr));
    if (!names || !collect(bytes, *section, *names, out)) return broken();
  }
  return out;
}

}  // namespace met::kernelc
