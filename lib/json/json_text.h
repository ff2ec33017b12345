// Checks of a JSON text before it is parsed.
#pragma once

#include <string_view>

namespace itif {

// Returns the nesting depth of a JSON text without parsing it: building the value first would
// already use the memory. The result is meaningless if the text is not JSON; the parser refuses it.
int json_depth(std::string_view text);

}  // namespace itif
