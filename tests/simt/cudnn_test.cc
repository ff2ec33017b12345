// The behaviour of cuDNN that the CUDA device relies on: what it refuses and what it makes plans
// for. These tests run on the simulated cuDNN. tests/reference/check_cudnn.py runs them on the real
// one, which then compiles for a GPU that is described to it.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/cudnn/cudnn_plan.h"

namespace itif::device::cuda {
namespace {

using cudnn::Attribute;
using cudnn::AttributeType;
using cudnn::Descriptor;
using cudnn::DescriptorType;
using cudnn::Status;

class CudnnTest : public ::testing::Test {
 protected:
  CudnnTest() {
    if (const char* json = std::getenv("ITIF_CUDNN_TARGET")) {
      target_ = create(DescriptorType::kDeviceProperties);
      const std::string_view text = json;
      EXPECT_EQ(lib_.set_attribute(target_, Attribute::kDevicePropertiesJson, AttributeType::kChar,
                                   static_cast<int64_t>(text.size() + 1), text.data()),
                Status::kSuccess);
      EXPECT_EQ(lib_.finalize(target_), Status::kSuccess);
    } else {
      EXPECT_EQ(lib_.create(&handle_), Status::kSuccess);
    }
  }
  ~CudnnTest() override {
    while (!made_.empty()) {
      EXPECT_EQ(lib_.destroy_descriptor(made_.back()), Status::kSuccess);
      made_.pop_back();
    }
    EXPECT_TRUE(handle_ == nullptr || lib_.destroy(handle_) == Status::kSuccess);
  }

  Descriptor create(DescriptorType type) {
    Descriptor made = nullptr;
    EXPECT_EQ(lib_.create_descriptor(type, &made), Status::kSuccess);
    made_.push_back(made);
    return made;
  }
  template <class T>
  bool set(Descriptor of, Attribute attribute, AttributeType type, std::vector<T> values) {
    return lib_.set_attribute(of, attribute, type, static_cast<int64_t>(values.size()),
                              values.data()) == Status::kSuccess;
  }
  bool finalize(Descriptor descriptor) { return lib_.finalize(descriptor) == Status::kSuccess; }

  struct Tensor {
    int64_t id = 1;
    std::vector<int64_t> extents = {2, 3, 64, 64}, strides = {3 * 64 * 576, 64, 576, 1};
    cudnn::DataType type = cudnn::DataType::kBFloat16;
    Descriptor offsets = nullptr;
  };
  Descriptor unfinished(const Tensor& t, Attribute without = {}) {
    const Descriptor made = create(DescriptorType::kTensor);
    const auto set = [&]<class T>(Attribute attribute, AttributeType type, std::vector<T> values) {
      if (attribute == without) return;
      EXPECT_TRUE(CudnnTest::set(made, attribute, type, std::move(values)));
    };
    set(Attribute::kTensorUniqueId, AttributeType::kInt64, std::vector<int64_t>{t.id});
    set(Attribute::kTensorDataType, AttributeType::kDataType, std::vector{t.type});
    set(Attribute::kTensorDimensions, AttributeType::kInt64, t.extents);
    set(Attribute::kTensorStrides, AttributeType::kInt64, t.strides);
    set(Attribute::kTensorByteAlignment, AttributeType::kInt64, std::vector<int64_t>{16});
    if (t.offsets != nullptr)
      set(Attribute::kTensorRaggedOffset, AttributeType::kDescriptor, std::vector{t.offsets});
    return made;
  }
  Descriptor tensor(const Tensor& t) {
    const Descriptor made = unfinished(t);
    EXPECT_TRUE(finalize(made));
    return made;
  }
  Descriptor ints(int64_t id, int64_t count) {
    return tensor({.id = id,
                   .extents = {count, 1, 1, 1},
                   .strides = {1, 1, 1, 1},
                   .type = cudnn::DataType::kInt32});
  }

