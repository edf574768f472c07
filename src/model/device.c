/* SPDX-License-Identifier: MIT
 * The cost of a program on a GPU, from its form after the last pass: what one warp does, counted as the emitter makes
 * instructions of it, times the warps. Addresses of a warp's lanes are computed, so that sectors of memory and
 * wavefronts of LOCAL memory are those of its first iterations. A core takes as long as its busiest unit, at
 * least: latency and the ends come on top. Rates are those of the target's row. */
#include <math.h>
#include <stdlib.h>
#include "dsl/text.h"
#include "dsl/value.h"
#include "lower/sweep.h"
#include "model/device.h"
#include "model/work.h"
#include "target/matrix.h"

enum { LANES = 64, ELEMENTS = 16, BANKS = 32, WORD = 4, DEEPEST = 32 };
typedef struct { double instructions, matrix, macs, fused, wavefronts, sectors; } counts;

/* For a report: one execution of the statements of a loop, by a warp; runs: by all warps. */
typedef struct { const tg_uop *range; uint32_t depth; double runs; counts c; } line;
typedef struct { const tg_uop *define; bool store, local; double bytes, units, cost; } touched;

typedef struct {
  tg_job *j;
  const tg_target *t;
  /* by node id and element of a vector: the value in each lane with all other ranges 0 */
  struct { const int64_t *at[ELEMENTS]; bool seen[ELEMENTS]; } **value;
  bool *local;                /* by buffer: LOCAL memory, which a launch defines; what stands outside is memory */
  double groups, warps;       /* of the launch that is walked */
  counts all;                 /* of it, by all warps */
  bool report;
  TG_VEC(line) lines;
  TG_VEC(touched) accesses;
} walk;

/* ---- addresses ---- */

/* NULL: it is not computed from ranges and constants alone. element: of a vector; a scalar is all of them. */
static const int64_t *lanes_of(walk *w, const tg_uop *u, uint32_t element) {
  uint32_t e = u->lanes > 1 ? element : 0;
  if (e >= ELEMENTS) return NULL;
  if (!w->value[u->id]) w->value[u->id] = tg_alloc(&w->j->env, sizeof **w->value);
  if (w->value[u->id]->seen[e]) return w->value[u->id]->at[e];
  w->value[u->id]->seen[e] = true;
  int64_t *v = tg_new(&w->j->env, int64_t, LANES);
  const int64_t *of[3];
  bool leaf = u->op == TG_OP_CONST || u->op == TG_OP_IOTA || u->op == TG_OP_RANGE;
  if (!leaf && (!u->n || u->n > 3 || u->op == TG_OP_LOAD || u->op == TG_OP_SHUFFLE)) return NULL;
  if (tg_is_float(u->type)) return NULL;
  for (uint32_t k = 0; !leaf && k < u->n; k++)
    if (tg_is_float(u->src[k]->type) || !(of[k] = lanes_of(w, u->src[k], element))) return NULL;
  for (int i = 0; i < LANES; i++) {
    tg_value operand[3], r = {.i = 0};
    tg_type from = leaf ? u->type : u->src[u->n - 1]->type;
    for (uint32_t k = 0; !leaf && k < u->n; k++) operand[k].i = of[k][i];
    if (u->op == TG_OP_CONST) r.i = u->arg;
    else if (u->op == TG_OP_IOTA) r.i = e;
    else if (u->op == TG_OP_RANGE) r.i = tg_range_kind(u) == TG_LANE ? i : 0;
    else if (u->op == TG_OP_CAST ? !tg_convert(u->type, from, operand[0], &r)
                                 : !tg_evaluate(u->op, u->type, from, operand, &r))
      return NULL;
    v[i] = (int64_t)r.i;
  }
  return w->value[u->id]->at[e] = v;
}

/* An access of a warp: bytes of a lane, from the addresses at. */
typedef struct {
  const tg_uop *access, *define;
  const int64_t *index;
  double bytes;
  bool taken, fragment, copied;   /* copied: read by an asynchronous store */
} unit;

static double address(const unit *a, uint32_t lane) {
  return (double)a->index[lane] * fmax(1, tg_type_bytes(a->define->type)) * a->define->lanes;
}

