/* SPDX-License-Identifier: MIT
 * Runs compiled steps. Active lockstep ranges (local, lane, upcast) form a stack: a leaf statement runs for all
 * combinations of their values before the next statement starts. A loop inside them runs once for all combinations,
 * after a check that its extent is the same in all. Memory defined inside them has one instance for each
 * combination. */
#include "dsl/functions.h"
#include "interp/ops.h"

TG_NORETURN void tg_machine_fail(tg_interpreter *m, const char *format, ...) {
  tg_job *j = m->j;
  va_list args;
  tg_str s = tg_str_new(&j->env);
  va_start(args, format);
  tg_str_vprintf(&s, format, args);
  va_end(args);
  for (uint32_t i = 0; i < m->open.n; i++)
    tg_str_printf(&s, "%s%s = %lld", i ? ", " : " (", j->ranges.data[m->open.data[i].ordinal].name,
                  (long long)m->v[m->open.data[i].slot].i);
  for (uint32_t i = 0; i < m->locks_n; i++)
    tg_str_printf(&s, "%s%s = %lld", i || m->open.n ? ", " : " (", j->ranges.data[m->locks[i].ordinal].name,
                  (long long)m->v[m->locks[i].slot].i);
  if (m->open.n || m->locks_n) tg_str_puts(&s, ")");
  tg_pos pos = m->statement ? tg_get_pos(j, m->statement) : (tg_pos){0};
  if (!pos.line) tg_fail(&j->env, TG_EINVAL, "%s", s.data);
  tg_fail_at(j, pos, "%s", s.data);
}

void tg_machine_open(tg_interpreter *m, uint32_t slot, uint32_t ordinal) {
  tg_push(&m->j->env, &m->open, ((tg_open_range){slot, ordinal}));
}

void tg_machine_count_steps(tg_interpreter *m, uint64_t n) {
  m->steps += n;
  if (m->in && m->in->step_limit && m->steps > m->in->step_limit)
    tg_fail(&m->j->env, TG_ELIMIT, "the interpreter stopped after %llu steps", (unsigned long long)m->in->step_limit);
}

/* ---- instructions ---- */

static void run_lanes(tg_interpreter *m, const tg_instr *x) {
  int n = tg_ops[x->op].arity;
  for (uint32_t l = 0; l < x->lanes; l++) {
    tg_value a[3], *d = &m->v[x->dst + l];
    for (int i = 0; i < 3; i++) a[i] = m->v[x->src[i].at + (i < n && x->src[i].step ? l : 0)];
    if (at_once(m, x, a[0], a[1], a[2], d)) continue;
    if (!tg_evaluate(x->op, x->type, x->from, a, d)) fail_value(m, x);
  }
}

static void run_converted(tg_interpreter *m, const tg_instr *x) {
  for (uint32_t l = 0; l < x->lanes; l++) {
    tg_value a = m->v[x->src[0].at + (x->src[0].step ? l : 0)], *d = &m->v[x->dst + l];
    bool ok = x->code == C_CAST ? tg_convert(x->type, x->from, a, d) : tg_reinterpret(x->type, x->from, a, d);
    if (!ok) fail_value(m, x);
  }
}

/* v[i] op v[i + ceil(n/2)], until one is left. */
static void run_fold(tg_interpreter *m, const tg_instr *x) {
  uint32_t n = x->lanes, from = m->scratch_n;
  if (n > m->scratch_cap - from) tg_bug(&m->j->env, "interpreter: a fold of %u lanes has no room", n);
  tg_value *v = m->scratch + from;
  for (uint32_t l = 0; l < n; l++) v[l] = m->v[x->src[0].at + (x->src[0].step ? l : 0)];
  for (; n > 1; n = (n + 1) / 2)
    for (uint32_t half = (n + 1) / 2, i = 0; i + half < n; i++) {
      tg_value pair[2] = {v[i], v[i + half]};
      if (!tg_evaluate(x->op, x->type, x->type, pair, &v[i])) fail_value(m, x);
    }
  m->v[x->dst] = v[0];
}

