#include "support/test_data.h"

#include <cstdlib>

namespace itif::testing {

std::string test_data(const std::string& path) {
  const char* const configured = std::getenv("ITIF_TEST_DATA");
  return std::string(configured != nullptr ? configured : ITIF_TEST_DATA) + "/" + path;
}

}  // namespace itif::testing
