// "ipc://PATH" endpoints: the socket file is its owner's alone, one left behind by a crash is
// replaced, one that a live server listens on is not.
#pragma once

#include <string>

#include "base/error.h"
#include "control/file.h"

namespace itif::control {

// PATH of "ipc://PATH". Errors: kInvalidArgument (another transport, an abstract or wildcard name,
// relative, too long for a socket address).
Result<std::string> ipc_path(const std::string& endpoint);

// A listening stream socket on `path` with mode 0600; its directory is made (0700) if it is not
// there. The caller unlinks the file. Errors: kUnavailable (a server listens there), kPermission,
// kInvalidArgument (something else than a socket is there).
Result<Descriptor> listen_on_ipc(const std::string& path);

// Whether a server accepts on `path` now. Errors: kNotFound (no file), kUnavailable (nobody
// listens), kPermission.
Status probe_ipc(const std::string& path);

}  // namespace itif::control
