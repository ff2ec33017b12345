// Where the tests find tests/data: in the folder that ITIF_TEST_DATA in the environment names, as in a bundle
// (tools/gpu-check), else where the build was told that it is.
#pragma once

#include <cstdlib>
#include <string>

namespace itif::testing {

inline std::string test_data(const std::string& path) {
  const char* const told = std::getenv("ITIF_TEST_DATA");
  return std::string(told != nullptr ? told : ITIF_TEST_DATA) + "/" + path;
}

}  // namespace itif::testing
