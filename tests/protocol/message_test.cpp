// The texts of errors, as far as the wire format prescribes them: an error about bytes names the
// buffer, the word (or slot) and the length.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "everkernel/protocol/control.hpp"
#include "everkernel/protocol/debug_log.hpp"
#include "everkernel/protocol/io_queue.hpp"
#include "everkernel/protocol/packed.hpp"
#include "everkernel/protocol/ring.hpp"
#include "support/bytes.hpp"
#include "support/results.hpp"

namespace everkernel::protocol {
namespace {

using test::Bytes;
using test::bytes_of;
using test::message_of;

void expect_parts(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* const part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << '"' << message << "\" lacks " << part;
  }
}

TEST(Messages, of_the_control_buffer_name_word_and_length) {
  const Bytes control(636);
  expect_parts(message_of(ControlView::parse(control)), {"control", "word 159", "636 bytes"});
  expect_parts(message_of(read_done_count(std::span(control).first(4))),
               {"control", "word 1 ", "done_count", "4 bytes"});
  expect_parts(message_of(read_epoch(std::span(control).first(512))),
               {"control", "word 128", "epoch", "512 bytes"});
  expect_parts(message_of(read_metrics(std::span(control).first(508))),
               {"control", "word 127", "metrics", "508 bytes"});
  expect_parts(message_of(read_metrics(std::span(control).first(511))),
               {"control", "word 127", "511 bytes"});
}

TEST(Messages, of_an_observable_name_word_and_length) {
  const Bytes control(644);
  expect_parts(message_of(ControlView::parse(control)->observable(9)),
               {"control", "observable 9", "word 169", "644 bytes"});
}

TEST(Messages, of_the_ring_name_slot_and_length) {
  const Bytes ring(130);
  expect_parts(message_of(RingView::parse(ring)), {"ring", "slot 2", "130 bytes"});
  const auto view = *RingView::parse(std::span(ring).first(128));
  expect_parts(message_of(view.count(abi::SlotStatus::done, 5)), {"ring", "slot 4", "128 bytes"});
}

TEST(Messages, of_the_debug_log_name_word_and_length) {
  expect_parts(message_of(DebugLogView::parse({})), {"debug_log", "word 0", "0 bytes"});
  expect_parts(message_of(DebugLogView::parse(bytes_of({8, 0, 0, 0, 0}))),
               {"debug_log", "word 0", " 8", "20 bytes"});
  expect_parts(message_of(DebugLogView::parse(bytes_of({3, 0, 0, 0, 0}))),
               {"debug_log", "word 0", " 3", "20 bytes"});
}

TEST(Messages, of_the_io_queue_name_slot_and_length) {
  expect_parts(message_of(IoQueueView::parse(Bytes(33))), {"io_queue", "slot 1", "33 bytes"});
  expect_parts(message_of(IoQueueView::parse(Bytes(65 * 32))), {"io_queue", "65", "2080 bytes"});
  expect_parts(message_of(IoQueueView::parse({})), {"io_queue", "0 bytes"});
}

TEST(Messages, of_a_packed_payload_name_the_operation) {
  expect_parts(message_of(PackedView::parse({0x00110C01})), {"ring", "12 argument words"});
  expect_parts(message_of(PackedView::parse({0x00010002, 0x00000007})), {"ring", "operation 1"});
}

TEST(Messages, of_an_encoder_name_both_lengths) {
  Bytes target(100);
  expect_parts(message_of(encode_ring(2, target)), {"ring", "100 bytes", "128"});
  expect_parts(message_of(encode_control({}, target)), {"control", "100 bytes", "640"});
  expect_parts(message_of(encode_debug_log(1, target)), {"debug_log", "100 bytes", "20"});
  expect_parts(message_of(encode_io_queue(1, target)), {"io_queue", "100 bytes", "32"});
}

}  // namespace
}  // namespace everkernel::protocol
