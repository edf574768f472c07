/* SPDX-License-Identifier: MIT
 * Runs packets, strictly: a packet, register, field or size that is not in the tables here is a fault. A dispatch begins
 * when its packet is read, and ends at the latest moment: at a wait for it, at a RELEASE_MEM with data, or at the end of
 * its buffer; several that are under way end in a drawn order. Registers have junk in them when a buffer begins, as
 * another program may have left. The tables were written from Mesa's sid.h and the kernel's headers, not from tg's. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "model.h"

enum { MOST_PENDING = 64, FIRST = 0xb800, REGISTERS = 0x100 };
static const uint32_t junk = 0xdeadbeef;

typedef struct { uint32_t address; const char *name; uint32_t from, to, zero; } reg;   /* generations; zero: must be 0 */
static const reg known[] = {
  {0xb810, "COMPUTE_START_X", GFX9, GFX12, 1},        {0xb814, "COMPUTE_START_Y", GFX9, GFX12, 1},
  {0xb818, "COMPUTE_START_Z", GFX9, GFX12, 1},        {0xb81c, "COMPUTE_NUM_THREAD_X", GFX9, GFX12, 0},
  {0xb820, "COMPUTE_NUM_THREAD_Y", GFX9, GFX12, 0},   {0xb824, "COMPUTE_NUM_THREAD_Z", GFX9, GFX12, 0},
  {0xb830, "COMPUTE_PGM_LO", GFX9, GFX12, 0},         {0xb834, "COMPUTE_PGM_HI", GFX9, GFX12, 0},
  {0xb840, "COMPUTE_DISPATCH_SCRATCH_BASE_LO", GFX11, GFX12, 1},
  {0xb844, "COMPUTE_DISPATCH_SCRATCH_BASE_HI", GFX11, GFX12, 1},
  {0xb848, "COMPUTE_PGM_RSRC1", GFX9, GFX12, 0},      {0xb84c, "COMPUTE_PGM_RSRC2", GFX9, GFX12, 0},
  {0xb854, "COMPUTE_RESOURCE_LIMITS", GFX9, GFX12, 1},{0xb860, "COMPUTE_TMPRING_SIZE", GFX9, GFX12, 1},
  {0xb890, "COMPUTE_USER_ACCUM_0", GFX10, GFX12, 1},  {0xb894, "COMPUTE_USER_ACCUM_1", GFX10, GFX12, 1},
  {0xb898, "COMPUTE_USER_ACCUM_2", GFX10, GFX12, 1},  {0xb89c, "COMPUTE_USER_ACCUM_3", GFX10, GFX12, 1},
  {0xb8a0, "COMPUTE_PGM_RSRC3", GFX10, GFX12, 0},     {0xb8b4, "COMPUTE_PGM_RSRC3", GFX9, GFX9, 0},
  {0xb8bc, "COMPUTE_DISPATCH_INTERLEAVE", GFX11, GFX12, 0},
};
static uint32_t registers[REGISTERS];

typedef struct { drm_dispatch d; } begun;
static begun pending[MOST_PENDING];
static uint32_t pending_n;

static uint32_t generation(void) { return drm_chip()->generation; }

static const reg *find(uint32_t address) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].address == address && generation() >= known[i].from && generation() <= known[i].to) return &known[i];
  return NULL;
}

static uint32_t get(uint32_t address) { return registers[(address - FIRST) / 4]; }

/* ---- dispatches ---- */

static uint64_t mapped_from(uint64_t address) {
  for (buffer *b = buffers; b; b = b->next)
    if (b->mapped && address >= b->address && address - b->address < b->bytes) return b->bytes - (address - b->address);
  return 0;
}

static void end_one(uint32_t i) {
  drm_dispatch d = pending[i].d;
  char message[DRM_MESSAGE] = "";
  memmove(&pending[i], &pending[i + 1], (--pending_n - i) * sizeof *pending);
  caches_next();
  d.seed = draw();
  if (control.run && !control.run(control.user, &d, message, sizeof message)) fault("a dispatch: %.400s", message);
  control.dispatches++;
}

