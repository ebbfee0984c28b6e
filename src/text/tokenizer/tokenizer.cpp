#include "text/tokenizer/tokenizer.h"

#include <fstream>
#include <sstream>

#include "text/tokenizer/state.h"

namespace met::text {
namespace {

std::optional<TokenId> some(TokenId id) { return id < 0 ? std::nullopt : std::optional<TokenId>(id); }

Result<std::string> read_text(const std::filesystem::path& path) {
  constexpr std::uintmax_t kFileBytesMax = 256 << 20;
  std::error_code ec;
  const std::uintmax_t size = std::filesystem::file_size(path, ec);
  if (ec) return fail(ErrorCode::kNotFound, "there is no file " + path.string(), path.filename().string());
  if (size > kFileBytesMax)
    return invalid(path.filename().string(),
                   std::to_string(size) + " bytes, at most " + std::to_string(kFileBytesMax) + " are read");
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return fail(ErrorCode::kIo, "cannot read " + path.string(), path.filename().string());
  return text;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<TokenizerState> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, std::string_view tokenizer_config) {
  MET_ASSIGN(auto state, load_tokenizer_json(tokenizer_json, tokenizer_config));
  return Tokenizer(std::move(state));
}

Result<Tokenizer> Tokenizer::from_folder(const std::filesystem::path& folder) {
  MET_ASSIGN(const std::string tokenizer, read_text(folder / "tokenizer.json"));
  std::string config;
  if (std::filesystem::exists(folder / "tokenizer_config.json")) {
    MET_ASSIGN(config, read_text(folder / "tokenizer_config.json"));
  }
  return from_json(tokenizer, config);
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  MET_ASSIGN(auto state, load_gguf_vocabulary(vocabulary));
  return Tokenizer(std::move(state));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return state_->encode(text, options);
}
std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  return state_->decode(ids, skip_special);
}
std::string_view Tokenizer::token_bytes(TokenId id) const { return state_->stream_bytes(id); }
std::string Tokenizer::piece(TokenId id) const { return state_->spelled(id); }
std::optional<TokenId> Tokenizer::find(std::string_view piece) const { return some(state_->find(piece)); }
bool Tokenizer::is_special(TokenId id) const { return state_->is_special(id); }
std::size_t Tokenizer::vocabulary_size() const { return state_->size(); }
std::optional<TokenId> Tokenizer::bos() const { return state_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return state_->eos; }
std::optional<TokenId> Tokenizer::unknown() const { return state_->unknown; }
std::optional<TokenId> Tokenizer::padding() const { return state_->padding; }
std::span<const TokenId> Tokenizer::end_of_generation() const { return state_->end_of_generation; }

}  // namespace met::text
