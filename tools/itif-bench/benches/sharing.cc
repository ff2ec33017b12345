// itif-bench sharing: GSLICE's Table 1, tenants that share weights against tenants with copies of
// their own. Cases: identical models; one frozen encoder under different heads; half of the layers
// fine-tuned; all of them. Each tenant's model is a directory of its own.
//
// Its columns: the size of the model's file, the time to load a further tenant, the device memory
// that one takes, and the number of tenants that would fit the device's free memory, up to an
// appliance's 4,096. Beyond it: the tokens/s of a batch of all tenants, against the same requests
// to one of them; and that of a few tenants, with copies of their own and sharing: equal layers
// then run in one GEMM.
//
// Answers of a tenant that shares must equal those of the same tenant alone in its group.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>

#include "backbone/family.h"
#include "benches.h"
#include "make_model.h"
#include "report/gslice_rows.h"
#include "runtime/batch/make_encoder_group.h"
#include "tenant/snapshot.h"
#include "workload/devices.h"
#include "workload/model_folder.h"
#include "workload/tenant_load.h"

namespace itif::bench {
namespace {

constexpr uint32_t kSharingTokens = 32;  // of each request
// Copies in the group without sharing: enough for a median, few enough for any machine.
constexpr uint32_t kMaxCopies = 5;

struct SharingSize {
  const char* preset;
  uint32_t num_tenants;
  std::string_view network;  // of the paper's Table 1, by the size of its parameters
};
constexpr SharingSize kSharingSizes[] = {{"minilm-l6", 100, "ResNet-50"},
                                         {"bert-base", 8, "ResNet-152"}};
constexpr SharingSize kQuickSharingSizes[] = {{"bert-tiny", 6, "ResNet-50"}};

struct SharingCase {
  const char* name;
  // Returns true if a tenant's tensor has values of its own.
  bool (*is_own)(const std::string& tensor, uint32_t num_layers);
};

bool is_of_head(const std::string& tensor) {
  return tensor.find("pooler") != std::string::npos || tensor.starts_with("classifier");
}

bool is_of_upper_half(const std::string& tensor, uint32_t num_layers) {
  constexpr std::string_view kLayer = "encoder.layer.";
  const size_t at = tensor.find(kLayer);
  return at != std::string::npos &&
         std::strtoul(tensor.c_str() + at + kLayer.size(), nullptr, 10) >= num_layers / 2;
}

// The only case of the paper, whose instances of a network have equal parameters.
constexpr const char* kIdenticalModels = "identical models";
constexpr SharingCase kSharingCases[] = {
    {kIdenticalModels, [](const std::string&, uint32_t) { return false; }},
    {"one frozen encoder", [](const std::string& tensor, uint32_t) { return is_of_head(tensor); }},
    {"half of the layers tuned",
     [](const std::string& tensor, uint32_t num_layers) {
       return is_of_head(tensor) || is_of_upper_half(tensor, num_layers);
     }},
    {"nothing shared", [](const std::string&, uint32_t) { return true; }},
};

// All requests as one batch.
TenantLoad load_of(const std::vector<uint32_t>& slots) {
  return {slots, kSharingTokens, static_cast<uint32_t>(slots.size())};
}

// A group that is filled tenant by tenant.
struct SharingGroup {
  std::unique_ptr<runtime::EncoderGroup> group;
  std::unique_ptr<device::Stream> stream;
  std::vector<uint32_t> slots;
  Samples load;             // of all tenants but the first
  double memory_bytes = 0;  // of a further tenant, the mean
  uint64_t first_bytes = 0;