static void end_all(void) {
  while (pending_n) end_one((uint32_t)(draw() % pending_n));
}

static bool begin(const uint32_t *p) {
  enum { ENABLE = 1, AT_000 = 4, ANY_ORDER = 64, W32 = 1 << 15 };
  drm_dispatch d = {.chip = drm_chip()->name, .read = cached_read, .write = cached_write, .mapped = mapped_from};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (find(known[i].address) != &known[i]) continue;
    if (get(known[i].address) == junk) return fault("a dispatch without %s", known[i].name), false;
    if (known[i].zero && get(known[i].address)) return fault("%s is not 0", known[i].name), false;
  }
  d.code = ((uint64_t)get(0xb834) << 40 | (uint64_t)get(0xb830) << 8);
  if (get(0xb834) & 0x80) d.code |= 0xffff000000000000;
  if (get(0xb834) > 0xff) return fault("COMPUTE_PGM_HI has %x", get(0xb834)), false;
  d.rsrc1 = get(0xb848), d.rsrc2 = get(0xb84c), d.rsrc3 = get(generation() == GFX9 ? 0xb8b4 : 0xb8a0);
  d.initiator = p[3], d.wave32 = (p[3] & W32) != 0;
  for (int i = 0; i < 3; i++) d.groups[i] = p[i], d.threads[i] = get(0xb81c + 4 * (uint32_t)i);
  d.local_bytes = (d.rsrc2 >> 15 & 0x1ff) * 512;
  for (uint32_t i = 0; i < 16; i++) d.user_data[i] = get(0xb900 + 4 * i);
  uint64_t threads = (uint64_t)d.threads[0] * d.threads[1] * d.threads[2];
  if ((p[3] & ~(uint32_t)W32) != (ENABLE | AT_000 | ANY_ORDER)) return fault("DISPATCH_DIRECT: initiator %08x", p[3]), false;
  if (d.wave32 != !drm_chip()->wave64) return fault("waves of another size than the chip's kernels have"), false;
  if (d.rsrc2 & 1) return fault("a dispatch with scratch memory"), false;
  if ((d.rsrc1 >> 12 & 0xff) != 0xf0) return fault("a dispatch that rounds otherwise than to nearest, or flushes subnormal numbers"), false;
  if (!p[0] || !p[1] || !p[2] || !threads || threads > 1024) return fault("a dispatch of no groups, or of %llu threads", (unsigned long long)threads), false;
  if (pending_n == MOST_PENDING) end_one(0);
  pending[pending_n++].d = d;
  return true;
}

static bool set_registers(const uint32_t *p, uint32_t n) {
  for (uint32_t i = 1; i < n; i++) {
    uint32_t address = 0xb000 + 4 * (p[0] + i - 1);
    const reg *r = find(address);
    if (!r && (address < 0xb900 || address >= 0xb940)) return fault("SET_SH_REG of %05x, which %s lacks", address, drm_chip()->name), false;
    registers[(address - FIRST) / 4] = p[i];
    if (r) trace("  SET_SH_REG %s %08x\n", r->name, p[i]);
    else trace("  SET_SH_REG COMPUTE_USER_DATA_%u %08x\n", (address - 0xb900) / 4, p[i]);
  }
  return n > 1;
}

/* ---- caches ---- */

typedef struct { uint32_t bit; const char *name; uint32_t what; } field;
static const field coher[] = {{3, "TC_NC", 0}, {18, "TC_WB", WB_L2}, {22, "TCL1", INV_VECTORS}, {23, "TC", INV_L2},
                              {27, "SH_KCACHE", INV_SCALARS}, {29, "SH_ICACHE", INV_INSTRUCTIONS}, {0, NULL, 0}};