static double host_function(tg_op op, double x, double y) {
  switch (op) {
  case TG_OP_EXP: return exp(x);
  case TG_OP_EXP2: case TG_OP_FAST_EXP2: return exp2(x);
  case TG_OP_LOG: return log(x);
  case TG_OP_LOG2: return log2(x);
  case TG_OP_SIN: return sin(x);
  case TG_OP_COS: return cos(x);
  case TG_OP_TANH: case TG_OP_FAST_TANH: return tanh(x);
  case TG_OP_FAST_RCP: return 1 / x;
  case TG_OP_ERF: return erf(x);
  case TG_OP_POW: return pow(x, y);
  default: return 1 / sqrt(x);
  }
}

static void run_call(tg_interpreter *m, const tg_instr *x) {
  const tg_callee *f = x->extra;
  tg_interp_counts *counts = m->counts;
  if (counts) counts->functions += x->lanes;
  for (uint32_t l = 0; l < x->lanes; l++) {
    if (m->in && m->in->host_functions) {
      double y = tg_ops[x->op].arity > 1 ? m->v[x->src[1].at + (x->src[1].step ? l : 0)].f : 0;
      m->v[x->dst + l] = (tg_value){
          .f = tg_round_to(f->type, host_function(f->op, m->v[x->src[0].at + (x->src[0].step ? l : 0)].f, y))};
      continue;
    }
    for (int i = 0; i < tg_ops[x->op].arity; i++)
      m->v[f->arg + (uint32_t)i] = m->v[x->src[i].at + (x->src[i].step ? l : 0)];
    m->counts = NULL;
    tg_run_block(m, &f->block);
    m->counts = counts;
    m->v[x->dst + l] = m->v[f->result.at];
  }
}

/* ---- lanes ---- */

/* Those that depend on lockstep range number depth - 1 or on one within it. */
static void load_kept(tg_interpreter *m, const tg_block *b, uint32_t depth) {
  for (uint32_t i = 0; i < b->kept_n; i++) {
    const tg_kept *k = b->kept[i];
    if (k->locks < depth) continue;
    const tg_value *from = k->of + m->combination[k->locks] * k->lanes;
    if (k->lanes == 1) m->v[k->slot] = *from;
    else memcpy(m->v + k->slot, from, k->lanes * sizeof *m->v);
  }
}

/* The thread of the workgroup that the lockstep ranges stand for. */
static void name_thread(tg_interpreter *m) {
  m->thread = 0;
  for (uint32_t d = 0; d < m->locks_n; d++)
    if (!m->locks[d].copies) m->thread = m->thread * (uint32_t)m->locks[d].extent + (uint32_t)m->v[m->locks[d].slot].i;
}

/* Sets one lockstep range; the others stay. */
static void select_lane(tg_interpreter *m, uint32_t lock, int64_t i) {
  m->v[m->locks[lock].slot].i = i;
  name_thread(m);
  for (uint32_t d = lock; d < m->locks_n; d++)
    m->combination[d + 1] = m->combination[d] * (uint64_t)m->locks[d].extent + (uint64_t)m->v[m->locks[d].slot].i;
}

/* The lockstep range of that ordinal, innermost first. */
static uint32_t lock_of(tg_interpreter *m, uint32_t ordinal) {
  for (uint32_t d = m->locks_n; d-- > 0;)
    if (m->locks[d].ordinal == ordinal) return d;
  tg_machine_fail(m, "lanes of %s are exchanged outside of it", m->j->ranges.data[ordinal].name);
}

