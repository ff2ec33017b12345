// Asserts that lib/device/cuda/cudnn/cudnn_abi.h and cudnn.h match cuDNN's headers. check_cudnn.py
// compiles it.
#include <cudnn.h>

#include "device/cuda/cudnn/cudnn.h"

namespace ours = itif::device::cuda::cudnn;

#define SAME(value, theirs) static_assert(static_cast<int>(ours::value) == static_cast<int>(theirs))
SAME(Status::kSuccess, CUDNN_STATUS_SUCCESS);
SAME(Status::kNotInitialized, CUDNN_STATUS_NOT_INITIALIZED);
SAME(Status::kBadParam, CUDNN_STATUS_BAD_PARAM);
SAME(Status::kNotSupported, CUDNN_STATUS_NOT_SUPPORTED);
SAME(Status::kExecutionFailed, CUDNN_STATUS_EXECUTION_FAILED);
SAME(DescriptorType::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
SAME(DescriptorType::kEngineHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME(DescriptorType::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(DescriptorType::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(DescriptorType::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME(DescriptorType::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
SAME(DescriptorType::kDeviceProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
SAME(DescriptorType::kSdpaForward, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
SAME(AttributeType::kHandle, CUDNN_TYPE_HANDLE);
SAME(AttributeType::kDataType, CUDNN_TYPE_DATA_TYPE);
SAME(AttributeType::kBoolean, CUDNN_TYPE_BOOLEAN);
SAME(AttributeType::kInt64, CUDNN_TYPE_INT64);
SAME(AttributeType::kVoidPointer, CUDNN_TYPE_VOID_PTR);
SAME(AttributeType::kHeuristicMode, CUDNN_TYPE_HEUR_MODE);
SAME(AttributeType::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
SAME(AttributeType::kChar, CUDNN_TYPE_CHAR);
SAME(DataType::kFloat, CUDNN_DATA_FLOAT);
SAME(DataType::kHalf, CUDNN_DATA_HALF);
SAME(DataType::kInt32, CUDNN_DATA_INT32);
SAME(DataType::kBFloat16, CUDNN_DATA_BFLOAT16);
SAME(HeuristicMode::kA, CUDNN_HEUR_MODE_A);
SAME(Attribute::kEngineHeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE);
SAME(Attribute::kEngineHeuristicsOperationGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME(Attribute::kEngineHeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
SAME(Attribute::kEngineHeuristicsDeviceProperties, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
SAME(Attribute::kExecutionPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
SAME(Attribute::kExecutionPlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
SAME(Attribute::kExecutionPlanWorkspaceSize, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
SAME(Attribute::kExecutionPlanDeviceProperties, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
SAME(Attribute::kOperationGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
SAME(Attribute::kOperationGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
SAME(Attribute::kTensorByteAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
SAME(Attribute::kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE);
SAME(Attribute::kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
SAME(Attribute::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
SAME(Attribute::kTensorUniqueId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
SAME(Attribute::kTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
SAME(Attribute::kTensorRaggedOffset, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
SAME(Attribute::kVariantPackUniqueIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
SAME(Attribute::kVariantPackDataPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
SAME(Attribute::kVariantPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
SAME(Attribute::kDevicePropertiesJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
SAME(Attribute::kSdpaForwardQuery, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC);
SAME(Attribute::kSdpaForwardKey, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC);
SAME(Attribute::kSdpaForwardValue, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC);
SAME(Attribute::kSdpaForwardOutput, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC);
SAME(Attribute::kSdpaForwardScale, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC);
SAME(Attribute::kSdpaForwardQueryLengths, CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC);
SAME(Attribute::kSdpaForwardKeyLengths, CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC);

// Calls cuDNN's declarations with our arguments, so that their number and types are checked.
[[maybe_unused]] static void calls() {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t descriptor = nullptr;
  int64_t count = 0;
  static_assert(std::is_same_v<cudnnBackendDescriptor_t, ours::Descriptor>);
  static_assert(sizeof(cudnnStatus_t) == sizeof(ours::Status));
  static_assert(sizeof(cudnnBackendAttributeName_t) == sizeof(ours::Attribute));
  static_assert(std::is_same_v<decltype(&cudnnGetVersion), size_t (*)()>);
  static_assert(std::is_same_v<decltype(&cudnnGetErrorString), const char* (*)(cudnnStatus_t)>);
  static_assert(std::is_same_v<decltype(&cudnnGetLastErrorString), void (*)(char*, size_t)>);
  static_assert(
      std::is_same_v<decltype(&cudnnSetStream), cudnnStatus_t (*)(cudnnHandle_t, cudaStream_t)>);
  (void)cudnnCreate(&handle);
  (void)cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor);
  (void)cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, count,
                                 static_cast<const void*>(nullptr));
  (void)cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, count,
                                 &count, static_cast<void*>(nullptr));
  (void)cudnnBackendFinalize(descriptor);
  (void)cudnnBackendExecute(handle, descriptor, descriptor);
  (void)cudnnBackendDestroyDescriptor(descriptor);
  (void)cudnnDestroy(handle);
}
