// The directory into which a model or an adapter is written.
#pragma once

#include <string>

#include "base/error.h"

namespace itif::mkmodel {

// Creates `directory` if it is missing. Errors: kAlreadyExists (it holds files of a model or of an
// adapter, perhaps of a tenant that serves), kPermission.
Status make_output_directory(const std::string& directory);

}  // namespace itif::mkmodel