static void run_shuffle(tg_interpreter *m, const tg_instr *x) {
  const tg_exchange *s = x->extra;
  uint32_t lock = lock_of(m, s->ordinal);
  int64_t lanes = m->locks[lock].extent, here = (int64_t)m->v[m->locks[lock].slot].i;
  for (uint32_t l = 0; l < x->lanes; l++) {
    if (!l || s->index.step) {
      int64_t i = (int64_t)tg_floor_mod(m->v[s->index.at + (s->index.step ? l : 0)].i, lanes);
      select_lane(m, lock, i);
      if (m->locks[lock].extents && i >= m->locks[lock].extents[m->combination[lock]])
        tg_machine_fail(m, "a shuffle reads lane %lld, which is not there", (long long)i);
      tg_lanes_select(m, m->combination[m->locks_n]);   /* that lane reads its own registers */
      tg_run_block(m, &s->value.block);
      select_lane(m, lock, here);
      tg_lanes_select(m, m->combination[m->locks_n]);
    }
    m->v[x->dst + l] = m->v[s->value.result.at + (s->value.result.step ? l : 0)];
  }
  if (m->unit) load_kept(m, m->unit, 0);
}

struct tg_product { uint64_t serial, warp, room; tg_value *operand[3], *result; };

/* The product for all lanes, computed once for a statement and a warp: each lane needs it, and none has stored yet. */
static void multiply(tg_interpreter *m, const tg_exchange *x, uint32_t lanes, struct tg_product *p, uint32_t lock) {
  const char *wrong;
  uint32_t n[3];
  for (int w = 0; w < 3; w++) {
    n[w] = tg_instruction_registers(x->instruction, w);
    if (!p->operand[w]) p->operand[w] = tg_new(&m->j->env, tg_value, lanes * n[w]);
  }
  if (!p->result) p->result = tg_new(&m->j->env, tg_value, lanes * n[2]);
  for (uint32_t lane = 0; lane < lanes; lane++) {
    if (x->range) {
      select_lane(m, lock, lane);
      tg_lanes_select(m, m->combination[m->locks_n]);
    }
    tg_run_block(m, &x->operands);
    for (int w = 0; w < 3; w++)
      for (uint32_t r = 0; r < n[w]; r++)
        p->operand[w][lane * n[w] + r] = m->v[x->operand[w].at + (x->operand[w].step ? r : 0)];
  }
  if ((wrong = tg_instruction_run(x->instruction, p->operand, p->result)))
    tg_machine_fail(m, "%s: %s", tg_matrix_name(m->j, x->u), wrong);
}

static void run_matrix(tg_interpreter *m, const tg_instr *in) {
  tg_exchange *x = (tg_exchange *)in->extra;
  uint32_t lanes = tg_instruction_lanes(x->instruction), lock = x->range ? lock_of(m, x->ordinal) : 0;
  int64_t here = x->range ? (int64_t)m->v[m->locks[lock].slot].i : 0;
  if ((x->range ? m->locks[lock].extent : 1) != lanes)
    tg_machine_fail(m, "%s runs in %u lanes", tg_matrix_name(m->j, x->u), lanes);
  if (!x->product) x->product = tg_new(&m->j->env, struct tg_product, 1);
  if (x->range) select_lane(m, lock, 0);
  uint64_t warp = m->combination[m->locks_n];
  if (x->product->serial != m->serial || x->product->warp != warp || !m->serial) {
    multiply(m, x, lanes, x->product, lock);
    x->product->serial = m->serial;
    x->product->warp = warp;
  }
  if (x->range) {
    select_lane(m, lock, here);
    tg_lanes_select(m, m->combination[m->locks_n]);
  }
  if (m->unit) load_kept(m, m->unit, 0);
  uint32_t n = tg_instruction_registers(x->instruction, 2);
  for (uint32_t r = 0; r < in->lanes; r++) m->v[in->dst + r] = x->product->result[here * n + r];
}

static void run_permute(tg_interpreter *m, const tg_instr *x) {
  const tg_uop *lanes = x->extra;
  for (uint32_t l = 0; l < x->lanes; l++) {
    uint32_t from = (uint32_t)tg_floor_mod(m->v[x->src[1].at + (x->src[1].step ? l : 0)].i, lanes->arg);
    m->v[x->dst + l] = m->v[x->src[0].at + (x->src[0].step ? from : 0)];
  }
}

