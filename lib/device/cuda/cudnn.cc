#include "device/cuda/cudnn.h"

#include "device/cuda/library.h"

namespace itif::device::cuda {
namespace {

Result<Cudnn> load() {
  // Its programming interface is this version's as long as the number behind .so is. The others of cuDNN's libraries,
  // which it loads itself, stand beside it.
  ITIF_ASSIGN(const Library library, Library::open("libcudnn.so.9", "cuDNN"));
  Cudnn cudnn;
  ITIF_TRY(library.find("cudnnGetVersion", cudnn.get_version));
  ITIF_TRY(library.find("cudnnGetErrorString", cudnn.error_string));
  ITIF_TRY(library.find("cudnnGetLastErrorString", cudnn.last_error_string));
  ITIF_TRY(library.find("cudnnCreate", cudnn.create));
  ITIF_TRY(library.find("cudnnDestroy", cudnn.destroy));
  ITIF_TRY(library.find("cudnnSetStream", cudnn.set_stream));
  ITIF_TRY(library.find("cudnnBackendCreateDescriptor", cudnn.create_descriptor));
  ITIF_TRY(library.find("cudnnBackendDestroyDescriptor", cudnn.destroy_descriptor));
  ITIF_TRY(library.find("cudnnBackendSetAttribute", cudnn.set_attribute));
  ITIF_TRY(library.find("cudnnBackendGetAttribute", cudnn.get_attribute));
  ITIF_TRY(library.find("cudnnBackendFinalize", cudnn.finalize));
  ITIF_TRY(library.find("cudnnBackendExecute", cudnn.execute));
  return cudnn;
}

}  // namespace

Result<const Cudnn*> load_cudnn() {
  static const Result<Cudnn> loaded = load();
  if (!loaded) return std::unexpected(loaded.error());
  return &*loaded;
}

}  // namespace itif::device::cuda