static int by_number(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* How many pieces of `size` bytes lie under what the lanes touch. */
static double pieces(const unit *a, uint32_t lanes, double size) {
  double list[LANES * 4], n = 0;
  uint32_t found = 0;
  for (uint32_t i = 0; i < lanes; i++)
    for (double b = floor(address(a, i) / size); b * size < address(a, i) + a->bytes && found < TG_COUNT(list); b++)
      list[found++] = b;
  qsort(list, found, sizeof *list, by_number);
  for (uint32_t i = 0; i < found; i++) n += !i || list[i] != list[i - 1];
  return n;
}

/* Wavefronts of LOCAL: lanes are served together as far as their words lie in banks of their own; of wide accesses half
 * or a quarter of the lanes at a time. */
static double wavefronts(const walk *w, const unit *a) {
  uint32_t lanes = w->t->lanes, parts = a->bytes > 8 ? 4 : a->bytes > 4 ? 2 : 1, each = lanes / parts;
  if (!a->index) return parts;
  double sum = 0;
  for (uint32_t p = 0; p < parts; p++) {
    double words[LANES * 4];
    uint32_t found = 0, most = 1, in[BANKS] = {0};
    for (uint32_t i = p * each; i < (p + 1) * each; i++)
      for (double b = 0; b < a->bytes && found < TG_COUNT(words); b += WORD)
        words[found++] = floor((address(a, i) + b) / WORD);
    qsort(words, found, sizeof *words, by_number);
    for (uint32_t i = 0; i < found; i++) {
      uint32_t bank = (uint32_t)fmod(fabs(words[i]), BANKS);
      if (!i || words[i] != words[i - 1]) most = ++in[bank] > most ? in[bank] : most;
    }
    sum += most;
  }
  return sum;
}

/* ---- accesses ---- */

static bool is_local(const walk *w, const tg_uop *access) { return w->local[tg_buffer_ordinal(access->src[0])]; }

static bool follows(const walk *w, const unit *a, const unit *b) {
  if (!a->index || !b->index || a->define != b->define || a->access->op != b->access->op) return false;
  for (uint32_t i = 0; i < w->t->lanes; i++)
    if (address(a, i) + a->bytes != address(b, i)) return false;
  return true;
}

static void note(walk *w, const unit *a, double runs, double cost, bool local) {
  if (!w->report) return;
  for (uint32_t i = 0; i < w->accesses.n; i++) {
    touched *t = &w->accesses.data[i];
    if (t->define != a->define || t->store != (a->access->op == TG_OP_STORE)) continue;
    t->bytes = fmax(t->bytes, a->bytes), t->units += runs, t->cost += runs * cost;
    return;
  }
  tg_push(&w->j->env, &w->accesses,
          ((touched){a->define, a->access->op == TG_OP_STORE, local, a->bytes, runs, runs * cost}));
}

static void count_unit(walk *w, const unit *a, counts *c, double runs) {
  bool local = is_local(w, a->access);
  double sector = w->t->arch == TG_ARCH_AMDGPU ? 64 : 32, lanes = w->t->lanes,
         n = local ? wavefronts(w, a) : a->index ? pieces(a, w->t->lanes, sector) : lanes * ceil(a->bytes / sector);
  *(local ? &c->wavefronts : &c->sectors) += n;
  c->instructions += a->copied ? 0 : a->fragment ? 0.25 : 1;   /* four registers of a fragment at once */
  note(w, a, runs, n, local);
}

typedef TG_VEC(unit) unit_list;

/* Elements of a vector that do not lie side by side are units of their own: the registers of a fragment. */
static void push_units(walk *w, unit_list *u, const tg_uop *a, bool copied) {
  const tg_uop *value = a->op == TG_OP_STORE ? tg_stored(a) : a, *define = tg_define_of(a->src[0]);
  double each = fmax(1, tg_type_bytes(define->type)) * define->lanes;
  bool fragments = w->t->loads_matrices && a->op == TG_OP_LOAD && tg_type_bytes(define->type) == 2 &&
                   is_local(w, a) && !copied;
  uint32_t lanes = value->lanes > a->src[1]->lanes ? value->lanes : a->src[1]->lanes;
  bool apart = a->src[1]->lanes > 1;
  unit now = {.access = a, .define = define, .index = lanes_of(w, a->src[1], 0), .bytes = apart ? each : each * lanes,
              .copied = copied};
  for (uint32_t e = 1; apart && e < lanes; e++) {
    const int64_t *next = lanes_of(w, a->src[1], e);
    bool beside = now.index && next;
    for (uint32_t i = 0; i < w->t->lanes && beside; i++)
      beside &= (double)next[i] * each == address(&now, i) + now.bytes;
    if (beside) {
      now.bytes += each;
      continue;
    }
    now.fragment = fragments && now.bytes == WORD;
    tg_push(&w->j->env, u, now);
    now.index = next, now.bytes = each;
  }
  now.fragment = fragments && now.bytes == WORD;
  tg_push(&w->j->env, u, now);
}

/* Accesses of one list whose bytes follow each other are one, up to the widest. */
static void count_accesses(walk *w, const tg_uop *const *list, uint32_t n, counts *c, double runs) {
  unit_list u = {0};
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *a = list[i];
    if (a->op != TG_OP_LOAD && a->op != TG_OP_STORE) continue;
    if (tg_buffer_info(w->j, a->src[0])->space == TG_SPACE_REG) continue;
    push_units(w, &u, a, false);
    if (a->op == TG_OP_STORE && a->arg & TG_ASYNC && tg_stored(a)->op == TG_OP_LOAD)
      push_units(w, &u, tg_stored(a), true);
  }
  for (uint32_t i = 0; i < u.n; i++)
    for (uint32_t k = i + 1; k < u.n && k < i + 64; k++) {
      unit *a = &u.data[i], *b = &u.data[k];
      bool apart = a->taken || b->taken || a->fragment || b->fragment;
      if (apart || a->bytes + b->bytes > w->t->access_bytes || !follows(w, a, b)) continue;
      a->bytes += b->bytes, b->taken = true;
    }
  for (uint32_t i = 0; i < u.n; i++) {
    unit *a = &u.data[i];
    if (!a->taken) count_unit(w, a, c, runs);
  }
}

