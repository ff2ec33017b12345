// Scenario files: every key of the example is its default, and unknown settings are refused.
#include "sim/scenario.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sim/parameters.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

class ScenarioTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/itif-scenario-XXXXXX";
    close(mkstemp(name));
    path_ = name;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string error_of(const std::string& text) {
    std::ofstream(path_) << text;
    const auto loaded = load_scenario(path_);
    return loaded ? "" : loaded.error().message;
  }
  std::string path_;
};

TEST_F(ScenarioTest, TheExampleLoads) {
  const auto loaded = load_scenario(std::string(ITIF_SOURCE_ROOT) + "/conf/sim/example.cfg");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Scenario defaults;
  EXPECT_EQ(loaded->duration_ns, defaults.duration_ns);
  EXPECT_EQ(loaded->arrivals.rate, defaults.arrivals.rate);
  EXPECT_EQ(loaded->arrivals.burst_ns, defaults.arrivals.burst_ns);
  EXPECT_EQ(loaded->lengths.variance, defaults.lengths.variance);
  EXPECT_EQ(loaded->output.kind, defaults.output.kind);
  EXPECT_EQ(loaded->output.from, defaults.output.from);
  EXPECT_EQ(loaded->output.to, defaults.output.to);
  EXPECT_EQ(loaded->output.beams, defaults.output.beams);
  EXPECT_EQ(loaded->batching.max_beams, defaults.batching.max_beams);
  EXPECT_EQ(loaded->batching.kv_cache_bytes, defaults.batching.kv_cache_bytes);
  EXPECT_EQ(loaded->batching.batch_control, defaults.batching.batch_control);
  EXPECT_EQ(loaded->batching.joining, defaults.batching.joining);
  EXPECT_EQ(loaded->batching.cleaning, defaults.batching.cleaning);
  EXPECT_EQ(loaded->client.rto_ns, defaults.client.rto_ns);
  EXPECT_EQ(loaded->link.rate_bps, defaults.link.rate_bps);
  EXPECT_EQ(loaded->link.delay_ns, defaults.link.delay_ns);
  EXPECT_EQ(loaded->batching.max_wait_ns, defaults.batching.max_wait_ns);
  EXPECT_EQ(loaded->data_plane.cache_ttl_ns, defaults.data_plane.cache_ttl_ns);
  EXPECT_EQ(loaded->slices.mode, defaults.slices.mode);
  EXPECT_EQ(loaded->slices.period_ns, defaults.slices.period_ns);
  EXPECT_EQ(loaded->slices.hold_down_ns, defaults.slices.hold_down_ns);
  EXPECT_EQ(loaded->slices.first_percent, defaults.slices.first_percent);
  EXPECT_EQ(loaded->slices.unmet_demands, defaults.slices.unmet_demands);
  EXPECT_EQ(loaded->slices.lends, defaults.slices.lends);
  ASSERT_EQ(loaded->tenants.size(), 1u);
}

TEST_F(ScenarioTest, TheScenariosOfTheDocumentsLoad) {
  for (const char* name : {"tcb.cfg", "tcb-decoder.cfg", "overload.cfg", "gslice.cfg"}) {
    const auto loaded = load_scenario(std::string(ITIF_SOURCE_ROOT) + "/conf/sim/" + name);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto spec = spec_of(loaded->model);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(generates(*spec), std::string(name) == "tcb-decoder.cfg");
  }
}

TEST_F(ScenarioTest, BatchControlIsOneOfItsNames) {
  for (const std::string name : {"aimd", "slab", "fixed"})
    EXPECT_EQ(error_of("batching: { batch_control = \"" + name + "\"; };\n"), "");
  EXPECT_NE(error_of("batching: { batch_control = \"clipper\"; };\n")
                .find(":1: batching.batch_control: 'clipper' is not one of: aimd, slab, fixed"),
            std::string::npos);
  // Models that generate have no bound, so a control for it is refused.
  EXPECT_NE(error_of("model: { preset = \"marian-tiny\"; };\n"
                     "batching: { batch_control = \"slab\"; };\n")
                .find("batching.batch_control"),
            std::string::npos);
}

TEST_F(ScenarioTest, PlannersAndPoliciesMayHaveSettings) {
  EXPECT_EQ(error_of("batching: { planner = \"concat:row_tokens=400\"; scheduler = "
                     "\"das:eta=0.4,fair\"; };\n"),
            "");
  EXPECT_NE(error_of("batching: { scheduler = \"fcfs:eta=0.4\"; };\n").find("batching.scheduler"),
            std::string::npos);
}

