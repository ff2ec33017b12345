// Requests to a group, without packets: ids are cut into pieces like datagrams.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/batch/encoder_group.h"

namespace itif::testing {

struct TestRequest {
  uint32_t slot = 0;
  std::vector<uint32_t> ids = {};
  std::vector<uint8_t> token_types = {};
  wire::ResultKind kind = wire::ResultKind::kDefault;
  uint8_t id_bytes = 4;
  uint32_t ids_per_piece = 16;
  uint32_t padding = 0;  // rows after its tokens
  uint32_t score_matrix = plan::kOwnScores;
};

struct Answer {
  wire::StatusCode status = wire::StatusCode::kInternal;
  wire::ResultKind kind = wire::ResultKind::kDefault;
  std::string detail;
  std::vector<std::byte> bytes;
  uint32_t rows = 0;

  bool ok() const { return status == wire::StatusCode::kOk; }
  std::vector<float> floats() const {
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
};

// A batch of inputs as requests, and the memory that their ids lie in.
class TestBatch {
 public:
  explicit TestBatch(const std::vector<TestRequest>& inputs)
      : inputs_(inputs),
        requests_(inputs.size()),
        prepared_(inputs.size()),
        segments_(inputs.size()),
        storage_(inputs.size()),
        pieces_(inputs.size()) {
    for (size_t i = 0; i < inputs_.size(); ++i) lay_out(i);
  }
  TestBatch(const TestBatch&) = delete;
  TestBatch& operator=(const TestBatch&) = delete;

  runtime::Batch batch() { return {segments_}; }
  std::vector<runtime::BatchRequest>& segments() { return segments_; }
  std::vector<request::Request>& requests() { return requests_; }
  // Frees the results. REQUIRES: called once, after the group has finished the batch.
  std::vector<Answer> answers() {
    std::vector<Answer> answers(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
      const request::Request& r = requests_[i];
      answers[i] = {r.status, r.result_kind_out, r.detail, {}, r.result_rows};
      if (r.result.data) answers[i].bytes.assign(r.result.data, r.result.data + r.result.bytes);
      std::free(r.result.data);
    }
    return answers;
  }

 private:
  void lay_out(size_t i) {
    const TestRequest& input = inputs_[i];
    storage_[i].resize(input.ids.size() + 1);
    auto* bytes = reinterpret_cast<std::byte*>(storage_[i].data());
    for (size_t t = 0; t < input.ids.size(); ++t)
      std::memcpy(bytes + t * input.id_bytes, &input.ids[t], input.id_bytes);
    for (uint32_t t = 0; t < input.ids.size(); t += input.ids_per_piece) {
      const auto left = static_cast<uint32_t>(input.ids.size()) - t;
      pieces_[i].push_back({bytes + size_t{t} * input.id_bytes,
                            std::min(input.ids_per_piece, left) * input.id_bytes});
    }
    request::Request& request = requests_[i];
    request.slot = input.slot;
    request.payload_kind =
        input.id_bytes == 4 ? wire::PayloadKind::kTokensU32 : wire::PayloadKind::kTokensU16;
    request.result_kind = input.kind;
    request.payload_bytes = static_cast<uint32_t>(input.ids.size() * input.id_bytes);
    request.num_tokens = static_cast<uint32_t>(input.ids.size());
    request.pieces = pieces_[i];
    prepared_[i].token_types = input.token_types;
    segments_[i] = {.request = &request,
                    .prepared = &prepared_[i],
                    .num_rows = request.num_tokens + input.padding,
                    .score_matrix = input.score_matrix};
  }

  const std::vector<TestRequest> inputs_;
  std::vector<request::Request> requests_;
  std::vector<runtime::PreparedInput> prepared_;  // token types
  std::vector<runtime::BatchRequest> segments_;
  std::vector<std::vector<uint32_t>> storage_;  // 4-byte aligned
  std::vector<std::vector<request::Piece>> pieces_;
};

// Runs one batch. `fault` receives forward()'s status.
inline std::vector<Answer> run_batch(runtime::EncoderGroup& group, device::Stream& stream,
                                     const std::vector<TestRequest>& inputs,
                                     Status* fault = nullptr) {
  TestBatch test_batch(inputs);
  runtime::Batch batch = test_batch.batch();
  Status status = group.forward(stream, batch);
  if (fault) *fault = std::move(status);
  return test_batch.answers();
}

inline double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return 1e30;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= most)) most = difference;  // NaN counts
  }
  return most;
}

inline double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return -1;
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace itif::testing
