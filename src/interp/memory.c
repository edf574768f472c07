/* SPDX-License-Identifier: MIT
 * The interpreter's memory: bounds checks, which elements have been written, accesses between barriers, and pending
 * asynchronous copies. */
#include <math.h>
#include "dsl/text.h"
#include "interp/code.h"

static uint32_t scalar_bytes(tg_type t) { return t == TG_INDEX ? 8 : (uint32_t)tg_type_bytes(t); }

static const char *name_of(const tg_interpreter *m, const tg_memory *b) {
  return m->j->buffers.data[b - m->memory].name;
}

static size_t checked_size(tg_interpreter *m, const tg_memory *b, const char *name) {
  tg_i128 n = b->lanes, last = 0;
  bool empty = false;
  for (uint32_t i = 0; i < b->rank; i++) {
    if (b->dim[i] <= 0) empty = true;
    else last += (tg_i128)(b->dim[i] - 1) * (b->stride[i] < 0 ? -(tg_i128)b->stride[i] : b->stride[i]);
    if (last < 0 || last > (tg_i128)1 << 48) tg_machine_fail(m, "%s is too large to interpret", name);
  }
  n *= last + 1;
  return empty ? 0 : (size_t)n;
}

static void bind_global(tg_interpreter *m, tg_memory *b, const tg_buffer *info, size_t need) {
  const tg_interp_buffer *given = &m->in->buffers[m->globals++];
  size_t have = given->bytes / b->bytes;
  if (have < need)
    tg_fail(&m->j->env, TG_EINVAL, "%s holds %zu elements, the kernel needs %zu", info->name, have, need);
  b->data = given->data;
  b->count = need;
  b->global = true;
}

void tg_memory_limit(tg_interpreter *m, const char *name, size_t elements, size_t each) {
  m->bytes += (tg_i128)elements * (tg_i128)each;
  if (m->in->memory_limit && m->bytes > (tg_i128)m->in->memory_limit)
    tg_fail(&m->j->env, TG_ELIMIT, "%s is too large to interpret: %zu elements, where %llu bytes are allowed in all",
            name, elements, (unsigned long long)m->in->memory_limit);
}

void tg_memory_define(tg_interpreter *m, const tg_uop *define, const int64_t *dims, const int64_t *strides,
                      uint64_t instances) {
  tg_env *e = &m->j->env;
  tg_memory *b = &m->memory[tg_buffer_ordinal(define)];
  const tg_buffer *info = tg_buffer_info(m->j, define);
  tg_memory_settled(m, b);
  b->type = define->type;
  b->lanes = define->lanes;
  b->rank = info->rank;
  b->bytes = scalar_bytes(b->type);
  b->strided = strides != NULL;
  b->locks = m->locks_n;
  int64_t step = 1;
  for (uint32_t i = b->rank; i-- > 0;) {
    b->dim[i] = dims[i];
    b->stride[i] = strides ? strides[i] : step;
    if (__builtin_mul_overflow(step, dims[i] > 0 ? dims[i] : 1, &step))
      tg_machine_fail(m, "%s is too large to interpret", info->name);
  }
  b->count = checked_size(m, b, info->name);
  b->first = 0;
  for (uint32_t i = 0; b->count && i < b->rank; i++)
    if (b->stride[i] < 0) b->first -= (b->dim[i] - 1) * b->stride[i];
  bool fresh = info->role == TG_ROLE_TEMP;
  size_t need = b->count * (fresh ? instances : 1);
  if (!fresh) bind_global(m, b, info, need);
  if (need > b->cap || !b->defined) {
    size_t cap = fresh && b->cap * 2 > need ? b->cap * 2 : need;
    if (fresh) tg_memory_limit(m, info->name, cap, b->bytes + 1);
    if (fresh) b->data = tg_alloc(e, cap * b->bytes + 16);
    if (m->in->check_uninitialised && (fresh || info->role == TG_ROLE_OUT)) b->written = tg_alloc(e, cap + 1);
    b->shadow = NULL;
    if (m->in->check_barriers && info->space != TG_SPACE_REG) b->touch = tg_new(e, tg_interp_touch, cap + 1);
    b->flying = NULL;
    b->cap = cap;
  } else {
    if (b->written) memset(b->written, 0, need);
    if (b->touch) memset(b->touch, 0, need * sizeof *b->touch);
  }
  b->shared = m->in->check_races && info->role != TG_ROLE_IN;
  b->levels = m->levels;
  if (m->in->check_races) tg_race_advance(m, 1);
  b->born = m->moment;
  b->defined = true;
}

