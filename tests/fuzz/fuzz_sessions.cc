// The table of sessions and their replay windows, against a simple model: a map of sessions, each
// with the set of the numbers that it has seen.
//
//   input = { u8: the operation and the session; its numbers }*
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "base/check.h"
#include "base/share.h"
#include "input.h"
#include "net/sessions.h"

namespace {

using namespace itif;

constexpr uint32_t kMaxSessions = 6;
constexpr uint32_t kTenants = 3;
constexpr uint64_t kIdleNs = 1000;

struct Model {
  uint32_t tenant = 0;
  uint64_t last_ns = 0;
  uint64_t newest = 0;
  std::set<uint64_t> seen;

  // Source: RFC 6479, with a window of ReplayWindow::kWindow numbers.
  bool is_fresh(uint64_t number) const {
    if (number > newest) return true;
    return newest - number < net::ReplayWindow::kWindow && !seen.contains(number);
  }
};

class Run {
 public:
  explicit Run(fuzz::Input& input) : input_(input) {}

  void step() {
    const uint8_t what = input_.u8();
    const uint8_t which = what >> 3 & 15;
    switch (what & 7) {
      case 0: return create(which, input_.u64());
      case 1: return create(which, 10'000);
      case 2: return see(which, input_.u64());
      case 3: return see_near(which, static_cast<int16_t>(input_.u16()));
      case 4: return see_near(which, static_cast<int8_t>(input_.u8()));
      case 5: return see_near(which, 1);
      case 6: now_ns_ += input_.u16(); return;
      case 7: return expire(which);
    }
  }

  void check_all() {
    CHECK(table_.size() == models_.size());
    for (uint8_t which = 0; which < 16; ++which)
      CHECK((find(which) != nullptr) == models_.contains(which));
  }

 private:
  static net::SessionKey key(uint8_t which) {
    net::Endpoint peer;
    peer.ip_version = which & 8 ? 6 : 4;
    peer.peer_address = {198, 18, 0, static_cast<uint8_t>(1 + (which >> 2 & 1))};
    peer.peer_port = static_cast<uint16_t>(40'000 + (which >> 1 & 1));
    return net::session_key(which % kTenants, 77 + (which & 1), peer);
  }

  net::Session* find(uint8_t which) { return table_.find(key(which), table_.hash_of(key(which))); }

  void create(uint8_t which, uint64_t first) {
    if (models_.contains(which)) return;
    const uint32_t tenant = which % kTenants;
    const auto own = static_cast<uint64_t>(
        std::ranges::count_if(models_, [&](const auto& m) { return m.second.tenant == tenant; }));
    const bool has_room = within_share(own, 1, models_.size(), kMaxSessions);
    net::Session* session =
        table_.create(key(which), table_.hash_of(key(which)), tenant, first, now_ns_);
    CHECK((session != nullptr) == has_room);
    if (session == nullptr) return;
    CHECK(session->token == 0 && session->token_until_ns == 0 && session->last_ns == now_ns_);
    models_[which] = {tenant, now_ns_, first, {first}};
  }

  void see_near(uint8_t which, int64_t distance) {
    const auto found = models_.find(which);
    if (found != models_.end()) see(which, found->second.newest + static_cast<uint64_t>(distance));
  }

  void see(uint8_t which, uint64_t number) {
    net::Session* session = find(which);
    const auto found = models_.find(which);
    CHECK((session != nullptr) == (found != models_.end()));
    if (session == nullptr) return;
    Model& model = found->second;
    CHECK(session->window.is_fresh(number) == model.is_fresh(number));
    if (!model.is_fresh(number)) return;
    session->window.add(number);
    session->last_ns = model.last_ns = now_ns_;
    model.seen.insert(number);
    model.newest = std::max(model.newest, number);
    CHECK(!session->window.is_fresh(number));
  }

  void expire(uint8_t count) {
    table_.expire(now_ns_, count);
    // The table may look at any sessions, and frees only idle ones. kMaxSessions places are all.
    std::erase_if(models_, [&](const auto& entry) {
      const bool is_idle = now_ns_ - entry.second.last_ns > kIdleNs;
      const bool is_gone = find(entry.first) == nullptr;
      CHECK(is_idle || !is_gone);
      CHECK(is_gone || !is_idle || count < kMaxSessions);
      return is_gone;
    });
  }

  fuzz::Input& input_;
  net::SessionTable table_{
      {.max_sessions = kMaxSessions, .max_tenants = kTenants, .idle_ns = kIdleNs}, 1};
  std::map<uint8_t, Model> models_;
  uint64_t now_ns_ = 5000;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  fuzz::Input input(data, size);
  Run run(input);
  while (!input.empty()) {
    run.step();
    run.check_all();
  }
  return 0;
}
