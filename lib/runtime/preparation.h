// What stands between a request's payload and a batch: checked against the model that is to run it, texts
// tokenised, token types found, pictures resized. Each refusal is the request's own status.
//
// Ids and pixels that can stay where they arrived do; what has to be made is kept until the request is
// released (Request::prepared). Shared by all executors; one owner thread.
#pragma once

#include <string>

#include "model/image_resize.h"
#include "model/tenant_model.h"
#include "request/request.h"
#include "runtime/text_pool.h"
#include "wire/header.h"

namespace itif::runtime {

// Why a request does not run; kOk: it does.
struct Refusal {
  wire::StatusCode status = wire::StatusCode::kOk;
  const char* detail = "";  // a literal, one sentence

  explicit operator bool() const noexcept { return status != wire::StatusCode::kOk; }
};

struct PreparationOptions {
  uint32_t max_tokens = 1024;  // of a request
  model::ImageInput image;     // of models that take images
  // Models that generate: one text, no token types, and the ids' range is checked here, since nothing
  // later does.
  bool generates = false;
  size_t text_bytes = 0;  // longer texts make the scratch grow once
};

class Preparation {
 public:
  explicit Preparation(const PreparationOptions& options);

  // Sets num_tokens and, where something was made, prepared.
  Refusal prepare(request::Request& request, const model::TenantModel& model) noexcept;
  // A picture of another size than the model's, when it is the request's turn: a resize may cost as much
  // as the model, so whoever floods a group with large pictures pays for them with its turns, and only a
  // batch's worth of resized ones is ever held. REQUIRES: prepare() has let it pass.
  Refusal resize(request::Request& request, const model::TenantModel& model) noexcept;
  // Gives back what was made.
  void release(request::Request& request) noexcept;
  // What was made; nullptr: nothing.
  const PreparedText* made(const request::Request& request) noexcept {
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

  const PreparationOptions options_;
  TextPool texts_;
  std::string payload_;  // scratch: one payload in one place
  model::PictureResizer resizer_;
};

}  // namespace itif::runtime
