// Asynchronous copies: cp.async of single threads, and bulk copies of tensors (TMA).
#pragma once

namespace tn_shim {

static Options options;
static uint32_t random_state;

static u32 draw() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state;
}

// Whether an operation that is issued now is performed now.
static bool performs_now() { return options.completion == AT_ISSUE || (options.completion == AT_RANDOM && draw() % 2); }

// ---------------------------------------------------------------------------------------------------------- cp.async

struct Copy { char *to; const void *from; u32 bytes, valid, thread, group; };

static std::vector<Copy> copies;

static void perform(const Copy &copy) {
  if (copy.valid) memcpy(copy.to, copy.from, copy.valid);
  memset(copy.to + copy.valid, 0, copy.bytes - copy.valid);
}

void cp_async(void *shared, const void *global, unsigned int bytes, unsigned int valid) {
  Fiber &fiber = self();
  u32 address = shared_address(shared);
  if (address % bytes || (valid && (size_t)global % bytes)) misaligned(address % bytes ? shared : global, bytes, "copies");
  if (!is_shared(address, bytes))
    return find("shared-range", thread_name(fiber.number) + format(" copies to byte %u, outside of shared memory", address));
  if (fiber.copy_slot < 0) fiber.copy_slot = (int)new_slot("the copies of " + thread_name(fiber.number));
  const void *code = __builtin_return_address(0);
  if (valid) global_access(code, global, valid, false);
  note(code, SHARED, address, bytes, true);
  counters.copied_bytes += valid;
  fiber.copied = fiber.copy_group + 1;
  shared_write(address, bytes, {(u32)fiber.copy_slot, fiber.copy_group + 1, fiber.number, &fiber.clock, false, "cp.async"}, PLAIN);
  Copy copy = {(char *)shared, global, bytes, valid, fiber.number, fiber.copy_group};
  if (performs_now()) perform(copy);
  else copies.push_back(copy);
}

void cp_async_commit() { self().copy_group++; }

void cp_async_wait(unsigned int groups) {
  Fiber &fiber = self();
  u32 target = fiber.copy_group > groups ? fiber.copy_group - groups : 0;
  auto is_due = [&](const Copy &copy) { return copy.thread == fiber.number && copy.group < target; };
  for (const Copy &copy : copies)
    if (is_due(copy)) perform(copy);
  copies.erase(std::remove_if(copies.begin(), copies.end(), is_due), copies.end());
  if (fiber.copy_slot >= 0) Clock::raise(fiber.clock.slots, (u32)fiber.copy_slot - thread_count, target);
}

// ------------------------------------------------------------------------------------------------------- bulk copies

static u32 swizzled(u32 address, u32 span) { return span ? address ^ ((address % (8 * span)) >> 7) << 4 : address; }
static uint8_t swizzle_code(u32 span) { return span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0; }

struct Bulk {
  TensorMap map;  // a copy: a parameter of a kernel does not outlive its fiber
  int position[5];
  u32 address, bytes, thread, group;
  MBarrier *barrier;
  bool load;
};

static std::vector<Bulk> bulks;

// Row by row of the innermost dimension; what is outside of the tensor reads as 0 and is not written.
static void perform(Bulk &bulk) {
  const TensorMap &map = bulk.map;
  u32 pitch = map.box[0] * map.element, at = bulk.address;
  for (u32 row = 0, rows = bulk.bytes / pitch; row < rows; row++, at += pitch) {
    char *start = map.base;
    bool inside = true;
    u32 rest = row;
    for (u32 i = 1; i < map.rank; i++) {
      long long index = bulk.position[i] + (long long)(rest % map.box[i]);
      rest /= map.box[i];
      inside &= index >= 0 && index < (long long)map.sizes[i];
      start += index * (long long)map.strides[i];
    }
    for (u32 byte = 0; byte < pitch; byte += map.element) {
      long long column = bulk.position[0] + (long long)(byte / map.element);
      bool is_element = inside && column >= 0 && column < (long long)map.sizes[0];
      char *shared = shared_pointer(swizzled((at + byte) & ~15u, map.swizzle) + (at + byte) % 16);
      char *global = start + column * (long long)map.element;
      if (is_element) memcpy(bulk.load ? shared : global, bulk.load ? global : shared, map.element);
      else if (bulk.load) memset(shared, 0, map.element);
      if (is_element) touch(global, map.element, !bulk.load);
      counters.copied_bytes += is_element ? map.element : 0;
    }
  }
  if (!bulk.load) return;
  MBarrier &barrier = *bulk.barrier;
  barrier.bytes -= bulk.bytes;
  if (barrier.phase != bulk.group)
    find("mbarrier-bytes", "a bulk copy of " + thread_name(bulk.thread) + " ends when " + mbarrier_name(barrier) +
         format(" is in phase %u already: phase %u expected too few bytes or arrivals", barrier.phase, bulk.group));
  complete_if_done(barrier);
}