/* ---- barriers ---- */

TG_NORETURN static void fail_barrier(tg_interpreter *m, const tg_memory *b, size_t at, const tg_uop *before,
                                     uint32_t other) {
  tg_job *j = m->j;
  tg_pos pos = tg_get_pos(j, before);
  tg_machine_fail(m, "no barrier between '%s'%s and '%s': threads %u and %u touch element %zu of %s",
                  tg_text(j, before), pos.line ? tg_format(&j->env, " (line %d)", pos.line) : "",
                  tg_text(j, m->statement), other - 1, m->thread, b->count ? at % b->count : at, name_of(m, b));
}

static void touch(tg_interpreter *m, const tg_memory *b, size_t at, bool write, bool atomic) {
  tg_interp_touch *t = &b->touch[at];
  uint32_t me = m->thread + 1;
  if (t->written == m->epoch && t->writer != me && !atomic) fail_barrier(m, b, at, t->write, t->writer);
  if (write && !atomic && t->reading == m->epoch && (t->reader != me || t->other))
    fail_barrier(m, b, at, t->read, t->reader != me ? t->reader : t->other);
  if (write && !atomic) {
    t->write = m->statement;
    t->written = m->epoch;
    t->writer = me;
  } else if (!write) {
    if (t->reading != m->epoch) t->reader = t->other = 0;
    if (t->reader && t->reader != me) t->other = t->reader;
    t->read = m->statement;
    t->reading = m->epoch;
    t->reader = me;
  }
}

/* ---- asynchronous copies ---- */

TG_NORETURN static void fail_flying(tg_interpreter *m, const tg_memory *b, size_t at, const char *what) {
  tg_machine_fail(m, "element %zu of %s is %s while a copy to it is on its way: no wait for its group",
                  b->count ? at % b->count : at, name_of(m, b), what);
}

void tg_memory_settled(tg_interpreter *m, const tg_memory *b) {
  for (uint32_t i = 0; i < m->flights.n; i++) {
    const tg_flight *f = &m->flights.data[i];
    if (b && &m->memory[f->buffer] != b) continue;
    m->statement = f->statement;
    tg_machine_fail(m, "a copy to %s is never waited for", m->j->buffers.data[f->buffer].name);
  }
}

static void send(tg_interpreter *m, const tg_interp_access *a, size_t at, tg_value v) {
  tg_memory *b = &m->memory[a->buffer];
  if (!b->flying) b->flying = tg_alloc(&m->j->env, b->cap + 1);
  b->flying[at] = 1;
  tg_push(&m->j->env, &m->flights, ((tg_flight){a->u, a->buffer, m->thread, m->groups, at, v}));
}

/* ---- one element ---- */

static tg_value get(const tg_memory *b, size_t at) {
  const char *p = b->data + at * b->bytes;
  tg_value v = {0};
  float f;
  uint64_t bits = 0;
  if (b->type == TG_F32) return memcpy(&f, p, 4), v.f = f, v;
  if (b->type == TG_F64) return memcpy(&v.f, p, 8), v;
  switch (b->bytes) {   /* copies of known sizes are no calls */
  case 1: memcpy(&bits, p, 1); break;
  case 2: memcpy(&bits, p, 2); break;
  case 4: memcpy(&bits, p, 4); break;
  default: memcpy(&bits, p, 8);
  }
  return tg_value_from_bits(b->type, bits);
}