/* Runs what depends on lockstep range number depth - 1 or on one within it, and on memory; 0: all. */
static void run_from(tg_interpreter *m, const tg_block *b, uint32_t depth) {
  tg_value *v = m->v;
  const tg_block *outer = m->unit;
  tg_machine_count_steps(m, b->n);
  if (m->counts) tg_count_run(m, b);
  if (b->kept_n) {
    m->unit = b;
    load_kept(m, b, depth);
  }
  for (const tg_instr *x = b->code + (depth ? b->start[depth] : 0), *end = b->code + b->n; x < end; x++) {
    if (x->lanes == 1 && at_once(m, x, v[x->src[0].at], v[x->src[1].at], v[x->src[2].at], &v[x->dst])) continue;
    switch (x->code) {
    case C_CAST: case C_BITCAST: run_converted(m, x); break;
    case C_LOAD: tg_memory_load(m, x->extra, x->dst); break;
    case C_REDUCE: tg_run_reduce(m, x); break;
    case C_FOLD: tg_machine_reserve(m, x->lanes); run_fold(m, x); break;
    case C_CALL: run_call(m, x); break;
    case C_SHUFFLE: run_shuffle(m, x); break;
    case C_PERMUTE: run_permute(m, x); break;
    case C_MATRIX: run_matrix(m, x); break;
    default: run_lanes(m, x);
    }
  }
  m->unit = outer;
}

void tg_run_block(tg_interpreter *m, const tg_block *b) { run_from(m, b, 0); }

/* ---- lockstep ---- */

/* Is there an iteration of the combination that the lockstep ranges are set to? */
static bool exists(const tg_interpreter *m) {
  for (uint32_t d = 0; d < m->locks_n; d++)
    if (m->locks[d].extents && m->v[m->locks[d].slot].i >= m->locks[d].extents[m->combination[d]]) return false;
  return true;
}

static bool first_combination(tg_interpreter *m) {
  for (uint32_t d = 0; d < m->locks_n; d++) m->combination[d + 1] = 0, m->v[m->locks[d].slot].i = 0;
  m->combination[0] = m->thread = m->moved = 0;
  return exists(m);
}

/* Sets the lockstep ranges to the n-th combination, where they are set to the one before it or n is 0; false if the
 * iteration does not exist. Behind the last combination comes the first. */
static bool select_combination(tg_interpreter *m, uint64_t n) {
  if (!n) return first_combination(m);
  uint32_t inner = m->locks_n - 1, d = inner;
  for (;; d--) {   /* counts like an odometer */
    m->combination[d + 1]++;
    if (++m->v[m->locks[d].slot].i < m->locks[d].extent || !d) break;
    m->v[m->locks[d].slot].i = 0;
  }
  m->moved = d + 1;
  if (d < inner) name_thread(m);
  else if (!m->locks[d].copies) m->thread++;
  return exists(m);
}

/* Selects the first combination from *c on that exists; false: none of the n does. depth: as run_from takes it, where
 * code has run in the combination that was selected before. */
static bool select_next(tg_interpreter *m, uint64_t *c, uint64_t n, uint32_t *depth) {
  for (*depth = UINT32_MAX; *c < n; ++*c) {
    bool there = select_combination(m, *c);
    if (m->moved < *depth) *depth = m->moved;
    if (there) return true;
  }
  return false;
}

static uint64_t combinations(const tg_interpreter *m) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < m->locks_n; d++) n *= (uint64_t)m->locks[d].extent;
  return n;
}

/* Of the lockstep ranges those before number depth - 1 are where they were when the code of the step last ran. */
static void run_leaf(tg_interpreter *m, const tg_step *s, uint32_t depth) {
  tg_interp_counts before = m->counts ? *m->counts : (tg_interp_counts){0};
  run_from(m, &s->block, depth);
  if (s->kind != S_STORE) return;
  tg_machine_count_steps(m, s->access->lanes);
  tg_memory_store(m, s->access);
  if (m->counts && s->access->gated) tg_count_masked(m, &before, tg_memory_shut(m, s->access), s->access->lanes);
}