  static Result<SharingGroup> make(device::Device& device, const model::BackboneSpec& spec,
                                   uint32_t num_tenants, bool shares_weights) {
    SharingGroup made;
    ITIF_ASSIGN(made.group, runtime::make_encoder_group(device, spec,
                                                        {.max_tokens = kSharingTokens * num_tenants,
                                                         .max_requests = num_tenants,
                                                         .max_tenants = num_tenants,
                                                         .shares_weights = shares_weights}));
    ITIF_ASSIGN(made.stream, device.make_stream(made.group->stream_limits()));
    made.stream->attach_thread();
    return made;
  }
  Status admit(const std::string& directory) {
    const uint64_t before_ns = kSystemClock.now_ns();
    ITIF_ASSIGN(const uint32_t slot, group->admit(directory, nullptr));
    if (slots.empty())
      first_bytes = group->weight_bytes();
    else
      load.add(static_cast<double>(kSystemClock.now_ns() - before_ns));
    slots.push_back(slot);
    if (slots.size() > 1)
      memory_bytes = static_cast<double>(group->weight_bytes() - first_bytes) /
                     static_cast<double>(slots.size() - 1);
    return {};
  }
  std::ptrdiff_t size() const { return static_cast<std::ptrdiff_t>(slots.size()); }
  // Tenants that fit `available` bytes, of an appliance's at most: the first, then others of
  // memory_bytes, which is 0 if these share everything.
  double num_fitting(double available) const {
    const double left = available - static_cast<double>(first_bytes);
    if (left < 0) return 0;
    return std::min<double>(tenant::kMaxTenants, 1 + std::floor(left / memory_bytes));
  }
};

// The last tenant's answer in a group that shares, against that in a group without others.
Status check_sharing(device::Device& device, const model::BackboneSpec& spec, SharingGroup& shared,
                     const std::string& directory) {
  ITIF_ASSIGN(SharingGroup alone, SharingGroup::make(device, spec, 1, false));
  ITIF_TRY(alone.admit(directory));
  TenantLoad with_others = load_of(shared.slots), by_itself = load_of(alone.slots);
  ITIF_TRY(with_others.run(*shared.group, *shared.stream));
  ITIF_TRY(by_itself.run(*alone.group, *alone.stream));
  const std::vector<float> a = with_others.logits(shared.slots.size() - 1), b = by_itself.logits(0);
  const double tolerance = device.info().compute.activations == DType::kF32 ? 1e-4 : 0.05;
  for (size_t i = 0; i < b.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(1.0f, std::abs(b[i]))))
      return fail(Code::kInternal,
                  fmt::format("a tenant answers {} alone, and {} with others", b[i], a[i]));
  return {};
}

Status time_batches(const BenchOptions& options, const std::string& name, SharingGroup& shared,
                    SharingGroup& copies, Report& report) {
  Status status;
  const auto run = [&](TenantLoad& load, SharingGroup& group) {
    if (Status ran = load.run(*group.group, *group.stream); !ran) status = std::move(ran);
  };
  TenantLoad alone = load_of(copies.slots);
  TenantLoad together = load_of({shared.slots.begin(), shared.slots.begin() + copies.size()});
  const std::vector<Samples> few =
      measure({[&] { run(alone, copies); }, [&] { run(together, shared); }}, options.effort());
  ITIF_TRY(std::move(status));
  TenantLoad all = load_of(shared.slots);
  TenantLoad one = load_of(std::vector<uint32_t>(shared.slots.size(), shared.slots.front()));
  const std::vector<Samples> samples =
      measure({[&] { run(all, shared); }, [&] { run(one, shared); }}, options.effort());
  ITIF_TRY(std::move(status));
  const auto rate_of = [](const TenantLoad& load, const Samples& times) {
    return static_cast<double>(load.num_tokens()) / times.median() * 1e9;
  };
  add_shared_pair([&](Row row) { report.add(std::move(row)); }, name,
                  {.what = fmt::format("tokens/s of {} tenants", copies.size()),
                   .unit = "tokens/s",
                   .alone = rate_of(alone, few[0]),
                   .shared = rate_of(together, few[1])},
                  nullptr);
  const auto rate = [&](const Samples& times) { return rate_of(all, times); };
  report.add({.name = name,
              .mode = fmt::format("tokens/s of {} tenants", shared.slots.size()),
              .value = rate(samples[0]),
              .unit = "tokens/s",
              .spread = samples[0].spread(),
              .limit = rate(samples[1]),
              .limit_spread = samples[1].spread(),
              .ratio = rate(samples[0]) / rate(samples[1])});
  return {};
}

Status run_sharing_case(const BenchOptions& options, device::Device& device,
                        const std::string& dtype, const SharingSize& size,
                        const SharingCase& sharing, Report& report) {
  const std::string name = fmt::format("{}, {}, {}", size.preset, sharing.name, dtype);
  if (!options.wants_any({name, sharing.name})) return {};
  ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(size.preset));
  const double available = static_cast<double>(device.available_bytes());
  ITIF_ASSIGN(SharingGroup shared,
              SharingGroup::make(device, preset->spec, size.num_tenants, true));
  ITIF_ASSIGN(SharingGroup copies, SharingGroup::make(device, preset->spec, kMaxCopies, false));
  ITIF_ASSIGN(const ModelFolder models, ModelFolder::make());
  double file_bytes = 0;
  for (uint32_t tenant = 0; tenant < size.num_tenants; ++tenant) {
    const std::string directory = (models.path() / std::to_string(tenant)).string();
    mkmodel::ModelOptions model;
    model.spec = preset->spec;
    model.head = mkmodel::HeadChoice::kClassification;
    model.dtype = DType::kBF16;
    model.is_tuned = [&](const std::string& tensor) {
      return tenant > 0 && sharing.is_own(tensor, preset->spec.layers);
    };
    model.tuned_seed = 100 + tenant;
    ITIF_TRY(mkmodel::make_model(model, directory));
    std::error_code error;
    file_bytes =
        static_cast<double>(std::filesystem::file_size(directory + "/model.safetensors", error));
    // A case without sharing is as large as its copies.
    const Status admitted = shared.admit(directory);
    if (!admitted && admitted.error().code == Code::kResourceExhausted && tenant > 1) {
      report.note(fmt::format("{}: {} tenants fit", name, tenant));
      break;
    }
    ITIF_TRY(admitted);
    if (copies.slots.size() < kMaxCopies) ITIF_TRY(copies.admit(directory));
    if (tenant + 1 == size.num_tenants)
      ITIF_TRY(check_sharing(device, preset->spec, shared, directory));
    std::filesystem::remove_all(directory, error);
  }
  constexpr double kMb = 1e6;
  const StatedSharing* stated =
      std::string_view(sharing.name) == kIdenticalModels
          ? std::ranges::find(kStatedSharings, size.network, &StatedSharing::network)
          : nullptr;
  const AddRow add = [&](Row row) { report.add(std::move(row)); };
  add_model_size(add, name, file_bytes / kMb, stated);
  for (const SharedPair& pair :
       {SharedPair{kLoadTime, "ms", copies.load.median() / 1e6, shared.load.median() / 1e6},
        SharedPair{kTenantMemory, "MB", copies.memory_bytes / kMb, shared.memory_bytes / kMb},
        SharedPair{kTenantsThatFit, "tenants", copies.num_fitting(available),
                   shared.num_fitting(available), true}})
    add_shared_pair(add, name, pair, stated);
  return time_batches(options, name, shared, copies, report);
}

}  // namespace

Status bench_sharing(const BenchOptions& options, Report& report) {
  const std::span<const SharingSize> sizes =
      options.quick ? std::span<const SharingSize>(kQuickSharingSizes) : kSharingSizes;
  for (const StatedSharing& stated : kStatedSharings) report.note(sharing_text(stated));
  for (const SharingSize& size : sizes)
    report.note(fmt::format("`[…]` beside identical models of {}: GSLICE's {}{}", size.preset,
                            size.network,
                            options.quick ? ", a far larger one" : ", of about its size"));
  report.note(
      "GSLICE's memory and instances are of CNTK's processes on a Tesla V100 with 16 GB, with "
      "activations and runtime; ours are of weights alone. Its text says 8 to 10 times as fast "
      "loads, its table 4.8 to 14.6 times");
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        for (const SharingSize& size : sizes)
          for (const SharingCase& sharing : kSharingCases)
            ITIF_TRY(run_sharing_case(options, device, dtype, size, sharing, report));
        return {};
      });
}

}  // namespace itif::bench