static void put(const tg_memory *b, size_t at, tg_value v) {
  char *p = b->data + at * b->bytes;
  float f;
  uint64_t bits;
  if (b->type == TG_F32) {
    f = (float)v.f, memcpy(p, &f, 4);
    return;
  }
  bits = b->type == TG_F64 ? 0 : tg_value_bits(b->type, v);
  if (b->type == TG_F64) memcpy(&bits, &v.f, 8);
  switch (b->bytes) {
  case 1: memcpy(p, &bits, 1); break;
  case 2: memcpy(p, &bits, 2); break;
  case 4: memcpy(p, &bits, 4); break;
  default: memcpy(p, &bits, 8);
  }
}

TG_NORETURN static void fail_bounds(tg_interpreter *m, const tg_interp_access *a, uint32_t i, tg_i128 v) {
  const tg_memory *b = &m->memory[a->buffer];
  int64_t near = v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
  tg_machine_fail(m, "%s: index %u is %lld, outside of 0..%lld", name_of(m, b), i, (long long)near,
                  (long long)b->dim[i] - 1);
}

/* The scalar that lane l of the access touches. */
static inline size_t locate(tg_interpreter *m, const tg_memory *b, const tg_interp_access *a, uint32_t l) {
  int64_t at = b->first;
  for (uint32_t i = 0; i < a->rank; i++) {
    tg_i128 x = m->v[a->index[i].at + (a->index[i].step ? l : 0)].i;
    if (x < 0 || x >= b->dim[i]) fail_bounds(m, a, i, x);
    at += (int64_t)x * b->stride[i];
  }
  size_t scalar = (size_t)at;
  if (b->lanes > 1) scalar = scalar * b->lanes + l;
  return b->global ? scalar : scalar + (size_t)m->combination[b->locks] * b->count;
}

TG_NORETURN static void fail_memory(tg_interpreter *m, const tg_interp_access *a) {
  if (!m->memory) tg_bug(&m->j->env, "interpreter: an expression of its own reads memory");
  tg_memory *b = &m->memory[a->buffer];
  if (!b->defined)
    tg_bug(&m->j->env, "interpreter: %s is used where it is not defined", m->j->buffers.data[a->buffer].name);
  tg_bug(&m->j->env, "interpreter: %u lanes of %s, whose elements have %u", a->lanes, name_of(m, b), b->lanes);
}

static inline tg_memory *memory_of(tg_interpreter *m, const tg_interp_access *a) {
  tg_memory *b = m->memory ? &m->memory[a->buffer] : NULL;
  if (!b || !b->defined || (b->lanes > 1 && a->lanes != b->lanes)) fail_memory(m, a);
  return b;
}

static inline bool is_open(const tg_interpreter *m, const tg_interp_access *a, uint32_t l) {
  return !a->gated || m->v[a->gate.at + (a->gate.step ? l : 0)].i;
}

uint32_t tg_memory_shut(const tg_interpreter *m, const tg_interp_access *a) {
  uint32_t shut = 0;
  for (uint32_t l = 0; l < a->lanes; l++) shut += !is_open(m, a, l);
  return shut;
}

static bool within(const tg_interpreter *m, const tg_memory *b, const tg_interp_access *a, uint32_t l) {
  bool all = true;
  for (uint32_t i = 0; i < a->rank; i++) {
    tg_i128 x = m->v[a->index[i].at + (a->index[i].step ? l : 0)].i;
    all &= x >= 0 && x < b->dim[i];
  }
  return all;
}

/* What a load gives if only reductions without iterations use it: a value that will be noticed if it is used after
 * all. */
static tg_value strange(tg_type t) {
  tg_value v = {0};
  if (tg_is_float(t)) v.f = NAN;
  else v.i = tg_wrap(t, 0x5a5a5a5a5a5a5a5a);
  return v;
}