static void keep_value(tg_interpreter *m, const tg_step *s, uint64_t n) {
  tg_kept *k = s->kept;
  uint32_t depth;
  if (k->cap < n) {
    k->of = tg_new(&m->j->env, tg_value, n * k->lanes);
    k->cap = n;
  }
  for (uint64_t c = 0; select_next(m, &c, n, &depth); c++) {
    run_from(m, &s->block, depth);
    memcpy(k->of + c * k->lanes, m->v + k->slot, k->lanes * sizeof *m->v);
  }
  select_combination(m, 0);
}

/* Copies operands from their slots to the values saved for a combination (out), or back. */
static void move_operands(tg_interpreter *m, const tg_interp_access *a, tg_value *saved, bool out) {
  for (uint32_t i = 0; i < a->rank + (a->gated ? 2 : 1); i++) {
    tg_operand o = i < a->rank ? a->index[i] : i == a->rank ? a->value : a->gate;
    uint32_t n = o.step ? a->lanes : 1;
    memcpy(out ? saved : m->v + o.at, out ? m->v + o.at : saved, n * sizeof *saved);
    saved += n;
  }
}

static void run_exchanging(tg_interpreter *m, const tg_step *s, uint64_t n) {
  uint64_t each = (uint64_t)(s->access->rank + 2) * s->access->lanes;
  uint32_t depth;
  if (m->saved_cap < n * each) {
    m->saved = tg_new(&m->j->env, tg_value, n * each);
    m->saved_cap = n * each;
  }
  for (int pass = 0; pass < 2; pass++)
    for (uint64_t c = 0; select_next(m, &c, n, &depth); c++) {
      tg_lanes_select(m, c);
      if (!pass) run_from(m, &s->block, depth);
      move_operands(m, s->access, m->saved + c * each, !pass);
      if (pass) tg_memory_store(m, s->access);
    }
}

static void run_statement(tg_interpreter *m, const tg_step *s) {
  m->serial++;
  if (!m->locks_n) {
    run_leaf(m, s, 0);
    return;
  }
  uint64_t n = combinations(m);
  uint32_t depth;
  if (s->kind == S_VALUE) {
    keep_value(m, s, n);
    return;
  }
  tg_lanes_enter(m, n);
  if (s->exchanges) run_exchanging(m, s, n);
  for (uint64_t c = 0; !s->exchanges && select_next(m, &c, n, &depth); c++) {
    tg_lanes_select(m, c);
    run_leaf(m, s, depth);
  }
  tg_lanes_leave(m);
  select_combination(m, 0);
}

/* The value of a formula that must be the same in all lockstep iterations; false if there are no iterations. */
static bool uniform(tg_interpreter *m, const tg_formula *f, const char *what, int64_t *value) {
  if (!m->locks_n) {
    tg_run_block(m, &f->block);
    tg_i128 v = m->v[f->result.at].i;
    if (v > INT64_MAX || v < INT64_MIN) tg_machine_fail(m, "%s passes 64 bits", what);
    *value = (int64_t)v;
    return true;
  }
  bool any = false;
  uint64_t n = combinations(m);
  for (uint64_t c = 0; c < n; c++) {
    if (!select_combination(m, c)) continue;
    tg_run_block(m, &f->block);
    tg_i128 v = m->v[f->result.at].i;
    if (v > INT64_MAX || v < INT64_MIN) tg_machine_fail(m, "%s passes 64 bits", what);
    if (any && (int64_t)v != *value) tg_machine_fail(m, "%s differs between iterations that run in lockstep", what);
    *value = (int64_t)v;
    any = true;
  }
  return any;
}

static void run_define(tg_interpreter *m, const tg_step *s) {
  int64_t value[32] = {0}, bound[2];
  uint32_t rank = tg_buffer_info(m->j, s->u)->rank;
  bool strided = s->u->arg >> 32 & TG_STRIDED, promised = s->formulas_n > s->u->n;
  for (uint32_t i = 0; i < s->u->n; i++) uniform(m, &s->formulas[i], "a dimension", &value[i]);
  tg_memory_define(m, s->u, value, strided ? value + rank : NULL, combinations(m));
  tg_memory *b = &m->memory[tg_buffer_ordinal(s->u)];
  if (!promised) return;
  for (uint32_t i = 0; i < 2; i++) uniform(m, &s->formulas[s->u->n + i], "a bound", &bound[i]);
  b->promised = true;
  b->lo = bound[0];
  b->hi = bound[1];
}

