// The options of searches and sweeps: those accepted, and the errors for wrong ones.
#include <gtest/gtest.h>

#include "tools/itif-loadgen/options.h"

namespace itif::loadgen {
namespace {

Command parse_trials(std::vector<std::string> options) {
  options.insert(options.begin(),
                 {"198.18.0.1", "--tenant", "a:7:000102030405060708090a0b0c0d0e0f"});
  return parse_command(options);
}

TEST(TrialOptions, ASearchSendsOnceAndAtAConstantRate) {
  const Command command =
      parse_trials({"--ndr", "--pdr", "0.5", "--precision", "2", "--repeats", "5"});
  ASSERT_TRUE(command.run) << command.text;
  const Options& options = command.options;
  ASSERT_EQ(options.goals.size(), 2u);
  EXPECT_EQ(options.goals[0].name, "NDR");
  EXPECT_EQ(options.goals[0].loss_percent, 0);
  EXPECT_EQ(options.goals[1].name, "PDR 0.5 %");
  EXPECT_EQ(options.goals[1].loss_percent, 0.5);
  EXPECT_EQ(options.precision_percent, 2);
  EXPECT_EQ(options.repeats, 5u);
  EXPECT_EQ(options.arrivals, Arrivals::kConstant);
  EXPECT_EQ(options.retry.max_tries, 1u);
  EXPECT_FALSE(options.rate_given);
}

TEST(TrialOptions, GivenArrivalsAndTriesStay) {
  const Command command =
      parse_trials({"--ndr", "--arrivals", "poisson", "--tries", "3", "--rate", "500"});
  ASSERT_TRUE(command.run) << command.text;
  EXPECT_EQ(command.options.arrivals, Arrivals::kPoisson);
  EXPECT_EQ(command.options.retry.max_tries, 3u);
  EXPECT_TRUE(command.options.rate_given);
}

TEST(TrialOptions, ASweepHasItsRates) {
  const Command command = parse_trials({"--sweep", "100:400:4"});
  ASSERT_TRUE(command.run) << command.text;
  const Sweep& sweep = command.options.sweep;
  ASSERT_EQ(sweep.steps, 4u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(sweep.rate(i), 100.0 * (i + 1));
  EXPECT_EQ(command.options.arrivals, Arrivals::kPoisson);
  EXPECT_EQ(command.options.retry.max_tries, 1u);
}

TEST(TrialOptions, WrongOnesAreRefusedByName) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--pdr", "0"}, "--pdr 0:"},
      {{"--pdr", "100"}, "--pdr 100:"},
      {{"--pdr", "nan"}, "--pdr nan:"},
      {{"--pdr", "1%"}, "--pdr 1%:"},
      {{"--precision", "2"}, "--precision and --repeats need --ndr or --pdr"},
      {{"--repeats", "2"}, "--precision and --repeats need --ndr or --pdr"},
      {{"--ndr", "--precision", "0"}, "--precision:"},
      {{"--ndr", "--precision", "51"}, "--precision:"},
      {{"--ndr", "--repeats", "0"}, "--repeats:"},
      {{"--ndr", "--repeats", "1001"}, "--repeats:"},
      {{"--ndr", "--requests", "5"}, "--ndr and --requests"},
      {{"--ndr", "--rate", "9", "--duration", "1s"}, "--ndr: --rate and --duration"},
      {{"--pdr", "1", "--concurrency", "5"}, "--pdr and --concurrency"},
      {{"--ndr", "--flood"}, "--ndr and --flood"},
      {{"--ndr", "--null-sink"}, "--ndr and --null-sink"},
      {{"--ndr", "--sweep", "1:2:3"}, "--sweep excludes --ndr"},
      {{"--sweep", "1:2:3", "--rate", "5"}, "--sweep names its rates"},
      {{"--pcap-packets", "7"}, "--pcap-packets needs --pcap"},
      {{"--pcap", "a.pcap", "--pcap-packets", "0"}, "--pcap-packets:"},
      {{"--pcap", "-"}, "--pcap -:"},
      {{"--pcap", "a.pcap", "--null-sink"}, "--pcap and --null-sink"},
      {{"--plot", "a.svg"}, "--plot needs --sweep"},
      {{"--sweep", "1:2:3", "--plot", "a.png"}, "--plot a.png: must name a file"},
      {{"--sweep", "1:2:3", "--plot", "b/.svg"}, "--plot b/.svg: must name a file"},
      {{"--sweep", "1:2:3", "--flood"}, "--sweep and --flood"},
  };
  for (const auto& [options, words] : wrong) {
    const Command command = parse_trials(options);
    EXPECT_FALSE(command.run) << words;
    EXPECT_EQ(command.exit_code, 2);
    EXPECT_NE(command.text.find(words), std::string::npos) << command.text;
  }
  for (const char* text :
       {"", "1", "1:2", "1:2:", "1:2:1", "2:1:3", "1:1:3", "0:5:3", "-1:5:3", "1:2:3:4", "1:2:1001",
        "nan:2:3", "1:inf:3", "1:2e9:3", "a:b:c", "1:2:3.5", " 1:2:3"}) {
    const auto sweep = parse_sweep(text);
    ASSERT_FALSE(sweep) << text;
    EXPECT_EQ(sweep.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(sweep.error().message.starts_with("--sweep ")) << sweep.error().message;
  }
}

}  // namespace
}  // namespace itif::loadgen