static const field gcr[] = {{0, "GLI_INV", INV_INSTRUCTIONS}, {4, "GLM_WB", 0}, {5, "GLM_INV", 0}, {7, "GLK_INV", INV_SCALARS},
                            {8, "GLV_INV", INV_VECTORS}, {9, "GL1_INV", 0}, {14, "GL2_INV", INV_L2}, {15, "GL2_WB", WB_L2}, {0, NULL, 0}};
static const field released9[] = {{15, "TC_WB", WB_L2}, {17, "TC", INV_L2}, {19, "TC_NC", 0}, {0, NULL, 0}};
static const field released[] = {{12, "GLM_WB", 0}, {13, "GLM_INV", 0}, {21, "GL2_WB", WB_L2}, {22, "SEQ", 0}, {0, NULL, 0}};

/* Names the bits, and adds up what they do. */
static bool read_fields(const field *f, uint32_t bits, const char *packet, uint32_t *what) {
  *what = 0;
  for (; f->name; f++)
    if (bits >> f->bit & 1) {
      trace(" %s", f->name);
      *what |= f->what;
      bits &= ~(1u << f->bit);
    }
  trace("\n");
  return bits ? (fault("%s with unknown bits %08x", packet, bits), false) : true;
}

static bool acquire(const uint32_t *p, uint32_t n) {
  bool gfx9 = generation() == GFX9;
  uint32_t what, bits = gfx9 ? p[0] : p[6];
  if (n != (gfx9 ? 6u : 7u) || (!gfx9 && p[0]) || p[1] != 0xffffffff || p[2] != 0xffffff || p[3] || p[4] || p[5] != 10) return fault("a wrong ACQUIRE_MEM"), false;
  trace("  ACQUIRE_MEM");
  if (!read_fields(gfx9 ? coher : gcr, bits, "ACQUIRE_MEM", &what)) return false;
  if (!gfx9 && !(bits >> 9 & 1)) what &= ~(uint32_t)(INV_VECTORS | INV_SCALARS);   /* between L0 and L2 lies GL1 */
  if (!gfx9 && generation() < GFX12 && bits >> 4 & 1 && !(bits >> 5 & 1)) return fault("GLM_WB without GLM_INV"), false;
  if (generation() == GFX12 && bits & 3 << 4) return fault("gfx12 has no GLM"), false;
  caches_do(what);
  return true;
}

static bool release(const uint32_t *p, uint32_t n) {
  bool gfx9 = generation() == GFX9;
  uint32_t what, data = p[1] >> 29;
  uint64_t to = p[2] | (uint64_t)p[3] << 32;
  if (n != 7 || (p[0] & 0xfff) != (0x14 | 5 << 8) || (data != 0 && data != 3) || (p[1] & 0x1fffffff) != (data ? 3u << 24 : 0) || p[4] || p[5] || p[6])
    return fault("a wrong RELEASE_MEM"), false;
  trace("  RELEASE_MEM%s", data ? " clock" : "");
  if (!read_fields(gfx9 ? released9 : released, p[0] & ~0xfffu, "RELEASE_MEM", &what)) return false;
  if (gfx9 && what & WB_L2 && !(p[0] >> 17 & 5)) return fault("TC_WB without TC and without TC_NC"), false;
  if (gfx9 && p[0] >> 19 & 1) what &= ~(uint32_t)(WB_L2 | INV_L2);   /* of memory of the type NC, which gfx90a's is not */
  if (generation() == GFX12 && p[0] & 3 << 12) return fault("gfx12 has no GLM"), false;
  end_all();
  caches_do(what);
  if (!data) return true;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t ticks = (uint64_t)now.tv_sec * 100000000 + (uint64_t)now.tv_nsec / 10;
  buffer *b = buffer_at(to, 8, "RELEASE_MEM writes");
  if (!b || to % 8) return fault("RELEASE_MEM writes to %llx", (unsigned long long)to), false;
  memcpy(b->memory + (to - b->address), &ticks, 8);
  return true;
}