/* Kept by level, so that entering a loop again takes no memory. */
static int64_t *room_for_extents(tg_interpreter *m, uint64_t n) {
  uint32_t level = m->locks_n;
  if (n > m->extents_cap[level]) {
    m->extents_cap[level] = n * 2;
    m->extents[level] = tg_new(&m->j->env, int64_t, n * 2);
  }
  return m->extents[level];
}

static void run_locked(tg_interpreter *m, const tg_step *s) {
  if (m->locks_n == TG_COUNT(m->locks))
    tg_machine_fail(m, "over %zu lockstep ranges within each other", TG_COUNT(m->locks));
  uint64_t n = combinations(m);
  int64_t *extents = m->locks_n ? room_for_extents(m, n) : NULL;
  tg_lock lock = {.slot = s->range, .ordinal = s->ordinal, .copies = s->range_kind == TG_UPCAST};
  bool same = true;
  for (uint64_t c = 0; c < n; c++) {
    int64_t e = m->locks_n && !select_combination(m, c) ? 0 : tg_machine_extent(m, s->formulas);
    if (extents) extents[c] = e;
    if (c) same &= e == extents[0];
    if (e > lock.extent) lock.extent = e;
  }
  if (!same) lock.extents = extents;
  if (lock.extent > (1 << 28) / (int64_t)n) tg_machine_fail(m, "over 2^28 iterations in lockstep");
  if (!lock.extent) return;
  m->locks[m->locks_n++] = lock;
  select_combination(m, 0);
  tg_run_list(m, s->children, s->n);
  m->locks_n--;
  if (m->locks_n) select_combination(m, 0);
  else m->thread = 0;
}

static void run_iterations(tg_interpreter *m, const tg_step *s, int64_t from, int64_t to) {
  tg_machine_open(m, s->range, s->ordinal);
  for (int64_t i = from; i < to; i++) {
    m->v[s->range].i = i;
    tg_machine_count_steps(m, 1);
    tg_run_list(m, s->children, s->n);
  }
  m->open.n--;
}

static bool of_tasks(const tg_step *s) {
  return s->kind == S_LOOP && (s->range_kind == TG_GLOBAL || s->range_kind == TG_THREAD);
}

static void run_tasks(tg_interpreter *m, const tg_step *s, int64_t n) {
  tg_machine_open(m, s->range, s->ordinal);
  tg_tasks_enter(m, s, n);
  for (int64_t turn = 0; turn < n; turn++) {
    m->v[s->range].i = tg_tasks_begin(m);
    tg_machine_count_steps(m, 1);
    m->epoch++;
    tg_run_list(m, s->children, s->n);
  }
  m->epoch++;
  m->levels--;
  m->open.n--;
}

static void run_loop(tg_interpreter *m, const tg_step *s) {
  m->statement = s->u;
  if (s->range_kind == TG_MERGE) return;
  if (s->range_kind == TG_LOCAL || s->range_kind == TG_LANE || s->range_kind == TG_UPCAST) {
    run_locked(m, s);
    return;
  }
  int64_t n;
  if (!uniform(m, s->formulas, "the extent of a loop", &n)) return;
  if (m->in->check_merges && !m->locks_n && tg_merge_of(s->u)) {
    tg_run_carried(m, s, n, run_iterations);
    return;
  }
  if (of_tasks(s)) run_tasks(m, s, n);
  else run_iterations(m, s, 0, n);
}

void tg_run_list(tg_interpreter *m, const tg_step *steps, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const tg_step *s = &steps[i];
    m->statement = s->u;
    switch ((tg_step_kind)s->kind) {
    case S_LOOP: run_loop(m, s); break;
    case S_DEFINE: run_define(m, s); break;
    case S_BARRIER: m->epoch++; break;
    case S_WAIT: tg_memory_wait(m, tg_wait_flying(s->u)); break;
    case S_PREFETCH: break;
    default: run_statement(m, s);
    }
  }
}

