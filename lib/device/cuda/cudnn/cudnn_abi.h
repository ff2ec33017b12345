// The types and enumerators of cuDNN 9's graph interface that we use. Debian does not package cuDNN
// or its headers, so programs are built and started without them.
//
// Source: cudnn_graph.h of cuDNN 9.28; 9.19 has the same values. tests/reference/check_cudnn.py
// checks them.
#pragma once

namespace itif::device::cuda::cudnn {

struct Context;
using Handle = Context*;
using Descriptor = void*;

enum class Status : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kNotSupported = 3000,
  kExecutionFailed = 5000,
};

enum class DescriptorType : int {
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kDeviceProperties = 38,
  kSdpaForward = 41,
};

enum class AttributeType : int {
  kHandle = 0,
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kVoidPointer = 6,
  kHeuristicMode = 8,
  kDescriptor = 15,
  kChar = 24,
};

enum class DataType : int { kFloat = 0, kHalf = 2, kInt32 = 4, kBFloat16 = 9 };
enum class HeuristicMode : int { kA = 3 };

enum class Attribute : int {
  kEngineHeuristicsMode = 200,
  kEngineHeuristicsOperationGraph = 201,
  kEngineHeuristicsResults = 202,
  kEngineHeuristicsDeviceProperties = 204,
  kExecutionPlanHandle = 400,
  kExecutionPlanEngineConfig = 401,
  kExecutionPlanWorkspaceSize = 402,
  kExecutionPlanDeviceProperties = 407,
  kOperationGraphHandle = 800,
  kOperationGraphOperations = 801,
  kTensorByteAlignment = 900,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorUniqueId = 906,
  kTensorIsByValue = 908,
  kTensorRaggedOffset = 913,
  kVariantPackUniqueIds = 1000,
  kVariantPackDataPointers = 1001,
  kVariantPackWorkspace = 1003,
  kDevicePropertiesJson = 2702,
  kSdpaForwardQuery = 2800,
  kSdpaForwardKey = 2801,
  kSdpaForwardValue = 2802,
  kSdpaForwardOutput = 2803,
  kSdpaForwardScale = 2805,
  kSdpaForwardQueryLengths = 2809,
  kSdpaForwardKeyLengths = 2810,
};

}  // namespace itif::device::cuda::cudnn
