// The folder tests/data: the one that ITIF_TEST_DATA in the environment names, as in a bundle
// (tools/gpu-check), else the source tree's. A program links test_data.cc, compiled with the macro
// ITIF_TEST_DATA.
#pragma once

#include <string>

namespace itif::testing {

std::string test_data(const std::string& path);

}  // namespace itif::testing
