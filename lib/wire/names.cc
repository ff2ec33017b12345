// Names of the wire format's enumerators in documents, logs and JSON.
#include "wire/datagram.h"
#include "wire/header.h"

namespace itif::wire {

const char* type_name(Type type) {
  switch (type) {
    case Type::kRequest: return "request";
    case Type::kResponse: return "response";
    case Type::kStatus: return "status";
    case Type::kResend: return "resend";
    case Type::kBusy: return "busy";
    case Type::kAck: return "ack";
    case Type::kHello: return "hello";
    case Type::kToken: return "token";
    case Type::kPing: return "ping";
    case Type::kPong: return "pong";
  }
  return "?";
}

const char* auth_name(Auth auth) {
  switch (auth) {
    case Auth::kNone: return "none";
    case Auth::kHeader: return "header";
    case Auth::kFull: return "full";
    case Auth::kSealed: return "sealed";
  }
  return "?";
}

const char* payload_kind_name(PayloadKind kind) {
  switch (kind) {
    case PayloadKind::kNone: return "none";
    case PayloadKind::kTokensU16: return "tokens_u16";
    case PayloadKind::kTokensU32: return "tokens_u32";
    case PayloadKind::kText: return "text";
    case PayloadKind::kImageU8: return "image_u8";
    case PayloadKind::kImageF32: return "image_f32";
    case PayloadKind::kRaw: return "raw";
  }
  return "?";
}

const char* result_kind_name(ResultKind kind) {
  switch (kind) {
    case ResultKind::kDefault: return "default";
    case ResultKind::kHidden: return "hidden";
    case ResultKind::kPooled: return "pooled";
    case ResultKind::kEmbedding: return "embedding";
    case ResultKind::kLogits: return "logits";
    case ResultKind::kTokenLogits: return "token_logits";
    case ResultKind::kClasses: return "classes";
    case ResultKind::kTokens: return "tokens";
    case ResultKind::kText: return "text";
  }
  return "?";
}

const char* status_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kUnknownTenant: return "unknown_tenant";
    case StatusCode::kNotAdmitted: return "not_admitted";
    case StatusCode::kMalformed: return "malformed";
    case StatusCode::kUnsupportedKind: return "unsupported_kind";
    case StatusCode::kTooLong: return "too_long";
    case StatusCode::kOverQuota: return "over_quota";
    case StatusCode::kOverloaded: return "overloaded";
    case StatusCode::kDeadlineReassembly: return "deadline_reassembly";
    case StatusCode::kDeadlineQueue: return "deadline_queue";
    case StatusCode::kDeadlineLaunch: return "deadline_launch";
    case StatusCode::kDraining: return "draining";
    case StatusCode::kDeviceFailed: return "device_failed";
    case StatusCode::kInternal: return "internal";
    case StatusCode::kBadTag: return "bad_tag";
    case StatusCode::kTokenRequired: return "token_required";
    case StatusCode::kBadEpoch: return "bad_epoch";
  }
  return "?";
}

const char* parse_error_name(ParseError error) {
  switch (error) {
    case ParseError::kNone: return "none";
    case ParseError::kTooShort: return "too_short";
    case ParseError::kBadMagic: return "bad_magic";
    case ParseError::kBadVersion: return "bad_version";
    case ParseError::kBadType: return "bad_type";
    case ParseError::kBadHeaderSize: return "bad_header_size";
    case ParseError::kBadLength: return "bad_length";
    case ParseError::kBadKind: return "bad_kind";
    case ParseError::kBadGeometry: return "bad_geometry";
    case ParseError::kBadField: return "bad_field";
  }
  return "?";
}

}  // namespace itif::wire
