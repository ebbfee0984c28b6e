#include "scheduler/request.h"

namespace met::scheduler {

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return "eos";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kStopText:
      return "stop_text";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kTimeout:
      return "timeout";
    case FinishReason::kRepetition:
      return "repetition";
  }
  return "unknown";
}

std::string_view name(WaitReason reason) {
  switch (reason) {
    case WaitReason::kCapacity:
      return "capacity";
    case WaitReason::kRows:
      return "rows";
    case WaitReason::kBudget:
      return "budget";
    case WaitReason::kProducer:
      return "producer";
    case WaitReason::kConsumer:
      return "consumer";
    case WaitReason::kResume:
      return "resume";
    case WaitReason::kLimit:
      return "limit";
    case WaitReason::kGrammar:
      return "grammar";
    case WaitReason::kDeadline:
      return "deadline";
    case WaitReason::kSwap:
      return "swap";
    case WaitReason::kWave:
      return "wave";
  }
  return "unknown";
}

std::string_view name(EndClass end) {
  switch (end) {
    case EndClass::kStop:
      return "stop";
    case EndClass::kLength:
      return "length";
    case EndClass::kAbort:
      return "abort";
    case EndClass::kError:
      return "error";
    case EndClass::kTimeout:
      return "timeout";
    case EndClass::kRepetition:
      return "repetition";
  }
  return "unknown";
}

std::string_view name(TokenClass token) {
  switch (token) {
    case TokenClass::kDecode:
      return "decode";
    case TokenClass::kPrefill:
      return "prefill";
    case TokenClass::kRecomputed:
      return "recomputed";
    case TokenClass::kPadded:
      return "padded";
    case TokenClass::kOvershoot:
      return "overshoot";
  }
  return "unknown";
}

}  // namespace met::scheduler
