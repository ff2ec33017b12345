// "ipc://PATH" endpoints. The socket file is accessible to its owner only. A stale file of a
// crashed server is replaced; the file of a live server is not.
#pragma once

#include <string>

#include "base/error.h"
#include "control/file.h"

namespace itif::control {

// Returns PATH of "ipc://PATH". Errors: kInvalidArgument (another transport, an abstract or
// wildcard name, a relative path, a path too long for a socket address).
Result<std::string> ipc_path(const std::string& endpoint);

// Returns a stream socket that listens on `path` (mode 0600); makes its directory (0700). The
// caller unlinks the file. Errors: kUnavailable (a server listens there), kPermission,
// kInvalidArgument (`path` exists and is not a socket).
Result<Descriptor> listen_on_ipc(const std::string& path);

// Succeeds if a server accepts connections on `path`. Errors: kNotFound (no file), kUnavailable (no
// server listens), kPermission.
Status probe_ipc(const std::string& path);

}  // namespace itif::control
