// A partition of a dataset that several other agents own.
//
// One job: read it from the first owner that can give it. Whoever can't before its first row is
// passed over, and that is told; after the first row an error ends the stream, as it would do with
// one owner: the reader asks again.
#pragma once
#include <mutex>

#include "flight/asking.hpp"
#include "flight/handlers.hpp"

namespace fabric {

class Replicas {
 public:
  using Stream = std::unique_ptr<MessageStream>;

  Replicas(DatasetTicket ticket, std::shared_ptr<const Handlers> handlers, const Asking& ask)
      : ticket_(std::move(ticket)), handlers_(std::move(handlers)), ask_(ask) {}

  void add(const std::string& owner, const std::string& address) {
    places_.emplace_back(owner, address);
  }
  bool empty() const { return places_.empty(); }

  // `owner` could not give it.
  void passed_over(const std::string& owner, const arrow::Status& status) const {
    if (ask_.passed_over == nullptr) return;
    const std::string& text = status.message();  // gRPC adds what only it understands
    ask_.passed_over(ask_.face.get(), ticket_.name, ticket_.partition, owner,
                     text.substr(0, text.find(". Detail: ")));
  }

  // The rows; there is at least one place.
  arrow::Result<Stream> open() &&;

 private:
  friend class ReplicaStream;

  arrow::Result<Stream> fetch(size_t place) const {
    return handlers_->fetch(places_[place].second, ticket_);
  }

  DatasetTicket ticket_;
  std::shared_ptr<const Handlers> handlers_;
  Asking ask_;
  std::vector<std::pair<std::string, std::string>> places_;  // owner, address
};

class ReplicaStream final : public MessageStream {
 public:
  explicit ReplicaStream(Replicas replicas) : replicas_(std::move(replicas)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return nullptr; }  // as of any owner

  arrow::Result<bool> next(Message& out) override {
    while (true) {
      arrow::Result<bool> more = asked(out);
      if (!more.ok() && !begun_ && at_ + 1 < replicas_.places_.size() && !is_cancelled()) {
        replicas_.passed_over(replicas_.places_[at_].first, more.status());
        set(nullptr);
        ++at_;
        continue;
      }
      begun_ = true;
      return more;
    }
  }

  void cancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (current_ != nullptr) current_->cancel();
  }

 private:
  arrow::Result<bool> asked(Message& out) {
    if (current_ == nullptr) {
      ARROW_ASSIGN_OR_RAISE(Replicas::Stream opened, replicas_.fetch(at_));
      set(std::move(opened));
    }
    return current_->next(out);
  }

  void set(Replicas::Stream stream) {
    {
      const std::lock_guard lock(mutex_);
      std::swap(current_, stream);
      if (cancelled_ && current_ != nullptr) current_->cancel();
    }
  }  // the one before ends here, outside the lock

  bool is_cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  Replicas replicas_;
  size_t at_ = 0;
  bool begun_ = false;
  std::mutex mutex_;  // of `current_` against `cancel`
  Replicas::Stream current_;
  bool cancelled_ = false;
};

// One place alone is asked at once, so that the schema of its rows is known.
inline arrow::Result<Replicas::Stream> Replicas::open() && {
  if (places_.size() == 1) return fetch(0);
  return std::make_unique<ReplicaStream>(std::move(*this));
}

}  // namespace fabric
