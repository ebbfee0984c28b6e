// A chat answer that is sent and kept.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/encoder.h"
#include "server/services.h"

namespace met::server {

/// Gives every part to the encoder that answers, and keeps the plain form of the answer.
class Recorder final : public api::Encoder {
 public:
  /// `whole` makes the plain form; none: `sent` does.
  Recorder(std::unique_ptr<api::Encoder> sent, std::unique_ptr<api::Encoder> whole)
      : sent_(std::move(sent)), whole_(std::move(whole)) {}

  void begin(const api::Usage& so_far, std::string& out) override {
    sent_->begin(so_far, out);
    if (whole_) whole_->begin(so_far, body_);
  }
  void prompt(std::size_t index, const std::vector<api::TokenEntry>& entries, std::string& out) override {
    sent_->prompt(index, entries, out);
    if (whole_) whole_->prompt(index, entries, body_);
  }
  void part(const api::AnswerPart& part, const api::Usage& so_far, std::string& out) override {
    sent_->part(part, so_far, out);
    if (whole_) whole_->part(part, so_far, body_);
  }
  void end(const api::Usage& usage, std::string& out) override {
    const std::size_t before = out.size();
    sent_->end(usage, out);
    if (whole_) {
      whole_->end(usage, body_);
    } else {
      body_ = out.substr(before);
    }
    ended_ = true;
  }
  void fail(const api::ApiError& error, std::string& out) override { sent_->fail(error, out); }
  void keepalive(std::string& out) override { sent_->keepalive(out); }

  /// The object's text; empty when the answer failed.
  const std::string& body() const { return body_; }
  bool ended() const { return ended_; }

 private:
  std::unique_ptr<api::Encoder> sent_;
  std::unique_ptr<api::Encoder> whole_;
  std::string body_;
  bool ended_ = false;
};

/// Stores the recorded completion for the tenant. Errors: it could not be stored.
awaitable<std::optional<api::ApiError>> keep_completion(const Recorder& recorder,
                                                        const api::GenerationRequest& request,
                                                        std::uint64_t tenant, Services& met);

}  // namespace met::server
