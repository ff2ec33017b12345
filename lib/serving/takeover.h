// The new process's side of a handover: it loads every tenant's model while the old process serves,
// then takes over its ports, endpoints and registry. handover_channel.h has the messages.
//
//   ITIF_ASSIGN(auto takeover, Takeover::begin(fd, config));  // before EAL starts
//   … start EAL with takeover.eal_plan(), create the pipeline beside, open the server beside …
//   … restore the tenants, calling still_wanted() meanwhile …
//   ITIF_TRY(takeover.finish(…));
//   … serve …
//
// Main thread.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "net/eal.h"
#include "pipeline/pipeline.h"
#include "serving/handover_channel.h"
#include "serving/tenant_service.h"

namespace itif::serving {

// Returns why the active version of a tenant is not loaded; empty: it is.
std::string active_failure(const TenantInfo& tenant);

class Takeover {
 public:
  // Reads what the old process passes on from descriptor `fd`. Errors: kInvalidArgument (`fd` is no
  // channel, the ports of the configurations differ), kUnsupported (another version).
  static Result<Takeover> begin(int fd, const config::Config& config);

  std::vector<net::PortInfo> port_infos() const;
  // Returns the arguments that start EAL beside the old process: no devices, another file prefix.
  // Errors: kResourceExhausted (hugepages for two processes).
  Result<net::EalPlan> eal_plan(const std::vector<std::string>& args, uint32_t needed_mb);

  // Checks the device that this process has opened. Errors: kUnavailable (kind "auto" has chosen
  // the host, while the old process has a GPU).
  Status check_device(const std::string& configured, const device::DeviceInfo& opened) const;

  // Reports progress. Returns false if the old process has ended: this one must, too.
  bool still_wanted(const TenantService& service);
  // Switches: waits for the old process's word, opens the ports, calls `serve`, which must take the
  // registry and the endpoints and start the workers. If the old process dies meanwhile, the
  // takeover goes on. Errors: kUnavailable (the old process has ended, or a version is not loaded
  // that the old process serves), those of the ports and of `serve`.
  Status finish(pipeline::Pipeline& plane, const TenantService& service,
                const std::function<Status()>& serve);
  // Tells the old process why this one ends.
  void report_failure(const Error& error);
  // Returns true once the old process has ended; completes what had to wait for that.
  bool old_process_has_ended();
  // Returns the process id of the old process; 0: it has ended. Any thread, after finish().
  pid_t old_process() const;

 private:
  Takeover(HandoverChannel channel, Inheritance inheritance, std::string log_file)
      : channel_(std::move(channel)),
        inheritance_(std::move(inheritance)),
        log_file_(std::move(log_file)),
        old_process_(::getppid()) {}
  Status check_tenants(const TenantService& service) const;
  // Waits for a step. Returns false if the old process has ended.
  bool wait_for(const std::string& step);

  HandoverChannel channel_;
  Inheritance inheritance_;
  std::string log_file_;  // opened once this process serves
  pid_t old_process_;
  std::string file_prefix_;
  std::vector<std::string> devices_;
};

}  // namespace itif::serving
