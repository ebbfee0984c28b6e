// Reads the arrays of an uncompressed .npz (a zip of .npy files), as numpy.savez writes them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace met::golden {

struct Array {
  std::vector<std::size_t> shape;
  std::vector<double> values;  ///< f4, f8, i4 and i8 arrays, row-major
};

/// All arrays by name without ".npy". Throws std::runtime_error with the file's name on anything unexpected.
std::map<std::string, Array> read_npz(const std::string& path);

}  // namespace met::golden