  std::unique_ptr<CudnnPlan> plan(const CudnnPlan::Shape& shape, std::string* why = nullptr) {
    auto made = CudnnPlan::make(lib_, handle_, shape, target_);
    if (!made && why != nullptr) *why = made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  static CudnnPlan::Shape shape_of(uint32_t segments, uint32_t rows, uint32_t heads,
                                   uint32_t head_size, DType type = DType::kBF16) {
    return {type, segments, rows, heads, head_size};
  }

  const Cudnn& lib_ = **load_cudnn();
  cudnn::Handle handle_ = nullptr;
  Descriptor target_ = nullptr;
  std::vector<Descriptor> made_;
};

TEST_F(CudnnTest, VersionIsNewEnough) {
  EXPECT_TRUE(lib_.check_version(8));
  EXPECT_TRUE(lib_.check_version(9));
}

TEST_F(CudnnTest, MakesPlansForShapesOfTheDevice) {
  for (const DType type : {DType::kBF16, DType::kF16})
    for (const uint32_t head_size : {8u, 24u, 32u, 64u, 128u}) {
      std::string why;
      EXPECT_NE(plan(shape_of(16, 64, 3, head_size, type), &why), nullptr) << head_size << why;
    }
  for (const auto& [segments, rows] : {std::pair{16u, 512u}, {1024u, 512u}, {16u, 2048u}})
    EXPECT_NE(plan(shape_of(segments, rows, 12, 64)), nullptr) << segments << "x" << rows;
}

TEST_F(CudnnTest, RefusesOddHeadSizes) {
  for (const uint32_t head_size : {12u, 20u, 7u}) {
    std::string why;
    EXPECT_EQ(plan(shape_of(16, 64, 2, head_size), &why), nullptr) << head_size;
    EXPECT_FALSE(why.empty());
  }
}

TEST_F(CudnnTest, RefusesAttributesOfWrongDescriptorTypeOrCount) {
  const Descriptor one = create(DescriptorType::kTensor);
  EXPECT_FALSE(set<int64_t>(one, Attribute::kTensorUniqueId, AttributeType::kDataType, {1}));
  EXPECT_FALSE(set<int64_t>(one, Attribute::kTensorUniqueId, AttributeType::kInt64, {1, 2}));
  EXPECT_FALSE(set<int64_t>(one, Attribute::kOperationGraphHandle, AttributeType::kInt64, {1}));
  EXPECT_TRUE(set<int64_t>(one, Attribute::kTensorUniqueId, AttributeType::kInt64, {1}));
}

TEST_F(CudnnTest, RefusesToFinalizeWithoutRequiredAttributes) {
  for (const Attribute without :
       {Attribute::kTensorDimensions, Attribute::kTensorStrides, Attribute::kTensorByteAlignment})
    EXPECT_FALSE(finalize(unfinished({}, without))) << static_cast<int>(without);
  EXPECT_FALSE(finalize(create(DescriptorType::kOperationGraph)));
  EXPECT_FALSE(finalize(create(DescriptorType::kEngineHeuristics)));
}

TEST_F(CudnnTest, RefusesToChangeFinalDescriptor) {
  const Descriptor one = tensor({});
  EXPECT_FALSE(set<int64_t>(one, Attribute::kTensorUniqueId, AttributeType::kInt64, {7}));
}

TEST_F(CudnnTest, RefusesUnfinishedOrMismatchedTensors) {
  const Descriptor offsets = ints(10, 3);
  const auto good = [&](int64_t id) { return tensor({.id = id, .offsets = offsets}); };
  struct Operands {
    Descriptor query, key, value, out;
  };
  const auto is_taken = [&](const Operands& operands) {
    const Descriptor operation = create(DescriptorType::kSdpaForward);
    const auto set_one = [&](Attribute attribute, Descriptor operand) {
      return operand == nullptr ||
             set<Descriptor>(operation, attribute, AttributeType::kDescriptor, {operand});
    };
    return set_one(Attribute::kSdpaForwardQuery, operands.query) &&
           set_one(Attribute::kSdpaForwardKey, operands.key) &&
           set_one(Attribute::kSdpaForwardValue, operands.value) &&
           set_one(Attribute::kSdpaForwardOutput, operands.out) && finalize(operation);
  };
  EXPECT_TRUE(is_taken({good(1), good(2), good(3), good(4)}));
  EXPECT_FALSE(is_taken({good(1), good(2), nullptr, good(4)})) << "no values";
  EXPECT_FALSE(is_taken({good(1), unfinished({.id = 2}), good(3), good(4)})) << "not final";
  EXPECT_FALSE(is_taken({good(1), tensor({.id = 2, .extents = {2, 3, 64, 32}}), good(3), good(4)}))
      << "keys of another size";
  EXPECT_FALSE(is_taken({good(1), good(2), good(3), tensor({.id = 4, .extents = {2, 2, 64, 64}})}))
      << "results of other heads";
}

TEST_F(CudnnTest, RefusesToReadUnfinishedDescriptor) {
  int64_t count = 0, bytes = 0;
  EXPECT_NE(lib_.get_attribute(create(DescriptorType::kExecutionPlan),
                               Attribute::kExecutionPlanWorkspaceSize, AttributeType::kInt64, 1,
                               &count, &bytes),
            Status::kSuccess);
}

}  // namespace
}  // namespace itif::device::cuda
