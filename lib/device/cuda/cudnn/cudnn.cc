#include "device/cuda/cudnn/cudnn.h"

#include "device/cuda/driver/library.h"

namespace itif::device::cuda {
namespace {

Result<Cudnn> load_cudnn_entry_points() {
  // The ABI is stable while the number after .so stays the same. cuDNN loads its other libraries
  // itself, from the same folder.
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
  static const Result<Cudnn> loaded = load_cudnn_entry_points();
  if (!loaded) return std::unexpected(loaded.error());
  return &*loaded;
}

}  // namespace itif::device::cuda