TEST_F(ScenarioTest, ImagesHaveNoMarksTracesOrProfiles) {
  const std::string vit = "model: { preset = \"vit-tiny\"; };\n";
  EXPECT_EQ(error_of(vit), "");
  EXPECT_NE(error_of(vit + "check_answers = true;\n").find("check_answers: 'vit-tiny'"),
            std::string::npos);
  EXPECT_NE(error_of(vit + "arrivals: { kind = \"trace\"; trace = \"t\"; };\n")
                .find("arrivals.trace: a trace has texts"),
            std::string::npos);
  EXPECT_NE(error_of(vit + "device: { profile = \"p\"; };\n").find("device.profile: 'vit-tiny'"),
            std::string::npos);
}

TEST_F(ScenarioTest, FixedPartsFitTheDevice) {
  const auto parts = [](const std::vector<int>& percents) {
    std::string text = "slices: { mode = \"fixed\"; };\ngroups = (";
    for (size_t i = 0; i < percents.size(); ++i)
      text += (i == 0 ? "" : ", ") + ("{ name = \"g" + std::to_string(i)) +
              "\"; slice: { percent = " + std::to_string(percents[i]) + ".0; }; }";
    return text + ");\n";
  };
  EXPECT_EQ(error_of(parts({60, 40})), "");
  EXPECT_EQ(error_of(parts({98, 0, 0})), "");
  EXPECT_NE(error_of(parts({60, 41})).find("the groups' parts add up to 101 %"), std::string::npos);
  // A group without a part would get nothing.
  for (const int last : {100, 99})
    EXPECT_NE(error_of(parts({last, 0, 0})).find("less than 1 % for each of the 2 groups"),
              std::string::npos)
        << last;
}

TEST_F(ScenarioTest, InputsAreGatheredOrCopied) {
  for (const std::string inputs : {"gather", "copy"})
    EXPECT_EQ(error_of("device: { inputs = \"" + inputs + "\"; notice = \"50us\"; };\n"), "");
  EXPECT_NE(error_of("device: { inputs = \"copy\"; profile = \"p\"; };\n").find("device.inputs"),
            std::string::npos);
  EXPECT_EQ(error_of("batching: { overlap = \"off\"; };\n"), "");
  EXPECT_NE(error_of("batching: { overlap = \"never\"; };\n").find("batching.overlap"),
            std::string::npos);
}

TEST_F(ScenarioTest, UnknownSettingsAreRefusedByNameAndLine) {
  EXPECT_NE(error_of("seed = 1;\nspeed = 2;\n").find(":2: speed: unknown key"), std::string::npos);
  EXPECT_NE(error_of("arrivals: {\n rat = 5.0;\n};\n").find(":2: arrivals.rat: unknown key"),
            std::string::npos);
  EXPECT_NE(error_of("tenants = (\n{ nam = \"a\"; } );\n").find(":2: tenants[0].nam: unknown key"),
            std::string::npos);
  EXPECT_NE(
      error_of("device: { machine = \"v101\"; };\n").find(":1: device.machine: 'v101' is not"),
      std::string::npos);
  EXPECT_NE(error_of("batching: { planner = \"best\"; };\n").find("batching.planner"),
            std::string::npos);
  EXPECT_NE(error_of("model: { preset = \"marian\"; };\nbatching: { planner = \"turbo\"; };\n")
                .find(":2: batching.planner: 'turbo' does not lay out"),
            std::string::npos);
}

TEST_F(ScenarioTest, ContradictionsAreRefused) {
  EXPECT_NE(error_of("warmup = \"10s\";\n").find("warmup must be shorter"), std::string::npos);
  EXPECT_NE(error_of("lengths: { from = 9; to = 5; };\n").find("lengths.from"), std::string::npos);
  EXPECT_NE(error_of("arrivals: { kind = \"trace\"; };\n").find("arrivals.trace"),
            std::string::npos);
  EXPECT_NE(error_of("tenants = ();\n").find("tenants"), std::string::npos);
  EXPECT_NE(error_of("tenants = ( { name = \"a\"; }, { name = \"a\"; } );\n").find("'a' is named"),
            std::string::npos);
  EXPECT_NE(error_of("arrivals: { kind = \"closed\"; };\nclient: { max_in_flight = 8; };\n")
                .find("arrivals.concurrency is above client.max_in_flight"),
            std::string::npos);
}