/* ---- entry points ---- */

/* Definitions of functions make nodes, which must outlive the interpreter's own memory. */
static void define_functions(tg_job *j) {
  for (uint32_t id = 0; id < j->uops.n; id++) {
    const tg_uop *u = j->uops.data[id];
    if (tg_is_function(u->op) && tg_is_float(u->type)) tg_function_definition(j, u->op, u->type);
  }
}

/* How deep loops of tasks are nested; notes too whether anything adds atomically. */
static uint32_t survey(tg_interpreter *m, const tg_step *steps, uint32_t n) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t levels = steps[i].kind == S_LOOP ? survey(m, steps[i].children, steps[i].n) + of_tasks(&steps[i]) : 0;
    if (levels > most) most = levels;
    m->adds |= steps[i].kind == S_STORE && steps[i].access->atomic;
  }
  return most;
}

void tg_interpret(tg_job *j, const tg_uop *sink, const tg_interp *in) {
  tg_interp_compiler c;
  define_functions(j);
  tg_mark mark = tg_mark_get(&j->env);
  tg_compiler_init(&c, j, in->params);
  tg_step *steps = tg_compile_list(&c, sink->n, sink->src);
  tg_interpreter *m = tg_new(&j->env, tg_interpreter, 1);
  *m = (tg_interpreter){.j = j, .in = in, .epoch = 1, .counts = in->counts};
  m->v = tg_compiled_slots(&c);
  m->memory = tg_new(&j->env, tg_memory, j->buffers.n + 1);
  m->levels_most = survey(m, steps, sink->n) + 1;   /* one more for a statement in lockstep */
  m->level = tg_new(&j->env, tg_tasks, m->levels_most);
  tg_run_list(m, steps, sink->n);
  tg_memory_settled(m, NULL);
  tg_mark_release(&j->env, mark);
}

struct tg_interp_function { tg_interpreter machine; tg_block block; tg_operand result; uint32_t args, nargs; };

tg_interp_function *tg_interpret_prepare(tg_job *j, const tg_uop *u, uint32_t nargs) {
  tg_interp_compiler c;
  define_functions(j);
  tg_interp_function *f = tg_new(&j->env, tg_interp_function, 1);
  uint32_t *args = tg_new(&j->env, uint32_t, nargs + 1);
  tg_compiler_init(&c, j, NULL);
  f->nargs = nargs;
  c.slots = nargs;
  for (uint32_t i = 0; i < nargs; i++) args[i] = i;
  f->block = tg_compile_roots(&c, 1, &u, &f->result, nargs, args);
  f->machine = (tg_interpreter){.j = j};
  f->machine.v = tg_compiled_slots(&c);
  return f;
}

tg_value tg_interpret_call(tg_interp_function *f, const tg_value *args) {
  for (uint32_t i = 0; i < f->nargs; i++) f->machine.v[i] = args[i];
  tg_run_block(&f->machine, &f->block);
  return f->machine.v[f->result.at];
}

typedef struct { tg_job *j; const tg_uop *u; uint32_t n; const tg_value *args; tg_value result; } question;

static void answer(void *user) {
  question *q = user;
  q->result = tg_interpret_call(tg_interpret_prepare(q->j, q->u, q->n), q->args);
}

bool tg_interpret_expr(tg_job *j, const tg_uop *u, uint32_t nargs, const tg_value *args, tg_value *result) {
  question q = {.j = j, .u = u, .n = nargs, .args = args};
  tg_env *e = &j->env;
  define_functions(j);
  tg_mark mark = tg_mark_get(e);
  if (e->status != TG_OK) return false;
  bool ok = tg_protect(e, answer, &q);
  tg_mark_release(e, mark);
  if (!ok) { /* having no value is an answer, not an error */
    if (e->status != TG_EINVAL && e->status != TG_INTERNAL) tg_fail(e, e->status, "%s", e->message);
    e->status = TG_OK;
    e->message[0] = 0;
    return false;
  }
  *result = q.result;
  return true;
}
