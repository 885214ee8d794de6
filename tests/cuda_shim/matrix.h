// Matrix instructions. Those of a warp (ldmatrix, stmatrix, mma.sync) are performed when all lanes are there; wgmma is
// asynchronous: accumulators hold signalling NaN from its issue to its wait, so that what touches them before shows.
#pragma once

namespace tn_shim {

static int element_bytes(int element) { return element == TF32 ? 4 : element == S8 ? 1 : 2; }

static float as_float(u32 bits) {
  float result;
  memcpy(&result, &bits, 4);
  return result;
}

static float value_of(const void *pointer, int element) {
  if (element == S8) return *(const signed char *)pointer;
  if (element == TF32) {
    u32 bits;
    memcpy(&bits, pointer, 4);
    return as_float(bits & 0xffffe000u);  // the hardware does not read the other bits
  }
  unsigned short half;
  memcpy(&half, pointer, 2);
  if (element == BF16) return as_float((u32)half << 16);
  _Float16 result;
  memcpy(&result, &half, 2);
  return (float)result;
}

// ------------------------------------------------------------------------------------------------- ldmatrix, stmatrix

static bool check_row(const void *code, const void *row, bool write) {
  u32 address = shared_address(row);
  if ((size_t)row % 16) misaligned(row, 16, write ? "gives stmatrix" : "gives ldmatrix");
  if (!is_shared(address, 16)) {
    find("shared-range", thread_name(current->number) + format(" gives %s byte %u, outside of shared memory", write ? "stmatrix" : "ldmatrix", address));
    return false;
  }
  note(code, SHARED, address, 16, write);
  if (write) shared_write(address, 16, plain("stmatrix"), PLAIN);
  else shared_read(address, 16, plain("ldmatrix"));
  return true;
}

// Lane i gives row i % 8 of matrix i / 8, and gets of each matrix two elements: of row lane / 4 from column lane % 4 * 2
// on, or, transposed, of that column.
void ldmatrix(unsigned int *registers, const void *row, int matrices, bool transposed) {
  static const char nothing[16] = {};
  u32 lane = current->number % WARP;
  bool gives = lane < 8u * (u32)matrices;
  Warp &warp = own_warp();
  warp.rows[warp.exchange.generation % 2][lane] = gives && check_row(__builtin_return_address(0), row, false) ? (const char *)row : nothing;
  u32 set = meet_warp();
  for (int m = 0; m < matrices; m++) {
    const char *const *rows = warp.rows[set] + 8 * m;
    unsigned short pair[2];
    for (u32 i = 0; i < 2; i++)
      memcpy(&pair[i], transposed ? rows[lane % 4 * 2 + i] + lane / 4 * 2 : rows[lane / 4] + (lane % 4 * 2 + i) * 2, 2);
    registers[m] = pair[0] | (u32)pair[1] << 16;
  }
}

void stmatrix(void *row, const unsigned int *registers, int matrices, bool transposed) {
  u32 lane = current->number % WARP;
  Warp &warp = own_warp();
  memcpy(warp.registers[warp.exchange.generation % 2][lane], registers, 4 * (size_t)matrices);
  u32 set = meet_warp();
  if (lane >= 8u * (u32)matrices || !check_row(__builtin_return_address(0), row, true)) return;
  for (u32 i = 0; i < 8; i++) {
    u32 source = transposed ? i * 4 + lane % 8 / 2 : lane % 8 * 4 + i / 2, half = transposed ? lane % 2 : i % 2;
    memcpy((char *)row + 2 * i, (const char *)warp.registers[set][source] + 4 * (lane / 8) + 2 * half, 2);
  }
}

// ---------------------------------------------------------------------------------------------------------- mma.sync

// m16n8k(32 bytes), of f64 m16n8k8: each lane brings four registers of A and two of B, and has four elements of D.
template <class Sum, class Register, class Value>
static void mma_of(Sum *d, const Register *a, const Register *b, u32 bytes, Value value) {
  u32 lane = current->number % WARP, per = (u32)sizeof(Register) / bytes, depth = 8 * per;
  Warp &warp = own_warp();
  char *own = (char *)warp.registers[warp.exchange.generation % 2][lane];
  memcpy(own, a, 4 * sizeof(Register));
  memcpy(own + 4 * sizeof(Register), b, 2 * sizeof(Register));
  const uint64_t(*all)[6] = warp.registers[meet_warp()];
  auto held = [&](u32 of, u32 number, u32 at) { return value((const char *)all[of] + number * sizeof(Register) + at * bytes); };
  for (u32 i = 0; i < 4; i++) {
    u32 row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (u32 k = 0; k < depth; k++) {
      u32 quad = k % (4 * per) / per, half = k / (4 * per);
      d[i] += held(row % 8 * 4 + quad, row / 8 + 2 * half, k % per) * held(column * 4 + quad, 4 + half, k % per);
    }
  }
  if (!lane) counters.tensor_operations += 2 * 16 * 8 * depth;
}

void mma(void *d, const unsigned int *a, const unsigned int *b, int element) {
  if (element == S8) mma_of((int *)d, a, b, 1, [](const char *at) { return (int)*(const signed char *)at; });
  else mma_of((float *)d, a, b, (u32)element_bytes(element), [=](const char *at) { return value_of(at, element); });
}

void mma_f64(double *d, const double *a, const double *b) {
  mma_of(d, a, b, 8, [](const char *at) {
    double result;
    memcpy(&result, at, 8);
    return result;
  });
}

// ------------------------------------------------------------------------------------------------------------- wgmma

struct Accumulator {
  float *registers;
  u32 count, group;
  std::vector<float> hidden;
};

const u32 GROUP = 128;

struct Product {
  u32 columns, group, operand[GROUP][4], issued;
  int element;
  uint64_t a, b;
  bool a_in_registers, accumulate, a_transposed, b_transposed, performed;
  Accumulator *accumulators[GROUP];
  Clock clock;
};

struct Warpgroup {
  std::vector<Product *> products;
  size_t performed;
  u32 slot, registers, changed;
};

static std::vector<Warpgroup> warpgroups;

// Address of 16 bytes as the hardware decodes a descriptor: chunk `chunk` of row `row` along K, or, where M or N lie
// side by side, chunk `chunk` of M or N of row `row` of K.
struct Descriptor {
  u32 start, leading, stride, span, panel;
  explicit Descriptor(uint64_t bits)
      : start((u32)(bits & 0x3fff) << 4), leading((u32)(bits >> 16 & 0x3fff) << 4), stride((u32)(bits >> 32 & 0x3fff) << 4) {
    u32 code = (u32)(bits >> 62);
    span = code == 0 ? 0 : 256u >> code;
    panel = std::max(span, 16u);
  }
  u32 along_depth(u32 row, u32 chunk) const {
    if (!span) return start + row / 8 * stride + chunk * leading + row % 8 * 16;
    return swizzled(start + row / 8 * stride + row % 8 * span + chunk * 16, span);
  }
  u32 across(u32 row, u32 chunk) const {
    u32 per = panel / 16;
    return swizzled(start + chunk / per * leading + row / 8 * stride + row % 8 * panel + chunk % per * 16, span);
  }
};

uint64_t wgmma_descriptor(const void *shared, unsigned int leading, unsigned int stride, unsigned int span) {
  u32 address = shared_address(shared);
  if (address % 16) misaligned(shared, 16, "gives wgmma");
  return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(leading >> 4 & 0x3fff) << 16 | (uint64_t)(stride >> 4 & 0x3fff) << 32 |
         (uint64_t)swizzle_code(span) << 62;
}

// Calls `visit(address, row, chunk)` for each 16 bytes that an operand of `rows` rows is.
template <class F> static void visit_operand(uint64_t bits, u32 rows, bool transposed, int element, F visit) {
  Descriptor descriptor(bits);
  u32 depth = 32 / (u32)element_bytes(element), per = depth / 2;
  if (transposed)
    for (u32 k = 0; k < depth; k++)
      for (u32 chunk = 0; chunk < rows / per; chunk++) visit(descriptor.across(k, chunk), k, chunk);
  else
    for (u32 row = 0; row < rows; row++)
      for (u32 chunk = 0; chunk < 2; chunk++) visit(descriptor.along_depth(row, chunk), row, chunk);
}

static void load_operand(std::vector<float> &to, uint64_t bits, u32 rows, bool transposed, int element) {
  u32 bytes = (u32)element_bytes(element), depth = 32 / bytes, per = 16 / bytes;
  to.assign(rows * depth, 0);
  visit_operand(bits, rows, transposed, element, [&](u32 address, u32 row, u32 chunk) {
    for (u32 i = 0; i < per && is_shared(address, 16); i++)
      to[transposed ? (chunk * per + i) * depth + row : row * depth + chunk * per + i] = value_of(shared_pointer(address) + i * bytes, element);
  });
}

static void perform(Product &product, Warpgroup &group) {
  static std::vector<float> a, b;
  u32 bytes = (u32)element_bytes(product.element), depth = 32 / bytes;
  load_operand(b, product.b, product.columns, product.b_transposed, product.element);
  if (product.a_in_registers) {
    a.assign(64 * depth, 0);
    for (u32 thread = 0; thread < GROUP; thread++)
      for (u32 i = 0; i < 4; i++)
        for (u32 e = 0; e < depth / 8; e++)
          a[(thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8) * depth + thread % 4 * depth / 8 + e + i / 2 * depth / 2] =
              value_of((char *)&product.operand[thread][i] + e * bytes, product.element);
  } else {
    load_operand(a, product.a, 64, product.a_transposed, product.element);
  }
  for (u32 thread = 0; thread < GROUP; thread++) {
    std::vector<float> &d = product.accumulators[thread]->hidden;
    for (u32 i = 0; i < product.columns / 2; i++) {
      u32 row = thread / 32 * 16 + thread % 32 / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      const float *x = &a[row * depth], *y = &b[column * depth];
      float sum = product.accumulate ? d[i] : 0;
      for (u32 k = 0; k < depth; k++) sum += x[k] * y[k];
      d[i] = sum;
    }
  }
  product.performed = true;
  group.performed++;
  counters.tensor_operations += 2ull * 64 * product.columns * depth;
}

static void perform_products(Warpgroup &group, u32 target) {
  while (group.performed < group.products.size()) {
    Product &next = *group.products[group.performed];
    if (next.issued < GROUP || next.group >= target) return;
    perform(next, group);
  }
}

static bool products_issued(const Warpgroup &group, u32 target) {
  for (size_t i = group.performed; i < group.products.size(); i++)
    if (group.products[i]->group < target && group.products[i]->issued < GROUP) return false;
  return true;
}

const u32 POISON = 0x7fa0dead;  // signalling: arithmetic on it sets the quiet bit, so a change in flight shows, too

static bool is_poisoned(const float *registers, u32 count) {
  for (u32 i = 0; i < count; i++)
    if (memcmp(registers + i, &POISON, 4)) return false;
  return true;
}

static void touched_in_flight() {
  find("accumulator-in-flight", thread_name(current->number) + " writes accumulators that a wgmma has not finished");
}

static void check_operand(const Product &product, uint64_t bits, u32 rows, bool transposed, u32 slot) {
  Actor actor = {slot, product.group + 1, NOWHERE, &product.clock, true, "wgmma"};
  visit_operand(bits, rows, transposed, product.element, [&](u32 address, u32, u32) {
    if (!is_shared(address, 16)) return find("shared-range", format("wgmma reads byte %u, outside of shared memory", address));
    const Granule &granule = granules[address >> granule_shift];
    if (granule.block == block_number && granule.layout && granule.layout - 1u != bits >> 62)
      find("swizzle", format("wgmma reads byte %u by swizzle %u, a bulk copy wrote it by swizzle %u", address, (u32)(bits >> 62), granule.layout - 1u));
    shared_read(address, 16, actor);
  });
}

void wgmma(float *d, int columns, int element, const unsigned int *a_registers, uint64_t a, uint64_t b, bool accumulate,
           bool a_transposed, bool b_transposed) {
  Fiber &fiber = self();
  Warpgroup &group = warpgroups[fiber.number / GROUP];
  if (fiber.number / GROUP * GROUP + GROUP > thread_count) return find("wgmma-divergent", "wgmma needs warpgroups of 128 threads");
  if (!group.slot) group.slot = new_slot(format("the wgmma of warpgroup %u", fiber.number / GROUP));
  u32 index = fiber.products++, member = fiber.number % GROUP, count = (u32)columns / 2;
  if (index == group.products.size()) {
    Product *made = new Product();
    made->columns = (u32)columns, made->element = element, made->group = fiber.product_group, made->a = a, made->b = b;
    made->a_in_registers = a_registers != 0, made->accumulate = accumulate;
    made->a_transposed = a_transposed, made->b_transposed = b_transposed;
    group.products.push_back(made);
  }
  Product &product = *group.products[index];
  if (product.columns != (u32)columns || product.a != a || product.b != b || product.accumulate != accumulate ||
      product.group != fiber.product_group)
    find("wgmma-divergent", thread_name(fiber.number) + " gives a wgmma other operands than the rest of its warpgroup");
  if (!fiber.registers_ordered) find("wgmma-fence", thread_name(fiber.number) + " issues wgmma without wgmma.fence since it touched the registers");
  Accumulator *accumulator = 0;
  for (Accumulator *known : fiber.accumulators)
    if (known->registers == d) accumulator = known;
  if (!accumulator) {
    accumulator = new Accumulator{d, count, 0, std::vector<float>(d, d + count)};
    fiber.accumulators.push_back(accumulator);
  } else if (!is_poisoned(d, count)) {
    touched_in_flight();
  }
  if (a_registers) {
    memcpy(product.operand[member], a_registers, 16);
    OperandRegisters operand = {a_registers, {}, fiber.product_group};
    memcpy(operand.held, a_registers, 16);
    fiber.operands.push_back(operand);
  }
  accumulator->group = fiber.product_group;
  for (u32 i = 0; i < count; i++) memcpy(d + i, &POISON, 4);
  product.accumulators[member] = accumulator;
  Clock clock = known();
  if (product.issued++) product.clock.meet(clock);
  else product.clock = clock;
  if (product.issued < GROUP) return;
  check_operand(product, b, product.columns, b_transposed, group.slot);
  if (!a_registers) check_operand(product, a, 64, a_transposed, group.slot);
  if (performs_now()) perform_products(group, NOWHERE);
}

void wgmma_fence() { self().registers_ordered = true; }
void wgmma_commit() { self().product_group++; }

void wgmma_wait(unsigned int groups) {
  Fiber &fiber = self();
  Warpgroup &group = warpgroups[fiber.number / GROUP];
  u32 target = fiber.product_group > groups ? fiber.product_group - groups : 0;
  if (!products_issued(group, target)) wait(FOR_PRODUCTS, 0, target);
  perform_products(group, target);
  if (group.slot) Clock::raise(fiber.clock.slots, group.slot - thread_count, target);
  auto is_done = [&](Accumulator *accumulator) {
    if (accumulator->group >= target) return false;
    if (!is_poisoned(accumulator->registers, accumulator->count)) touched_in_flight();
    memcpy(accumulator->registers, accumulator->hidden.data(), 4 * accumulator->count);
    delete accumulator;
    fiber.registers_ordered = false;
    return true;
  };
  fiber.accumulators.erase(std::remove_if(fiber.accumulators.begin(), fiber.accumulators.end(), is_done), fiber.accumulators.end());
  auto is_free = [&](const OperandRegisters &operand) {
    if (operand.group >= target) return false;
    if (memcmp(operand.registers, operand.held, 16))
      find("operand-in-flight", thread_name(fiber.number) + " writes operand registers that a wgmma has not read yet");
    return true;
  };
  fiber.operands.erase(std::remove_if(fiber.operands.begin(), fiber.operands.end(), is_free), fiber.operands.end());
}

// A warpgroup gives registers back or waits for some; 65,536 are 512 for each thread of a warpgroup's place.
static bool registers_suffice(u32 number, u32 wanted) {
  u32 sum = 0;
  for (u32 i = 0; i < warpgroups.size(); i++) sum += i == number ? wanted : warpgroups[i].registers;
  return sum <= 512;
}

void set_registers(unsigned int count, bool increase) {
  Fiber &fiber = self();
  u32 number = fiber.number / GROUP;
  Warpgroup &group = warpgroups[number];
  if (count % 8 || count < 24 || count > 256 || (increase ? count < fiber.registers : count > fiber.registers))
    find("setmaxnreg", thread_name(fiber.number) + format(" %s its registers from %u to %u", increase ? "increases" : "decreases", fiber.registers, count));
  fiber.registers = count;
  if (increase) {
    if (group.registers != count && !registers_suffice(number, count)) wait(FOR_REGISTERS, 0, count);
    group.registers = count;
  } else if (++group.changed % GROUP == 0) {
    group.registers = count;
  }
}

// Any lane, but always the same one.
bool elect() {
  meet_warp();
  return current->number % WARP == (options.turns == WARPS_DOWN ? std::min(WARP, thread_count - first_of_warp()) - 1 : 0);
}

}  // namespace tn_shim
