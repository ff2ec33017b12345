// Includes the whole client library. Its parts:
//
//   blocking_client.h   sends one request at a time: the simplest interface
//   engine.h            many requests in flight; has no threads or sockets
//   socket_transport.h  connects an engine to a server over UDP sockets
//   result.h            decodes the bytes of a response
#pragma once

#include "client/blocking_client.h"
#include "client/engine.h"
#include "client/result.h"
#include "client/socket_transport.h"
#include "client/transport.h"
#include "client/types.h"
