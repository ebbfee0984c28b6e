# Writes a C++ file that defines a table of the given files, each a met::EmbeddedFile.
#   cmake -DOUT=file.cpp -DFILES=a;b -DDECL=header -DTABLE=qualified_function -P embed_files.cmake
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  file(SHA256 ${file} digest)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(MAKE_C_IDENTIFIER "${name}" id)
  string(APPEND arrays "constexpr char k_${id}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", {k_${id}, sizeof k_${id} - 1}, \"${digest}\"},\n")
endforeach()
file(WRITE ${OUT}.new "#include \"${DECL}\"\n\nnamespace {\n\n${arrays}\nconstexpr met::EmbeddedFile kTable[] = {\n${rows}};\n\n}  // namespace\n\nstd::span<const met::EmbeddedFile> ${TABLE}() { return kTable; }\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