/* ---- arithmetic ---- */

/* Of constants alone. */
static bool is_fixed(const tg_uop *u, int depth) {
  if (u->op == TG_OP_CONST || u->op == TG_OP_IOTA) return true;
  if (!u->n || depth > 4) return false;
  for (uint32_t i = 0; i < u->n; i++)
    if (!is_fixed(u->src[i], depth + 1)) return false;
  return true;
}

/* Instructions of a function, a division: about what they are expanded to. */
static double instructions_of(const tg_uop *u) {
  double lanes = u->lanes, each = tg_type_bytes(u->type) == 2 && tg_is_float(u->type) ? 0.5 : 1;
  switch (u->op) {
  case TG_OP_LOAD: case TG_OP_STORE: case TG_OP_CONST: case TG_OP_DEFINE: case TG_OP_AFTER: case TG_OP_RANGE:
  case TG_OP_PARAM: case TG_OP_IOTA: case TG_OP_MATRIX: case TG_OP_END: case TG_OP_WAIT: return 0;
  case TG_OP_SHUFFLE: return u->src[1]->op == TG_OP_CONST ? 0 : lanes;   /* a lane of a vector is a register */
  case TG_OP_WHERE:   /* vectors that are put together are registers, too */
    return is_fixed(u->src[0], 0) ? 0 : ceil(lanes * each);
  case TG_OP_FDIV: case TG_OP_SQRT: return 8 * lanes;
  case TG_OP_IDIV: case TG_OP_MOD: case TG_OP_CDIV: case TG_OP_CMOD: return 16 * lanes;
  case TG_OP_FOLD: return log2(fmax(2, u->src[0]->lanes));
  case TG_OP_ADD:   /* an offset in the access */
    if (!tg_is_float(u->type) && (lanes > 1 || u->src[1]->op == TG_OP_CONST)) return 0;
    return lanes > 1 ? ceil(lanes * each) : 1;
  default: return is_fixed(u, 0) ? 0 : lanes > 1 ? ceil(lanes * each) : 1;
  }
}

static void count_statement(walk *w, const tg_uop *u, counts *c) {
  c->instructions += instructions_of(u);
  if (u->op == TG_OP_FMA && u->type == TG_F32) c->fused += u->lanes;
  if (u->op != TG_OP_MATRIX) return;
  const tg_matrix_row *r = tg_matrix_find(tg_matrix_name(w->j, u));
  c->instructions++, c->matrix++;
  if (r) c->macs += (double)r->m * r->n * r->k;
}

