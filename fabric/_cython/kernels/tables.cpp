// What operators keep by group id and by key, in one piece: tables, extremes, accumulators.
//
// One job: compile the loops of the headers named *_core.hpp, by_group.hpp, and what these share
// (slots, blocks of keys, kept keys, growing arrays), which no other file includes: all that runs
// per row is inlined here. The faces see group_table.hpp, join_table.hpp, extremes.hpp and
// accumulators.hpp.
#include "by_group.hpp"
#include "extremes_core.hpp"
#include "group_core.hpp"
#include "join_core.hpp"

namespace fabric {

// --- groups -------------------------------------------------------------------------------------

GroupTable::GroupTable(const Types& types) : core_(std::make_unique<Core>(types)) {}
GroupTable::~GroupTable() = default;

void GroupTable::upsert(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) {
  core_->upsert(types, arrays, cpu, ids);
}
void GroupTable::find(const Types& types, const Arrays& arrays, int cpu, int32_t* ids) {
  core_->find(types, arrays, cpu, ids);
}
int64_t GroupTable::first_stranger(const int32_t* ids, int64_t n) const {
  return core_->first_stranger(ids, n);
}
void GroupTable::remove(const int32_t* ids, int64_t n) { core_->remove(ids, n); }
void GroupTable::compact() { core_->compact(); }
void GroupTable::list(int32_t* ids) const { core_->list(ids); }
void GroupTable::keys(const int32_t* ids, int64_t n, ArrowArray& out) const {
  core_->keys(ids, n, out);
}
int64_t GroupTable::n_groups() const { return core_->n_groups(); }
int64_t GroupTable::n_ids() const { return core_->n_ids(); }
int64_t GroupTable::n_bytes() const { return core_->n_bytes(); }

// --- rows of joins ------------------------------------------------------------------------------

JoinTable::JoinTable(const Types& keys, const Types& payload)
    : core_(std::make_unique<Core>(keys, payload)) {}
JoinTable::~JoinTable() = default;

void JoinTable::insert(const Types& key_types, const Arrays& keys, const Arrays& payload,
                       const int64_t* times, int cpu) {
  core_->insert(key_types, keys, payload, times, cpu);
}
int64_t JoinTable::probe(const Types& types, const Arrays& arrays, int64_t begin, int64_t most,
                         bool outer, int cpu) {
  return core_->probe(types, arrays, begin, most, outer, cpu);
}
int64_t JoinTable::n_pairs() const { return core_->n_pairs(); }
bool JoinTable::each_has_one() const { return core_->each_has_one(); }
const uint32_t* JoinTable::probed() const { return core_->probed(); }
const int32_t* JoinTable::found() const { return core_->found(); }
void JoinTable::contains(const Types& types, const Arrays& arrays, int cpu, uint8_t* out) {
  core_->contains(types, arrays, cpu, out);
}
int64_t JoinTable::remove_before(int64_t bound) { return core_->remove_before(bound); }
void JoinTable::list(int32_t* places) const { core_->list(places); }
void JoinTable::times(const int32_t* places, int64_t n, int64_t* out) const {
  core_->times(places, n, out);
}
void JoinTable::gather(const int32_t* places, int64_t n, const std::vector<int32_t>& which,
                       ArrowArray& out) const {
  core_->gather(places, n, which, out);
}
int64_t JoinTable::n_places() const { return core_->n_places(); }
int64_t JoinTable::n_rows() const { return core_->n_rows(); }
int64_t JoinTable::n_bytes() const { return core_->n_bytes(); }

// --- aggregates ---------------------------------------------------------------------------------

Extremes::Extremes(const Type& type, bool greatest)
    : core_(std::make_unique<Core>(type, greatest)) {}
Extremes::~Extremes() = default;

bool Extremes::is_ranked() const { return core_->is_ranked(); }
void Extremes::update(const Type& type, const ArrowArray& array, const int32_t* ids, int cpu) {
  core_->update(type, array, ids, cpu);
}
void Extremes::clear(const int32_t* ids, int64_t n, int cpu) { core_->clear(ids, n, cpu); }
void Extremes::read(const int32_t* ids, int64_t n, int cpu, uint64_t* words, uint8_t* seen) {
  core_->read(ids, n, cpu, words, seen);
}
void Extremes::put_out(const int32_t* ids, int64_t n, int cpu, ArrowArray& out) {
  core_->put_out(ids, n, cpu, out);
}
int64_t Extremes::n_bytes() const { return core_->n_bytes(); }

std::unique_ptr<Counts> make_counts() { return std::make_unique<RowCounts>(); }
std::unique_ptr<Accumulator> make_integer_sums() { return std::make_unique<IntegerSums>(); }
std::unique_ptr<Accumulator> make_float_sums() { return std::make_unique<FloatSums>(); }
std::unique_ptr<Accumulator> make_decimal_sums() { return std::make_unique<DecimalSums>(); }
std::unique_ptr<Accumulator> make_moment_sums() { return std::make_unique<MomentSums>(); }

}  // namespace fabric