TEST(Parameters, AreSetByName) {
  Scenario s;
  ASSERT_TRUE(set_parameter(s, "arrivals.rate", "350"));
  EXPECT_EQ(s.arrivals.rate, 350);
  ASSERT_TRUE(set_parameter(s, "num_tenants", "3"));
  EXPECT_EQ(s.tenants.size(), 3u);
  ASSERT_TRUE(set_parameter(s, "batching.planner", "turbo"));
  EXPECT_EQ(s.batching.planner, "turbo");
  EXPECT_FALSE(set_parameter(s, "arrivals.rate", "many"));
  ASSERT_TRUE(set_parameter(s, "batching.scheduler", "das:eta=0.7"));
  EXPECT_EQ(s.batching.scheduler, "das:eta=0.7");
  ASSERT_TRUE(set_parameter(s, "check_answers", "true"));
  EXPECT_TRUE(s.passes_marks);
  for (const std::string key : {"arrivals.speed", "speed", "speeds.max", "", "a.b.c", "arrivals",
                                ".rate", "rate}; arrivals = { rate", "tenants"}) {
    Scenario changed = s;
    const Status unknown = set_parameter(changed, key, "1");
    ASSERT_FALSE(unknown) << key;
    const std::string section = key.substr(0, key.find('.'));
    EXPECT_EQ(unknown.error().message.find(section), 0u) << unknown.error().message;
  }
  EXPECT_FALSE(set_parameter(s, "batching.scheduler", "das\"; };"));
}

TEST(Parameters, HaveTheRangesOfTheFile) {
  const Scenario s;
  const std::pair<const char*, const char*> wrong[] = {{"arrivals.rate", "inf"},
                                                       {"arrivals.rate", "0"},
                                                       {"arrivals.rate", "nan"},
                                                       {"arrivals.concurrency", "0"},
                                                       {"link.loss", "2"},
                                                       {"batching.max_tokens", "5e9"},
                                                       {"batching.max_requests", "1.9"},
                                                       {"batching.max_requests", "65537"},
                                                       {"batching.queue_requests", "0"},
                                                       {"lengths.from", "0"},
                                                       {"deadlines.from", "0ms"},
                                                       {"deadlines.from", "5"},
                                                       {"arrivals.amplitude", "5"},
                                                       {"num_tenants", "2.7"},
                                                       {"num_tenants", "1e9"},
                                                       {"seed", "1.5"},
                                                       {"seed", "-1"},
                                                       {"seed", ""}};
  for (const auto& [key, value] : wrong) {
    Scenario changed = s;
    const Status status = set_parameter(changed, key, value);
    ASSERT_FALSE(status) << key << "=" << value;
    EXPECT_EQ(status.error().message.find(key), 0u) << status.error().message;
  }
  Scenario changed = s;
  for (const auto& [key, value] : {std::pair{"link.loss", "1"},
                                   {"batching.max_requests", "65536"},
                                   {"deadlines.from", "500us"},
                                   {"arrivals.rate", "1e6"}})
    EXPECT_TRUE(set_parameter(changed, key, value)) << key;
  EXPECT_EQ(changed.deadlines.from_ns, 500'000u);
}

TEST(Models, MayTakeImages) {
  const auto spec = spec_of({.preset = "vit-base"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->max_tokens(), 197u);  // 14 x 14 patches and a class token
  EXPECT_EQ(spec->image.patch_values(), 16u * 16 * 3);
  EXPECT_EQ(spec->hidden, 768u);
  EXPECT_EQ(spec->layers, 12u);
  EXPECT_EQ(spec->heads, 12u);
  EXPECT_EQ(spec->intermediate, 3072u);
  EXPECT_FALSE(generates(*spec));
  EXPECT_FALSE(spec_of({.preset = "vit-base", .max_positions = 100}));
  EXPECT_FALSE(spec_of({.preset = "vit-base", .vocab = 100}));
}

TEST(Models, TakeOtherSizes) {
  EXPECT_TRUE(spec_of({.preset = "bert-base"}));
  EXPECT_FALSE(generates(*spec_of({.preset = "bert-base"})));
  EXPECT_FALSE(spec_of({.preset = "bert-base", .heads = 7}));
  EXPECT_EQ(spec_of({.preset = "bert-base", .hidden = 3072})->intermediate, 4 * 3072u);
}

TEST(Models, AnEncoderDecoderTakesTheSizesOfBothHalves) {
  const auto spec = spec_of({.preset = "marian",
                             .layers = 3,
                             .hidden = 3072,
                             .heads = 12,
                             .decoder_layers = 4,
                             .vocab = 37000});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(generates(*spec));
  EXPECT_EQ(spec->layers, 3u);
  EXPECT_EQ(spec->vocab, 37000u);
  EXPECT_EQ(spec->number("decoder_layers"), 4u);
  EXPECT_EQ(spec->number("decoder_attention_heads"), 12u);
  EXPECT_EQ(spec->number("decoder_ffn_dim"), 4 * 3072u);
  EXPECT_FALSE(spec_of({.preset = "marian", .hidden = 3072, .heads = 8}));  // heads of 384
}

}  // namespace
}  // namespace itif::sim
