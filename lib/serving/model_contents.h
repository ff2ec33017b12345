// Identifies the contents of a model's files, so that a version of a tenant's model is not confused
// with what its directories hold at another time (tenant::Contents).
//
// The digest covers everything that the model is made of: the names, types, shapes and values of
// all tensors, and the bytes of the configuration, the tokenizer and the labels, also those of an
// adapter's base and of sentence-transformers' modules. Weights count as tensors, not as bytes of
// files: a checkpoint that is saved again, or in other shards, has the same digest, and reading
// tensors takes no longer. Samples (model/samples.h) do not count, because they change no answer.
//
// The hash is BLAKE2b without a key. Digests are thus the same in all processes and on all
// machines, and nobody can make other files with a given digest. The hashes that find equal weights
// (model/content_hash.h) have a random key per process: they can be neither kept nor shown. A
// tensor counts by the SHA-256 of each 4 KiB of it (model/sha256_pieces.h), which takes less time.
//
// The registry keeps digests: whoever changes how they are made must add a migration that clears
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/model_files.h"
#include "tenant/version.h"

namespace itif::serving {

// The names, sizes and times of the files that loading a model may read, its samples included. They
// differ if a file was changed or replaced between two calls: a time of change (ctime) cannot be
// set.
std::vector<std::string> file_states(const model::ModelFiles& files);

// Returns a hash of file_states(). While it stays the same, so does the digest.
std::string file_stamp(const model::ModelFiles& files);

// Reads all files. Weights that this process has read before are not read again, as long as their
// files are unchanged. Files that no parser reads do not count: those that this process may not
// read, and those beyond kMaxParsedBytes. Calls gives_up(), if given, before each read of at most
// some MiB, and ends if it returns true. Any thread. Errors: kCorrupt (a file changed meanwhile),
// kUnavailable (given up), those of Checkpoint::open.
Result<std::string> content_digest(const model::ModelFiles& files,
                                   const std::function<bool()>& gives_up = {});

// No parser of a configuration or a tokenizer reads longer files.
inline constexpr uint64_t kMaxParsedBytes = uint64_t{256} << 20;

// Returns the model's directories for messages.
std::string directories_text(const model::ModelFiles& files);

}  // namespace itif::serving