static bool make_bulk(Bulk &bulk, const TensorMap *map, int rank, const int *position, const void *shared) {
  bulk.map = *map;
  bulk.address = shared_address(shared);
  bulk.bytes = map->element;
  bulk.thread = current->number;
  for (int i = 0; i < rank; i++) {
    bulk.position[i] = position[i];
    bulk.bytes *= map->box[i];
  }
  u32 alignment = map->swizzle ? 8 * map->swizzle : 128;
  if (rank != (int)map->rank) find("tensor-map", format("a bulk copy of rank %d by a map of rank %u", rank, map->rank));
  if (bulk.address % alignment) misaligned(shared_pointer(bulk.address), alignment, "gives a bulk copy");
  if (is_shared(bulk.address, bulk.bytes)) return true;
  find("shared-range", thread_name(current->number) + format(" copies %u bytes at byte %u, outside of shared memory", bulk.bytes, bulk.address));
  return false;
}

void tma_load(void *shared, const TensorMap *map, int rank, const int *position, void *pointer) {
  Bulk bulk;
  bulk.load = true;
  MBarrier *barrier = bulk.barrier = mbarrier_at(pointer, "a bulk copy");
  if (!barrier || !make_bulk(bulk, map, rank, position, shared)) return;
  if (!barrier->fenced)
    find("mbarrier-fence", thread_name(current->number) + " gives " + mbarrier_name(*barrier) + " to a bulk copy; no fence follows its init");
  bulk.group = barrier->phase;
  Fiber &fiber = self();
  Actor actor = {barrier->slot, barrier->phase + 1, fiber.number, &fiber.clock, true, "a bulk load"};
  shared_write(bulk.address, bulk.bytes, actor, ASYNC, (uint8_t)(1 + swizzle_code(map->swizzle)));
  if (performs_now()) perform(bulk);
  else bulks.push_back(bulk);
}

void tma_store(const TensorMap *map, int rank, const int *position, const void *shared) {
  Bulk bulk;
  bulk.load = false;
  bulk.barrier = 0;
  if (!make_bulk(bulk, map, rank, position, shared)) return;
  Fiber &fiber = self();
  if (fiber.store_slot < 0) fiber.store_slot = (int)new_slot("the bulk stores of " + thread_name(fiber.number));
  bulk.group = fiber.store_group;
  fiber.stored = fiber.store_group + 1;
  Clock clock = known();
  shared_read(bulk.address, bulk.bytes, {(u32)fiber.store_slot, fiber.store_group + 1, fiber.number, &clock, true, "a bulk store"});
  if (performs_now()) perform(bulk);
  else bulks.push_back(bulk);
}

void tma_store_commit() { self().store_group++; }

void tma_store_wait(unsigned int groups) {
  Fiber &fiber = self();
  u32 target = fiber.store_group > groups ? fiber.store_group - groups : 0;
  auto is_due = [&](const Bulk &bulk) { return !bulk.load && bulk.thread == fiber.number && bulk.group < target; };
  for (Bulk &bulk : bulks)
    if (is_due(bulk)) perform(bulk);
  bulks.erase(std::remove_if(bulks.begin(), bulks.end(), is_due), bulks.end());
  if (fiber.store_slot >= 0) Clock::raise(fiber.clock.slots, (u32)fiber.store_slot - thread_count, target);
}

// When no fiber can go on: the first load whose mbarrier somebody waits for, or any.
static bool perform_load(bool anything) {
  for (size_t pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < bulks.size(); i++) {
      if (!bulks[i].load) continue;
      bool awaited = anything || pass;
      for (size_t f = 0; f < fibers.size() && !awaited; f++)
        awaited = fibers[f].waiting == AT_MBARRIER && fibers[f].mbarrier == bulks[i].barrier;
      if (!awaited) continue;
      Bulk bulk = bulks[i];
      bulks.erase(bulks.begin() + (long)i);
      perform(bulk);
      return true;
    }
  return false;
}

// Something that is in flight is performed between two turns, at random.
static void perform_at_random() {
  if (!copies.empty() && draw() % 4 == 0) {
    size_t index = draw() % copies.size();
    perform(copies[index]);
    copies.erase(copies.begin() + (long)index);
  }
  if (!bulks.empty() && draw() % 8 == 0) {
    size_t index = draw() % bulks.size();
    Bulk bulk = bulks[index];
    bulks.erase(bulks.begin() + (long)index);
    perform(bulk);
  }
}

}  // namespace tn_shim