/* ---- loops ---- */

static double trips_of(walk *w, const tg_uop *range) {
  tg_bounds b = tg_bounds_of(w->j, tg_extent(range));
  double hi = b.hi < 0 ? 0 : b.hi > ((tg_i128)1 << 50) ? 0x1p50 : (double)b.hi;
  return b.lo == b.hi || b.lo < 0 ? hi : (hi + (double)b.lo) / 2;
}

static void add(counts *to, const counts *c, double times) {
  to->instructions += times * c->instructions, to->matrix += times * c->matrix, to->macs += times * c->macs;
  to->fused += times * c->fused, to->wavefronts += times * c->wavefronts, to->sectors += times * c->sectors;
}

/* runs: how often all warps of the launch, together, execute the list. */
static void walk_list(walk *w, const tg_uop *range, const tg_uop *const *list, uint32_t n, uint32_t depth,
                      double runs) {
  counts c = {0};
  uint32_t at = w->lines.n;
  if (w->report) tg_push(&w->j->env, &w->lines, ((line){range, depth, runs, c}));
  for (uint32_t i = 0; i < n; i++) {
    if (list[i]->op != TG_OP_END) {
      count_statement(w, list[i], &c);
      continue;
    }
    const tg_uop *inner = list[i]->src[0];
    tg_kind kind = tg_range_kind(inner);
    double trips = trips_of(w, inner);
    if (kind == TG_GLOBAL) w->groups = fmax(w->groups, runs * trips);
    if (kind == TG_LOCAL) w->warps = fmax(w->warps, trips);
    if (kind != TG_GLOBAL && kind != TG_LOCAL && kind != TG_LANE) c.instructions += 2 * trips;   /* count and branch */
    if (depth < DEEPEST)
      walk_list(w, inner, list[i]->src + 1, list[i]->n - 1, depth + 1, kind == TG_LANE ? runs : runs * trips);
  }
  count_accesses(w, list, n, &c, runs);
  add(&w->all, &c, runs);
  if (w->report) w->lines.data[at].c = c;
}

/* ---- units ---- */

static double local_bytes(walk *w, const tg_uop *top) {
  double sum = 0;
  tg_sweep s = tg_sweep_of(w->j, top);
  for (uint32_t i = 0; i < s.n; i++)
    for (uint32_t k = 1; s.u[i]->op == TG_OP_END && k < s.u[i]->n; k++) {
      const tg_uop *u = s.u[i]->src[k];
      if (u->op != TG_OP_DEFINE || tg_buffer_info(w->j, u)->space != TG_SPACE_LOCAL) continue;
      double size = fmax(1, tg_type_bytes(u->type)) * u->lanes;
      for (uint32_t d = 0; d < tg_buffer_info(w->j, u)->rank; d++) size *= (double)tg_bounds_of(w->j, u->src[d]).hi;
      w->local[tg_buffer_ordinal(u)] = true;
      sum += size;
    }
  return sum;
}

/* A launch: cycles that each unit of all cores takes together; it ends with the core that has most groups. */
static void one_launch(walk *w, const tg_uop *top, double local, tg_device_cost *c) {
  const tg_target *t = w->t;
  const double per[TG_BOUNDS] = {t->matrix_macs, t->core_macs, t->core_issue, 1, t->core_bytes},
               does[TG_BOUNDS] = {w->all.macs, w->all.fused * t->lanes, w->all.instructions, w->all.wavefronts,
                                  w->all.sectors * (t->arch == TG_ARCH_AMDGPU ? 64 : 32)};
  double most = 0, groups = fmax(1, w->groups), cores = fmax(1, t->threads),
         uneven = ceil(groups / cores) / (groups / cores);
  for (int i = 0; i < TG_BOUNDS; i++) {
    double cycles = per[i] > 0 ? does[i] / per[i] : 0;
    c->bound[i] += cycles, most = fmax(most, cycles);
  }
  double cycles = most / cores * uneven;
  c->launches++, c->cycles += cycles;
  if (groups > c->groups) {
    c->groups = groups, c->warps = fmax(1, w->warps);
    c->registers = tg_device_registers(w->j, top);
    c->together = floor(t->core_registers / (c->registers * c->warps * t->lanes));
    if (t->local_bytes && local > 0) c->together = fmin(c->together, floor((double)t->local_bytes / local));
  }
  c->instructions += w->all.instructions, c->matrix += w->all.matrix, c->macs += w->all.macs;
  c->fused += w->all.fused * t->lanes, c->wavefronts += w->all.wavefronts, c->sectors += w->all.sectors;
}

