// The tensors of a checkpoint as bytes, whichever container they lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "formats/gguf.h"
#include "hub/model_source.h"

namespace met::weights {

/// One tensor in the map. All members view the Checkpoint.
struct TensorView {
  std::string_view name;  ///< as recipes know it, see Checkpoint
  DType dtype = DType::kF32;
  std::span<const std::int64_t> shape;  ///< outermost first (row-major); GGUF dimensions are reversed
  std::span<const std::byte> bytes;     ///< exactly the tensor; aligned as in the file, so perhaps odd
};

/// What a recipe wants and what the files hold.
struct Census {
  std::vector<std::string> missing;
  std::vector<std::string> unused;
};

/// All tensors of one model. Move-only; views and pointers stay valid when it moves.
///
/// Names are those of the files, but for safetensors of models with towers: "language_model.model.X" and
/// "model.language_model.X" are found as "model.X", "language_model.lm_head.X" as "lm_head.X".
/// Threads: const members may be called from many.
class Checkpoint {
 public:
  /// Reads headers only. Errors: those of the containers; kUnsupported naming the tensors whose type met does
  /// not compute with.
  static Result<Checkpoint> open(const hub::ModelSource& source);
  /// Over a file that is open already.
  static Result<Checkpoint> from_gguf(formats::GgufFile file);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// The tensor, or nullptr.
  const TensorView* find(std::string_view name) const;
  /// In the files' order.
  std::span<const std::string_view> names() const;
  /// Bytes of all tensors.
  std::uint64_t bytes() const;
  /// The file itself (metadata, tokenizer), or nullptr for safetensors.
  const formats::GgufFile* gguf() const;

  /// The tensor with this shape and one of these types (any, where the list is empty).
  /// Errors: kDataLoss naming the tensor: missing, or what it has instead.
  Result<const TensorView*> expect(std::string_view name, std::span<const std::int64_t> shape,
                                   std::span<const DType> dtypes = {}) const;
  /// Compares the names with those that a recipe wants.
  Census census(std::span<const std::string> wanted) const;

  /// Starts reading all files, or one tensor, in the background.
  void prefetch() const;
  void prefetch(const TensorView& tensor) const;
  /// Gives the tensor's pages back to the system (after a repack); a later access reads the file again.
  void release(const TensorView& tensor) const;

 private:
  struct Contents;
  explicit Checkpoint(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents_;
};

}  // namespace met::weights
