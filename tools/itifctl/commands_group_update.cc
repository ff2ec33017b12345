// itifctl group update: changes a group's settings while it is serving.
#include <fmt/format.h>

#include <memory>

#include "base/cpu_list.h"
#include "commands.h"
#include "control/group_settings.h"
#include "plan/make_planner.h"
#include "plan/planner_names.h"
#include "sched/policy_names.h"
#include "sched/policy_spec.h"
#include "table.h"

namespace itif::ctl {

using nlohmann::json;

void add_group_update(CommandLine& line, CLI::App* groups) {
  struct Options {
    std::string group, planner, scheduler;
    std::string share, cpus;
    uint32_t weight = 0;
  };
  auto options = std::make_shared<Options>();
  Context& context = line.context;
  CLI::App* update = groups->add_subcommand("update", "Change a group while it is serving");
  add_group_argument(update, options->group);
  CLI::Option* planner = update->add_option("--planner", options->planner, "layout of its batches");
  const std::vector<std::string> planners(plan::kPlannerNames.begin(), plan::kPlannerNames.end());
  planner->check([](const std::string& text) {
    const auto parsed = plan::parse_planner(text);
    return parsed ? std::string() : parsed.error().message;
  });
  planner->type_name("PLANNER");
  line.hints[planner] = {ValueHint::Kind::kChoice, planners};
  CLI::Option* scheduler =
      update->add_option("--scheduler", options->scheduler, "which requests form its next batch");
  scheduler->type_name("SCHEDULER")->check([](const std::string& text) {
    const auto spec = sched::parse_policy_spec(text);
    return spec ? std::string() : spec.error().message;
  });
  line.hints[scheduler] = {ValueHint::Kind::kChoice,
                           {sched::kPolicyNames.begin(), sched::kPolicyNames.end()}};
  update
      ->add_option("--share", options->share,
                   "its part of the device in percent: of a CPU's time while other groups compute, "
                   "of a GPU's multiprocessors always; auto: a part of what the others leave")
      ->type_name("PERCENT|auto")
      ->check([](std::string text) {
        return text == "auto" ? std::string() : percent_text(100)(text);
      });
  update
      ->add_option(
          "--cpus", options->cpus,
          "CPUs of its own, such as 2-5,8, which only groups with the same list compute on; "
          "auto: those that no group has for itself")
      ->type_name("CPUS|auto")
      ->check([](const std::string& text) {
        if (text == "auto") return std::string();
        const auto cpus = parse_cpus(text);
        return cpus ? std::string() : cpus.error().message;
      });
  CLI::Option* weight =
      update
          ->add_option("--weight", options->weight,
                       "its part of what groups with a --share leave, in relation to the other "
                       "groups' weights, 1 to 1000 [1]")
          ->type_name("N")
          ->check(whole_number(1, control::kMaxGroupWeight));
  update->footer(
      "Planner packed (default): no padding. auto: for each batch, the plan with the shortest "
      "predicted\n"
      "time. naive, turbo, itif and joint pad. concat and slotted concatenate requests in rows of\n"
      "row_tokens, and slots of slot_tokens.\n"
      "Scheduler fair (default): by tenant weight. fcfs: the oldest first. lcfs: the newest. sjf:\n"
      "the shortest. edf: the earliest deadline. das, slotted_das: TCB's deadline-aware "
      "scheduling;\n"
      "settings: eta=NUMBER, weighted, fair. Settings follow a colon.\n"
      "Share: groups without one divide what is left (device.shares, --weight). Idle groups lend "
      "theirs to\n"
      "the others.\n"
      "CPUs: groups on different CPUs compute at the same time; one CPU must be left for groups "
      "without.\n"
      "Restarts keep all settings. Examples:\n"
      "  itifctl group update bert-12x768-12-3072-gelu-1e-12 --cpus 4-7\n"
      "  itifctl group update bert-12x768-12-3072-gelu-1e-12 --planner itif\n"
      "  itifctl group update bert-12x768-12-3072-gelu-1e-12 \\\n"
      "      --planner slotted:slot_tokens=32 --scheduler das:eta=0.4,fair");
  update->callback([&context, options, weight] {
    context.action = [&context, options, weight] {
      json args = {{"group", options->group}};
      if (!options->planner.empty()) args["planner"] = options->planner;
      if (!options->scheduler.empty()) args["scheduler"] = options->scheduler;
      if (!options->share.empty())
        args["share_percent"] = options->share == "auto" ? 0 : std::stoi(options->share);
      if (!options->cpus.empty())
        args["cpus"] = options->cpus == "auto" ? json::array() : json(*parse_cpus(options->cpus));
      if (weight->count() > 0) args["weight"] = options->weight;
      const auto answer = context.call_long("group.update", args);
      if (!answer) return answer.error();
      if (context.globals.json) {
        context.print_json(*answer);
        return static_cast<int>(kDone);
      }
      for (const char* setting : {"planner", "scheduler"})
        if (answer->contains(setting))
          fmt::print("group {} now uses {} {}\n", text_cell(*answer, "group"), setting,
                     text_cell(*answer, setting));
      if (options->share == "auto")
        fmt::print("group {} now has a part of what the other groups leave\n",
                   text_cell(*answer, "group"));
      else if (answer->contains("share_percent"))
        fmt::print("group {} now has {} % of the device while others compute\n",
                   text_cell(*answer, "group"), count_cell(*answer, "share_percent"));
      if (options->cpus == "auto")
        fmt::print("group {} now computes on the CPUs that no group has for itself\n",
                   text_cell(*answer, "group"));
      else if (answer->contains("cpus"))
        fmt::print("group {} now has CPUs {} for itself\n", text_cell(*answer, "group"),
                   format_cpus(answer->value("cpus", std::vector<unsigned>())));
      if (answer->contains("weight"))
        fmt::print("group {} now has weight {}\n", text_cell(*answer, "group"),
                   text_cell(*answer, "weight"));
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace itif::ctl
