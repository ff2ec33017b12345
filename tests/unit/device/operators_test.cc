// The list of operators.
#include "kernels/operators.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>

namespace itif::kernels {
namespace {

TEST(Operators, HaveDistinctNames) {
  const std::set<std::string> names(kOperatorNames.begin(), kOperatorNames.end());
  EXPECT_EQ(names.size(), kNumOperators);
  EXPECT_FALSE(names.contains(""));
}

TEST(Operators, IndexNamesTheArguments) {
  const ResidualLayerNorm args;
  const Operator op = &args;
  EXPECT_STREQ(kOperatorNames[op.index()], "residual_layer_norm");
  EXPECT_EQ(std::get<const ResidualLayerNorm*>(op), &args);
}

static_assert(OperatorArgs<Softmax> && OperatorArgs<GroupedGemms>);
static_assert(!OperatorArgs<GroupedGemm> && !OperatorArgs<RowRange>, "parts of arguments");

}  // namespace
}  // namespace itif::kernels