void tg_memory_load(tg_interpreter *m, const tg_interp_access *a, uint32_t dst) {
  tg_memory *b = memory_of(m, a);
  for (uint32_t l = 0; l < a->lanes; l++) {
    if (!is_open(m, a, l)) {
      m->shut++;
      m->v[dst + l] = m->v[a->value.at + (a->value.step ? l : 0)];
      continue;
    }
    if (m->counts) *(b->global ? &m->counts->loads : &m->counts->moves) += 1;
    size_t at = a->unsure && !within(m, b, a, l) ? SIZE_MAX : locate(m, b, a, l);
    if ((a->unsure && at == SIZE_MAX) || ((a->unsure || a->ahead) && b->written && !b->written[at])) {
      m->v[dst + l] = strange(b->type);
      continue;
    }
    if (b->flying && b->flying[at]) fail_flying(m, b, at, "read");
    if (b->written && !b->written[at])
      tg_machine_fail(m, "%s is read where nothing has been written: element %zu", name_of(m, b),
                      b->count ? at % b->count : at);
    if (tg_race_possible(m, b)) tg_race_read(m, b, at);
    if (b->touch) touch(m, b, at, false, false);
    tg_value v = get(b, at);
    if (b->promised && m->in->check_promises && (v.i < b->lo || v.i > b->hi))
      tg_machine_fail(m, "%s: element %zu is %lld, outside of the promised %lld..%lld", name_of(m, b), at,
                      (long long)v.i, (long long)b->lo, (long long)b->hi);
    m->v[dst + l] = v;
  }
}

/* Fails if an earlier lane of the store writes the same element. last: the largest element so far + 1; since most
 * stores ascend, it mostly saves the search. */
static void met_by_another(tg_interpreter *m, const tg_memory *b, const tg_interp_access *a, size_t at, uint32_t lane,
                           size_t *last) {
  for (uint32_t l = 0; at < *last && l < lane; l++)
    if (is_open(m, a, l) && locate(m, b, a, l) == at) tg_race_of_lanes(m, b, at, lane, l);
  if (at >= *last) *last = at + 1;
}

void tg_memory_store(tg_interpreter *m, const tg_interp_access *a) {
  tg_memory *b = memory_of(m, a);
  bool one_place = a->lanes > 1 && b->lanes == 1, spread = one_place && m->in->check_races;
  size_t last = 0;
  for (uint32_t i = 0; i < a->rank; i++) one_place &= !a->index[i].step;
  if (one_place && !a->gate.step)
    tg_bug(&m->j->env, "interpreter: a vector stored to one element of %s", name_of(m, b));
  for (uint32_t l = 0; l < a->lanes; l++) {
    if (!is_open(m, a, l)) continue;
    size_t at = locate(m, b, a, l);
    tg_value v = m->v[a->value.at + (a->value.step ? l : 0)];
    if (b->flying && b->flying[at]) fail_flying(m, b, at, "written");
    if (tg_race_possible(m, b)) tg_race_write(m, b, at, a->atomic);
    if (spread && !a->atomic) met_by_another(m, b, a, at, l, &last);
    if (b->touch) touch(m, b, at, true, a->atomic);
    if (a->atomic) {
      if (b->written && !b->written[at])
        tg_machine_fail(m, "%s is added to where nothing has been written: element %zu", name_of(m, b), at);
      tg_value sum[2] = {get(b, at), v};
      if (!tg_evaluate(TG_OP_ADD, b->type, b->type, sum, &v))
        tg_machine_fail(m, "the value added to %s passes 128 bits", name_of(m, b));
    }
    if (a->async) {
      send(m, a, at, v);
      continue;
    }
    put(b, at, v);
    if (b->written) b->written[at] = 1;
  }
  if (m->counts) m->counts->moves += a->lanes;
}

void tg_memory_wait(tg_interpreter *m, int64_t flying) {
  uint32_t kept = 0, me = m->thread;
  const tg_uop *wait = m->statement;
  m->groups++;
  for (uint32_t i = 0; i < m->flights.n; i++) {
    tg_flight f = m->flights.data[i];
    tg_memory *b = &m->memory[f.buffer];
    if ((int64_t)f.group + flying >= (int64_t)m->groups) {
      m->flights.data[kept++] = f;
      continue;
    }
    b->flying[f.at] = 0;
    m->thread = f.thread;
    m->statement = f.statement;
    if (b->touch) touch(m, b, f.at, true, false);   /* for the check of barriers it is written now */
    put(b, f.at, f.value);
    if (b->written) b->written[f.at] = 1;
  }
  m->flights.n = kept;
  m->thread = me;
  m->statement = wait;
}
