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
     "requests of naive as for the 320 that 64 rows of concat hold. Steps are not simulated. Turbo "
     "pads only a tenth, but its GEMMs have a part of 64 requests each and fill the GPU's "
     "multiprocessors less. Under das, concat pads 5 to 9 %, and 3 % under fcfs: das fills each "
     "row with the shortest requests, and no short one is left for the end of a row."},
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
     "the paper's other gain from slots, needs a decoder: `itif-bench cleaning` measures it."},
    {"figure-14",
     "**Differences.** As in Figure 13. The share of attention does not depend on the number of "
     "rows, so it cannot explain a ratio that rises from 1.18 to 2.31 between 10 and 32 rows. "
     "Scores in memory do not explain it either: those of 32 rows, 8 heads and 400 * 400 values "
     "are "
     "164 MB, 0.2 ms for each time that they are read or written, and the GEMMs of a layer take "
     "250 ms. The rest must come from the decoder, which is not simulated."},
    {"figure-15a",
     "**Differences.** das is ahead of fcfs and edf, and not of sjf. Past saturation sjf "
     "soon answers every request up to some length, and none that is longer. With a utility of "
     "1/length that is nearly the best schedule, so no policy can be far ahead of it. das at eta = "
     "0.5 gives half of each row to the earliest deadlines of almost any length, because q times "
     "the mean utility of the shortest admits twice their length. With eta = 0.9 it has 0.98 to "
     "1.16 times the utility of sjf."},
    {"figure-15b", "**Differences.** As in Figure 15a."},
    {"figure-15c",
     "**Differences.** As in Figure 15a. The paper's 40 % over sjf does not come out at any row "
     "length."},
    {"figure-tenants",
     "sjf leads here, too, for the reason of Figure 15a. slotted_das comes close to it, because it "
     "leaves out requests that are longer than the shortest half of the batch. fair gives the "
     "tenants equal parts of the device, so that the tenant that sends half of the load bears most "
     "of the overload. das:fair does the same in part, and has at "
     "least 96 % of the utility of das."},
};

}  // namespace

std::string difference_of(std::string_view experiment) {
  const auto found = std::ranges::find(kDifferences, experiment, &Difference::experiment);
  return found == std::end(kDifferences) ? std::string() : std::string(found->text);
}

}  // namespace itif::sim