/* ---- streams ---- */

static bool run_packet(uint32_t op, const uint32_t *p, uint32_t n) {
  switch (op) {
  case 0x15:
    trace("  DISPATCH_DIRECT %u %u %u %08x\n", p[0], p[1], p[2], p[3]);
    return n == 4 ? begin(p) : (fault("a wrong DISPATCH_DIRECT"), false);
  case 0x46:
    trace("  EVENT_WRITE CS_PARTIAL_FLUSH\n");
    if (n != 1 || p[0] != (7 | 4 << 8)) return fault("an unknown event %08x", p[0]), false;
    end_all();
    return true;
  case 0x49: return release(p, n);
  case 0x58: return acquire(p, n);
  case 0x76: return set_registers(p, n);
  default: return fault("an unknown packet %02x", op), false;
  }
}

static const uint32_t *words_at(uint64_t address, uint32_t bytes) {
  buffer *b = buffer_at(address, bytes, "a submission has");
  return b ? (const uint32_t *)(b->memory + (address - b->address)) : NULL;
}

bool run_compute(uint64_t address, uint32_t bytes) {
  const uint32_t *w = words_at(address, bytes);
  uint32_t n = bytes / 4;
  bool ok = w != NULL;
  for (uint32_t i = 0; i < REGISTERS; i++) registers[i] = junk;
  for (uint32_t i = 0; ok && i < n;) {
    uint32_t h = w[i], op = h >> 8 & 255, count = (h >> 16 & 0x3fff) + 1, type = op == 0x76 || op == 0x15 ? 2 : 0;
    if (h == 0xffff1000) {
      i++;
      continue;
    }
    ok = h >> 30 == 3 && (h & 255) == type && count <= n - i - 1;
    if (!ok) fault("a wrong packet %08x", h);
    else ok = run_packet(op, w + i + 1, count);
    i += 1 + count;
  }
  end_all();   /* the kernel driver's own fence, which writes L2 back only where tg's stream has not: not modelled */
  return ok;
}

static bool copy(const uint32_t *p) {
  uint64_t from = p[3] | (uint64_t)p[4] << 32, to = p[5] | (uint64_t)p[6] << 32, bytes = (uint64_t)p[1] + 1;
  if (p[2] || bytes > 0x400000) return fault("a wrong copy"), false;
  trace("  COPY_LINEAR %llu\n", (unsigned long long)bytes);
  buffer *a = buffer_at(from, bytes, "a copy reads"), *b = buffer_at(to, bytes, "a copy writes");
  if (!a || !b) return false;
  memmove(b->memory + (to - b->address), a->memory + (from - a->address), bytes);
  control.copies++;
  return true;
}

bool run_copies(uint64_t address, uint32_t bytes) {
  const uint32_t *w = words_at(address, bytes);
  uint32_t n = bytes / 4;
  bool ok = w != NULL, busy = false;
  for (uint32_t i = 0; ok && i < n;) {
    if (w[i] == 0) i++, busy = false;
    else if (w[i] == 1 && n - i >= 7) {
      if (busy) return fault("a copy beside another: no operation between them"), false;
      ok = copy(w + i), i += 7, busy = true;
    } else if (w[i] == (13 | 2 << 8) && n - i >= 3) {
      uint64_t to = w[i + 1] | (uint64_t)w[i + 2] << 32, ticks;
      struct timespec now;
      buffer *b = buffer_at(to, 8, "a time is written");
      clock_gettime(CLOCK_MONOTONIC, &now);
      ticks = (uint64_t)now.tv_sec * 100000000 + (uint64_t)now.tv_nsec / 10;
      if (!b || to % 8 || busy) return fault("a wrong time stamp"), false;
      memcpy(b->memory + (to - b->address), &ticks, 8);
      trace("  TIMESTAMP\n");
      i += 3;
    } else ok = (fault("an unknown packet %08x of a copy engine", w[i]), false);
  }
  return ok;
}
