// Reads settings with libconfig++ and catches its exceptions.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "config/reader.h"

namespace itif::config {

// Calls visit() with a reader of the file's root, which must visit every key; unknown ones are
// refused. `example` names a file that shows the keys. Errors: kNotFound (no such file),
// kInvalidArgument (syntax, and what visit() reports), with file and line.
Status read_file(const std::string& path, const std::string& example,
                 const std::function<void(Report&, Reader&)>& visit);

// The same for settings in a string. Errors: kInvalidArgument, with the key, or the syntax error.
Status read_text(const std::string& text, const std::function<void(Report&, Reader&)>& visit);

}  // namespace itif::config
