#include "layers/cuda/uploader.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace met::layers::cuda {

Uploader::~Uploader() {
  for (Lane& lane : lanes_) {
    for (int i = 0; i < 2; ++i) {
      if (lane.staging[i].host != nullptr) device_.free_pinned(lane.staging[i]);
      if (lane.sent[i].id != 0) device_.destroy(lane.sent[i]);
    }
    if (lane.stream.id != 0) device_.destroy(lane.stream);
  }
}

Result<> Uploader::open(Lane& lane) {
  if (lane.open) return {};
  MET_ASSIGN(lane.stream, device_.create_stream());
  for (int i = 0; i < 2; ++i) {
    MET_ASSIGN(lane.staging[i], device_.allocate_pinned(kPieceBytes));
    MET_ASSIGN(lane.sent[i], device_.create_event(/*timing=*/false));
  }
  lane.open = true;
  return {};
}

Result<> Uploader::run(std::span<const Piece> pieces, const std::function<void(std::size_t)>& done) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // of what follows
  Result<> outcome;
  const auto work = [&](Lane& lane) -> Result<> {
    MET_TRY(device_.bind_thread());
    MET_TRY(open(lane));
    int turn = 0;
    for (std::size_t i = next++; i < pieces.size(); i = next++, turn ^= 1) {
      const Piece& piece = pieces[i];
      MET_TRY(device_.synchronize(lane.sent[turn]));
      piece.fill(static_cast<std::byte*>(lane.staging[turn].host));
      MET_TRY(device_.copy_to_device_async(piece.to, lane.staging[turn].host, piece.bytes, lane.stream));
      MET_TRY(device_.record(lane.sent[turn], lane.stream));
      const std::lock_guard lock(mutex);
      done(piece.bytes);
    }
    return device_.synchronize(lane.stream);
  };
  const auto run = [&](Lane& lane) {
    Result<> own = work(lane);
    if (own) return;
    const std::lock_guard lock(mutex);
    if (outcome) outcome = std::move(own);
    next = pieces.size();
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(lanes_.size(), pieces.size()); ++i)
      others.emplace_back([&, i] { run(lanes_[i]); });
    run(lanes_[0]);
  }
  return outcome;
}

}  // namespace met::layers::cuda
