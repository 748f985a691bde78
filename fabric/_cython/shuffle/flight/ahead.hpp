// Reading a stream ahead whose waits can't be ended: a thread of its own reads.
//
// One job: `next` that returns as soon as `cancel` was called, over a MessageStream that may sit in
// a wait. At most `MESSAGES_MAX` messages lie ready. The thread ends when the source lets go of it.
#pragma once
#include <cstddef>
#include <memory>

#include "store/message.hpp"

namespace fabric {

class Ahead : public MessageStream {
 public:
  static constexpr size_t MESSAGES_MAX = 4;

  explicit Ahead(std::unique_ptr<MessageStream> source);
  ~Ahead() override { cancel(); }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Result<bool> next(Message& out) override;
  void cancel() override;

 private:
  struct Shared;
  static void read(Shared& shared);

  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace fabric