static tg_device_cost walked(walk *w, const tg_uop *linear, const int64_t *params) {
  tg_device_cost c = {0};
  linear = tg_with_params(w->j, linear, params);
  w->value = tg_alloc(&w->j->env, sizeof *w->value * w->j->uops.n);
  w->local = tg_alloc(&w->j->env, w->j->buffers.n);
  for (uint32_t i = 0; i < linear->n; i++) {
    const tg_uop *top = linear->src[i];
    if (top->op != TG_OP_END) continue;   /* what stands outside of loops is computed where it is used */
    w->groups = w->warps = 0, w->all = (counts){0};
    double local = local_bytes(w, top);
    c.local_bytes = fmax(c.local_bytes, local);
    walk_list(w, NULL, &top, 1, 0, 1);
    one_launch(w, top, local, &c);
  }
  c.seconds = (w->t->clock ? c.cycles / (w->t->clock * 1e6) : 0) + c.launches * w->t->launch_ns * 1e-9;
  return c;
}

tg_device_cost tg_device_cost_of(tg_job *j, const tg_target *t, const tg_uop *linear, const int64_t *params) {
  walk w = {.j = j, .t = t};
  return walked(&w, linear, params);
}

/* ---- for people ---- */

static const char *const units[TG_BOUNDS] = {"matrix instructions", "multiply-adds of f32", "issue", "LOCAL memory",
                                             "memory"};

static void put_lines(const walk *w, tg_str *out) {
  tg_str_printf(out, "%-28s %12s %8s %8s %8s %8s %8s\n", "loop", "runs", "instr", "matrix", "fma", "LOCAL", "sectors");
  for (uint32_t i = 0; i < w->lines.n; i++) {
    const line *l = &w->lines.data[i];
    const counts *c = &l->c;
    if (!l->range) continue;
    tg_str_printf(out, "%*s%-*s %12.0f %8.0f %8.0f %8.0f %8.0f %8.0f\n", (int)l->depth - 1, "", 29 - (int)l->depth,
                  tg_text(w->j, l->range), l->runs, c->instructions, c->matrix, c->fused, c->wavefronts, c->sectors);
  }
  tg_str_printf(out, "%-28s %12s %8s %8s\n", "access", "by warps", "bytes", "each");
  for (uint32_t i = 0; i < w->accesses.n; i++) {
    const touched *a = &w->accesses.data[i];
    tg_str_printf(out, "%-5s %-22s %12.0f %8.0f %8.1f %s\n", a->store ? "store" : "load",
                  tg_buffer_info(w->j, a->define)->name, a->units, a->bytes, a->cost / a->units,
                  a->local ? "wavefronts" : "sectors");
  }
}

const char *tg_device_cost_report(tg_job *j, const tg_target *t, const tg_uop *linear, const int64_t *params) {
  walk w = {.j = j, .t = t, .report = true};
  tg_device_cost c = walked(&w, linear, params);
  tg_str out = tg_str_new(&j->env);
  uint32_t most = 0;
  for (uint32_t i = 1; i < TG_BOUNDS; i++)
    if (c.bound[i] > c.bound[most]) most = i;
  tg_str_printf(&out, "%.4g us at least on %s (%u cores at %u MHz): %.0f launch%s, %.0f groups of %.0f warps, %.0f "
                      "bytes of LOCAL; bound by %s\n", c.seconds * 1e6, t->name, t->threads, t->clock, c.launches,
                c.launches > 1 ? "es" : "", c.groups, c.warps, c.local_bytes, units[most]);
  tg_str_printf(&out, "  about %.0f registers a thread: a core has room for %.0f of its groups at once\n", c.registers,
                c.together);
  for (uint32_t i = 0; i < TG_BOUNDS; i++)
    tg_str_printf(&out, "  %-22s %12.4g cycles of a core\n", units[i], c.bound[i]);
  put_lines(&w, &out);
  return out.data;
}
