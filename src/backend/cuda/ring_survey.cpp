// Launches everkernel_survey and reads its result.
#include "backend/cuda/ring_survey.hpp"

#include <algorithm>
#include <span>

#include "backend/cuda/abort_word.hpp"

namespace everkernel::backend::cuda {
namespace {

using device::SurveyParams;
using device::SurveyResult;

constexpr Word kThreadsPerBlock = 256;
constexpr Word kMaxBlocksPerSm = 8;

}  // namespace

Result<RingSurvey> RingSurvey::create(std::shared_ptr<Context> context, const Module& module) {
  const CuFunction kernel = EVERKERNEL_TRY(module.function("everkernel_survey"));
  auto result = EVERKERNEL_TRY(CudaMemory::create(context, sizeof(SurveyResult)));
  return RingSurvey(std::move(context), kernel, std::move(result));
}

Result<SurveyResult> RingSurvey::run(const device::Submission& row,
                                     const device::LaunchResult& outcome, CuStream stream,
                                     LaunchStats& stats) {
  SurveyResult result{.active = 0, .first_active = outcome.ticket_count};
  EVERKERNEL_TRY(result_->write(0, std::as_bytes(std::span(&result, 1))));
  const SurveyParams params{.ring = row.ring,
                            .result = pointer_to<SurveyResult>(*result_),
                            .slot_count = row.slot_count,
                            .first_ticket = outcome.first_ticket,
                            .ticket_count = outcome.ticket_count};
  const Word blocks = std::min<Word>((params.slot_count + kThreadsPerBlock - 1) / kThreadsPerBlock,
                                     context_->facts().sm_count * kMaxBlocksPerSm);
  EVERKERNEL_TRY(context_->launch(
      kernel_, {.block_count = blocks, .thread_count = kThreadsPerBlock}, stream, params));
  ++stats.kernel_launches;
  ++stats.sync_points;
  EVERKERNEL_TRY(context_->wait(stream, deadline_after(kAbortTimeout), "counting slots"));
  EVERKERNEL_TRY(result_->read(0, std::as_writable_bytes(std::span(&result, 1))));
  return result;
}

}  // namespace everkernel::backend::cuda
