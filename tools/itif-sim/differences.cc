#include "differences.h"

#include <algorithm>
#include <iterator>

namespace itif::sim {
namespace {

struct Difference {
  std::string_view experiment, text;
};

constexpr Difference kDifferences[] = {
    {"figures-9-10",
     "**Differences.** The saturation rates are near the paper's 350 and 450. The ratios to naive "
     "are smaller. An encoder's pass costs about as much as its rows, padding included, so naive "
     "can lose no more than its padding: a third, since the longest of 64 requests of variance 20 "
     "has some 31 tokens. The paper's decoder adds a cost that does not depend on rows. One step "
     "reads the weights of three decoder layers, 1.8 GB in f32 or 2.0 ms at 900 GB/s, for 64 "
     "requests of naive as for the 320 that 64 rows of concat hold. conf/sim/tcb-decoder.cfg has "
     "it. Turbo "
     "pads only a tenth, but its GEMMs have a part of 64 requests each and fill the GPU's "
     "multiprocessors less. Past saturation concat pads 3 to 4 %, under das as under fcfs."},
    {"figure-11",
     "**Differences.** As above: the padding of naive, 34 %, bounds the ratio at about 1.5 to 1.6. "
     "The next figure has the ratio that other lengths would give."},
    {"figure-12",
     "**Differences.** With variance 100 half of naive's rows are padding. Turbo's lag grows with "
     "the variance, as in the paper."},
    {"figure-11-deviation",
     "**Why this figure.** Lengths of mean 20 and variance 20 never reach the paper's 100. With 20 "
     "as their standard deviation they do: 61 % of naive's rows are padding, and concat is 2.5 "
     "times "
     "naive and 1.5 times turbo. The latter is the paper's ratio. So the paper's \"variance\" is "
     "probably a standard deviation."},
    {"figure-13",
     "**Differences.** Attention over whole rows of 400 takes 2.2 % of a layer's arithmetic: "
     "4 * 400 of 24 * 3072 + 4 * 400 operations per token and hidden value. Slots therefore save "
     "about that much, plus what larger rows lose to GPU tiles. Batches of equal requests vary "
     "more, because requests fill slots of some sizes better than others. Early memory cleaning, "
     "the paper's other gain from slots, needs a decoder: see conf/sim/tcb-decoder.cfg."},
    {"figure-14",
     "**Differences.** As in Figure 13. The share of attention does not depend on the number of "
     "rows, so it cannot explain a ratio that rises from 1.18 to 2.31 between 10 and 32 rows. "
     "Scores in memory do not explain it either: those of 32 rows, 8 heads and 400 * 400 values "
     "are "
     "164 MB, 0.2 ms for each time that they are read or written, and the GEMMs of a layer take "
     "250 ms. The rest must come from the decoder; but see conf/sim/tcb-decoder.cfg."},
    {"figures-9-10-decoder",
     "**Differences.** Concat answers at most 1.24 times as many requests as naive, not 2.22. "
     "A step reads 2.0 GB of weights in 2.3 ms, but its arithmetic for naive's 64 rows takes some "
     "10 ms in f32, in waves of tiles that fill the GPU in part: so its time depends on its rows. "
     "If no deadline ends sequences, and requests are "
     "answered in order, concat answers 1.55 times as many (236 and 152 per second). Under "
     "deadlines it also loses the work on sequences that run when theirs passes; naive's smaller "
     "batches end sooner. naive here computes no rows of sequences that have ended, which PyTorch "
     "does, and its attention reads no padding."},
    {"figure-11-decoder",
     "**Differences.** Under fcfs, concat answers 1.2 to 1.7 times as many requests as naive. Only "
     "a fifth of naive's rows are padding, because a step has none; the rest of the difference "
     "comes from its small batches. The paper's ratio is twice as large. PyTorch goes on to "
     "compute sequences that have ended, and naive here does not."},
    {"figure-12-decoder", "**Differences.** As in Figure 11."},
    {"figure-11-deviation-decoder",
     "**Why this figure.** As in the encoder's report: with 20 as the lengths' standard deviation, "
     "lengths up to the paper's 100 tokens occur. concat then answers twice as many requests as "
     "naive, and steps, which waits for no longest answer, one tenth more than concat."},
    {"figure-13-decoder",
     "**Differences.** Early memory cleaning does not make this device faster. It saves steps, "
     "because the next sequences enter as soon as there is room; but a step of more rows takes "
     "longer, and sources that enter in small groups are encoded in passes of their own, each "
     "padded to whole rows. The gain exists where a step costs the same for any number of rows: "
     "`itif-bench cleaning` measures it on a CPU. Slots alone save as much attention as in the "
     "encoder's report. Joining at each step suffers most from rows of 400 tokens, which one "
     "request pads. packed has no such rows."},
    {"figure-14-decoder",
     "**Differences.** As in Figure 13. The K/V cache, a quarter of the device's 16 GB, has room "
     "for 376 sequences of up to 100 tokens, so a batch of 640 enters in two parts; this is where "
     "early cleaning acts, and where it costs most. The paper's 2.31 does not come out of "
     "attention, of memory or of the number of steps on this device."},
    {"figure-15a-decoder", "**Differences.** das is ahead of fcfs and edf, and not of sjf."},
    {"figure-15b-decoder", "**Differences.** As in Figure 15a."},
    {"figure-15c-decoder", "**Differences.** As in Figure 15a."},
    {"figure-15a",
     "**Differences.** das is ahead of fcfs and edf, and of sjf only with few rows. Past "
     "saturation sjf soon answers every request up to some length, and none that is longer. With a "
     "utility of 1/length that is nearly the best schedule, so no policy can be far ahead of it. "
     "das at eta = 0.5 gives half of each row to the earliest deadlines of almost any length, "
     "because q times the mean utility of the shortest admits twice their length. With eta = 0.9 "
     "it has 0.98 to 1.16 times the utility of sjf."},
    {"figure-15b", "**Differences.** As in Figure 15a."},
    {"figure-15c",
     "**Differences.** As in Figure 15a. The paper's 40 % over sjf does not come out at any row "
     "length."},
    {"figure-tenants",
     "sjf is ahead of das here, for the reason of Figure 15a. slotted_das is 1 to 2 % ahead of "
     "sjf, because it leaves out requests that are longer than the shortest four fifths of the "
     "batch. fair gives the tenants equal parts of the device, so that the tenant that sends half "
     "of the load bears most of the overload. das:fair does the same in part, and has at "
     "least 94 % of the utility of das."},
};

}  // namespace

std::string difference_of(std::string_view experiment) {
  const auto found = std::ranges::find(kDifferences, experiment, &Difference::experiment);
  return found == std::end(kDifferences) ? std::string() : std::string(found->text);
}

}  // namespace itif::sim
