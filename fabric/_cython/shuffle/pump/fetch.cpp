// How a stream is read ahead.
//
// One job: the reading thread, and what others take of its queue.
#include "pump/fetch.hpp"

#include <arrow/flight/client.h>
#include <arrow/util/byte_size.h>

#include <random>

#include "pump/ipc_stream.hpp"
#include "store/budget.hpp"
#include "wire/condition.hpp"

namespace fabric {
namespace {

constexpr size_t QUEUE_MESSAGES_MAX = 256;
constexpr int64_t QUEUE_BYTES_MAX = 16 << 20;  // what arrives while Python waits for the GIL
constexpr int64_t EXPECTED_BYTES = 1 << 20;     // of a message, before the first came
constexpr int TRIES = 4;
constexpr double BACKOFF_S = 0.05, BACKOFF_FACTOR = 4;

// A request that was let in ends however its stream does: the governor outlives what may be thrown.
struct EndRequest {
  void operator()(Governor* governor) const { governor->end(); }
};

arrow::Status unreadable(const arrow::Status& why) {
  return fault("DataError", "the stream can't be read: " + why.message().substr(0, 300));
}

}  // namespace

Fetch::Fetch(std::shared_ptr<Connections> pool, FetchOrder order, std::optional<StreamCheck> check)
    : Call(std::move(pool), order.address, order.idle_s, order.where, order.subject),
      order_(std::move(order)), check_(std::move(check)), share_(pool_->share()),
      governor_(pool_->governor(address_)), expected_bytes_(EXPECTED_BYTES) {}

Fetch::~Fetch() { give_back(queued_bytes_ + reserved_bytes_); }

bool Fetch::take_now(size_t max, std::vector<Message>& out) {
  const Lock held(mutex_);
  const bool was_full = full();
  for (; !queue_.empty() && max > 0; --max) {
    queued_bytes_ -= queue_.front().n_bytes;
    give_back(queue_.front().n_bytes);
    out.push_back(std::move(queue_.front().message));
    queue_.pop_front();
  }
  if (was_full) changed_.notify_all();
  return !out.empty();
}

arrow::Result<bool> Fetch::wait(Patience& patience) {
  Lock held(mutex_);
  ARROW_ASSIGN_OR_RAISE(const bool done, wait_moment(held, patience, "sent nothing",
                                                     [&] { return !queue_.empty(); }));
  if (done && queue_.empty()) ARROW_RETURN_NOT_OK(error_);
  return done;
}

std::shared_ptr<arrow::Schema> Fetch::schema() const {
  Lock held(mutex_);
  changed_.wait_for(held, std::chrono::duration<double>(idle_s_),
                    [&] { return stopped_ || ended_ || schema_ != nullptr; });
  return schema_;  // null when the stream failed before: `next` says how
}

arrow::Result<bool> Fetch::next(Message& out) {
  std::vector<Message> one;
  Patience patience;
  for (bool done = take_now(1, one); !done;) {
    ARROW_ASSIGN_OR_RAISE(done, wait(patience));
  }
  if (one.empty() && !take_now(1, one)) return false;
  out = std::move(one.front());
  return true;
}

void Fetch::stop() {
  Call::stop();
  if (share_ != nullptr) share_->close();  // wakes the thread when it waits for room
}

int Fetch::tries() {
  const Lock held(mutex_);
  return tries_;
}

arrow::Status Fetch::serve() {
  std::minstd_rand random(std::random_device{}());
  std::uniform_real_distribution<double> jitter(0.5, 1.5);
  const int tries_max = check_ ? TRIES : 1;
  double backoff_s = BACKOFF_S;
  for (int tries = 1;; ++tries, backoff_s *= BACKOFF_FACTOR) {
    {
      const Lock held(mutex_);
      tries_ = tries;
    }
    if (order_.gathers && !begin_request()) return closed_status();
    std::unique_ptr<Governor, EndRequest> request(order_.gathers ? governor_.get() : nullptr);
    const arrow::Status status = with_stream(
        [&](Connection::Transport& transport, std::unique_ptr<Stream>* stream) {
          return transport.DoGet(call_options(order_.headers, CALL_S_MAX),
                                 arrow::flight::Ticket{order_.ticket}, stream);
        },
        [&](Stream& stream, bool& cut) { return read(stream, cut); });
    request.reset();  // before the pause: others may go on
    if (status.ok()) return check_ ? check_->finish() : status;
    if (!is_broken(status)) return status;
    if (tries == tries_max || !pause(backoff_s * jitter(random))) return no_answer(status, tries);
  }
}

// Wait for the requests of others; false when stopped meanwhile.
bool Fetch::begin_request() {
  while (!governor_->begin(MOMENT)) {
    const Lock held(mutex_);
    if (stopped_) return false;
    ++progress_;  // the peer is not to blame
  }
  return true;
}

// Before a message is read; false when stopped meanwhile. Whoever holds nothing never waits.
bool Fetch::reserve() {
  Lock held(mutex_);
  wait_until_true(changed_, held, [&] { return stopped_ || !full(); });
  while (!stopped_) {
    const bool holds_some = queued_bytes_ > 0;
    held.unlock();
    bool done = governor_->reserve(expected_bytes_, holds_some, MOMENT);
    if (done && share_ != nullptr && !share_->reserve(expected_bytes_)) {
      governor_->add(-expected_bytes_);
      done = false;
    }
    held.lock();
    if (!done) continue;
    reserved_bytes_ = expected_bytes_;
    return true;
  }
  return false;
}

// False when stopped meanwhile.
bool Fetch::pause(double seconds) {
  Lock held(mutex_);
  return !changed_.wait_for(held, std::chrono::duration<double>(seconds),
                            [&] { return stopped_; });
}

// Until the stream is over; the caller asks how it ended.
arrow::Status Fetch::read(Stream& stream, bool& cut) {
  const arrow::Status status = read_all(stream, cut);
  settle(0);
  return status;
}

arrow::Status Fetch::read_all(Stream& stream, bool& cut) {
  Incoming incoming(stream);
  for (;;) {
    Message message;
    if (!reserve()) return arrow::Status::Cancelled("stopped");
    const arrow::Result<bool> more = incoming.next(message);
    if (!more.ok()) {
      cut = incoming.over();
      return unreadable(more.status());
    }
    if (!*more) return arrow::Status::OK();
    if (message.batch != nullptr) announce(incoming.schema());
    ARROW_ASSIGN_OR_RAISE(const bool wanted, check_ ? check(message) : validate(message));
    if (!wanted) settle(0);
    if (wanted && !offer(std::move(message))) return arrow::Status::Cancelled("stopped");
  }
}

void Fetch::announce(std::shared_ptr<arrow::Schema> schema) {
  const Lock held(mutex_);
  if (schema_ == nullptr) {
    schema_ = std::move(schema);
    changed_.notify_all();
  }
}

// A message of an agent: it proved to be one, so its structure and checksum are enough.
arrow::Result<bool> Fetch::check(Message& message) {
  ARROW_ASSIGN_OR_RAISE(const EdgeHeader header, check_->decode(message.header));
  if (message.batch != nullptr) {
    if (const auto valid = message.batch->Validate(); !valid.ok()) return unreadable(valid);
  }
  ARROW_ASSIGN_OR_RAISE(const bool fresh, check_->accept(header, message.batch.get()));
  return fresh && (order_.events || header.event == Event::ROWS);
}

// A message of a stranger: nothing in it may kill a kernel.
arrow::Result<bool> Fetch::validate(Message& message) {
  if (message.batch == nullptr) return false;
  if (const auto valid = message.batch->ValidateFull(); !valid.ok()) {
    return fault("DataError",
                 "a batch of the stream is damaged: " + valid.message().substr(0, 300));
  }
  return true;
}

// False when stopped.
bool Fetch::offer(Message message) {
  const int64_t n_bytes =
      message.batch == nullptr ? 0 : arrow::util::TotalBufferSize(*message.batch);
  settle(n_bytes);
  const Lock held(mutex_);
  if (stopped_) return false;
  queue_.push_back({std::move(message), n_bytes});
  queued_bytes_ += n_bytes;
  if (queue_.size() == 1) changed_.notify_all();
  return true;
}

// So many bytes came of those that were reserved, or more.
void Fetch::settle(int64_t n_bytes) {
  const int64_t over = std::exchange(reserved_bytes_, 0) - n_bytes;
  if (n_bytes > 0) expected_bytes_ = n_bytes;
  if (over >= 0) return give_back(over);
  governor_->add(-over);
  if (share_ != nullptr) share_->take(-over);
}

void Fetch::give_back(int64_t n_bytes) {
  if (n_bytes == 0) return;
  governor_->add(-n_bytes);
  if (share_ != nullptr) share_->give_back(n_bytes);
}

bool Fetch::full() const {
  return queue_.size() >= QUEUE_MESSAGES_MAX ||
         (!queue_.empty() && queued_bytes_ >= QUEUE_BYTES_MAX);
}

}  // namespace fabric
