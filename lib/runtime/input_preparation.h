// Prepares a request's payload for a batch: checks it against its model, tokenises text, finds
// token types, resizes pictures. A refusal becomes the request's own status.
//
// Ids and pixels stay where they arrived if possible. Prepared input is kept until the request is
// released (Request::prepared). Used by both executors; one owner thread.
#pragma once

#include <string>

#include "model/image_resize.h"
#include "model/tenant_model.h"
#include "request/request.h"
#include "runtime/input_pool.h"
#include "wire/header.h"

namespace itif::runtime {

// Why a request cannot run; kOk: it can.
struct Refusal {
  wire::StatusCode status = wire::StatusCode::kOk;
  const char* detail = "";  // a literal, one sentence

  explicit operator bool() const noexcept { return status != wire::StatusCode::kOk; }
};

struct InputOptions {
  uint32_t max_tokens = 1024;  // of a request
  model::ImageInput image;     // for models that take images
  // Models that generate take one text and no token types. The ids' range is checked here, since no
  // later stage checks it.
  bool generates = false;
  size_t text_bytes = 0;  // scratch size; longer texts make it grow once
};

class InputPreparation {
 public:
  explicit InputPreparation(const InputOptions& options);

  // Sets num_tokens, and `prepared` if it had to make token ids or types.
  Refusal prepare(request::Request& request, const model::TenantModel& model) noexcept;
  // Resizes a picture whose size is not the model's. Called when the request is in the chosen
  // batch: a resize may cost as much as the model, so a tenant that floods with large pictures pays
  // for them with its share, and at most a batch's resized pictures are held. REQUIRES: prepare()
  // has accepted the request.
  Refusal resize(request::Request& request, const model::TenantModel& model) noexcept;
  // Releases the prepared input.
  void release(request::Request& request) noexcept;
  // Returns the prepared input; nullptr: none.
  const PreparedInput* made(const request::Request& request) noexcept {
    return request.prepared ? &texts_[request.prepared] : nullptr;
  }

 private:
  Refusal prepare_ids(request::Request& request, const model::TenantModel& model) noexcept;
  Refusal prepare_types(request::Request& request, const model::TenantModel& model,
                        uint32_t id_bytes) noexcept;
  Refusal prepare_text(request::Request& request, const model::TenantModel& model) noexcept;
  Refusal prepare_image(request::Request& request, const model::TenantModel& model) noexcept;
  Refusal make(request::Request& request) noexcept;
  Refusal collect(const request::Request& request) noexcept;

  const InputOptions options_;
  InputPool texts_;
  std::string payload_;  // scratch: one payload, contiguous
  model::PictureResizer resizer_;
};

}  // namespace itif::runtime
