// The client library, whole: include this, or only the parts.
//   blocking_client.h   one request at a time: the simplest way to ask
//   engine.h            many requests in flight, no threads or sockets of its own
//   socket_transport.h  the engine's way to a server over UDP sockets
//   result.h            what the bytes of a response mean
#pragma once

#include "client/blocking_client.h"
#include "client/engine.h"
#include "client/result.h"
#include "client/socket_transport.h"
#include "client/transport.h"
#include "client/types.h"
