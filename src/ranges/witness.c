/* SPDX-License-Identifier: MIT
 * Values for which a condition is true, found by trial; for messages only. Tries the ends of ranges, small and extreme
 * parameters, and the ends of what a load may hold. The number of trials is bounded, so finding none proves nothing. */
#include "dsl/text.h"
#include "ranges/depend.h"

enum { TRIALS = 60000, VARIABLES = 24, CANDIDATES = 16 };

typedef struct {
  tg_job *job;
  const tg_uop **nodes;
  uint32_t n, trials;
  uint32_t *at;            /* by node id - base: place in nodes + 1 */
  tg_value *value;         /* by place */
  uint32_t variable[VARIABLES], variables;
} search;

static bool is_variable(const tg_uop *u) {
  return u->op == TG_OP_PARAM || u->op == TG_OP_RANGE || u->op == TG_OP_LOAD || u->op == TG_OP_REDUCE ||
         u->op == TG_OP_GET || u->op == TG_OP_IOTA || u->op == TG_OP_ARG;
}
static bool is_memory(const tg_uop *u) {
  return u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_STORE || u->op == TG_OP_END ||
         u->op == TG_OP_SINK;
}

static bool evaluate(search *s, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    const tg_uop *u = s->nodes[i];
    tg_value v[3] = {{0}};
    if (is_variable(u) || is_memory(u)) continue;
    if (u->op == TG_OP_CONST) {
      s->value[i] = tg_value_of(u);
      continue;
    }
    if (u->n > 3) return false;
    for (uint32_t k = 0; k < u->n; k++) v[k] = s->value[s->at[u->src[k]->id] - 1];
    bool ok = u->op == TG_OP_CAST ? tg_convert(u->type, u->src[0]->type, v[0], &s->value[i])
                                  : u->n && tg_evaluate(u->op, u->type, u->src[u->n - 1]->type, v, &s->value[i]);
    if (!ok) s->value[i] = (tg_value){0}; /* no meaning here: part of a load's address, or a float */
  }
  return true;
}

static void add(tg_i128 *list, uint32_t *n, tg_i128 v, tg_i128 lo, tg_i128 hi, tg_i128 multiple) {
  if (v < lo || v > hi || v % multiple || *n == CANDIDATES) return;
  for (uint32_t i = 0; i < *n; i++)
    if (list[i] == v) return;
  list[(*n)++] = v;
}

static uint32_t candidates(search *s, uint32_t at, tg_i128 *list) {
  const tg_uop *u = s->nodes[at];
  uint32_t n = 0;
  if (u->op == TG_OP_RANGE) {
    tg_i128 e = s->value[s->at[u->src[0]->id] - 1].i, order[5] = {e - 1, 0, 1, e / 2, e - 2};
    for (int i = 0; i < 5; i++) add(list, &n, order[i], 0, e - 1, 1);
  } else if (u->op == TG_OP_PARAM) {
    static const int16_t small[] = {1, 2, 3, 4, 5, 8, 16, 17, 64, 100, 256};
    const tg_param *p = &s->job->params.data[u->arg];
    tg_i128 m = p->multiple > 0 ? p->multiple : 1, lo = -tg_floor_div(-(tg_i128)p->lo, m) * m;
    add(list, &n, lo, p->lo, p->hi, m);
    for (size_t i = 0; i < TG_COUNT(small); i++) add(list, &n, lo + (small[i] - 1) * m, p->lo, p->hi, m);
    add(list, &n, tg_floor_div(p->hi, m) * m, p->lo, p->hi, m);
  } else if (!tg_is_float(u->type) && u->type != TG_VOID) {
    tg_bounds b = tg_bounds_of(s->job, u);
    tg_i128 order[6] = {b.lo, b.hi, 0, 1, 2, -1};
    for (int i = 0; i < 6; i++) add(list, &n, order[i], b.lo, b.hi, 1);
  } else list[n++] = 0;
  return n;
}

static bool try_from(search *s, uint32_t k) {   /* one level for each variable: VARIABLES deep at most */
  uint32_t here = s->variable[k], next = k + 1 < s->variables ? s->variable[k + 1] : s->n;
  tg_i128 list[CANDIDATES];
  uint32_t n = candidates(s, here, list);
  for (uint32_t i = 0; i < n; i++) {
    s->value[here].i = list[i];
    if (tg_is_float(s->nodes[here]->type)) s->value[here].f = 0;
    if (!evaluate(s, here + 1, next)) return false;
    if (k + 1 < s->variables ? try_from(s, k + 1) : s->value[s->n - 1].i) return true;
    if (s->trials++ > TRIALS) return false;
  }
  return false;
}

static bool prepare(search *s, const tg_uop *root) {
  s->nodes = tg_toposort(s->job, root, &s->n);
  s->at = tg_new(&s->job->env, uint32_t, s->job->uops.n);
  s->value = tg_new(&s->job->env, tg_value, s->n);
  for (uint32_t i = 0; i < s->n; i++) s->at[s->nodes[i]->id] = i + 1;
  for (uint32_t i = 0; i < s->n; i++) {
    if (!is_variable(s->nodes[i])) continue;
    if (s->variables == VARIABLES) return false;
    s->variable[s->variables++] = i;
  }
  return true;
}

bool tg_witness_find(tg_job *j, uint32_t n, const tg_uop *const *conditions, tg_witness *w) {
  const tg_uop *root = tg_bool(j, true);
  for (uint32_t i = 0; i < n; i++) root = tg_op2(j, TG_OP_AND, root, conditions[i]);
  search s = {.job = j};
  if (!prepare(&s, root) || !evaluate(&s, 0, s.variables ? s.variable[0] : s.n)) return false;
  if (s.variables ? !try_from(&s, 0) : !s.value[s.n - 1].i) return false;
  w->n = s.variables;
  w->value = tg_new(&j->env, tg_bound_value, s.variables + 1);
  for (uint32_t i = 0; i < s.variables; i++)
    w->value[i] = (tg_bound_value){s.nodes[s.variable[i]], s.value[s.variable[i]].i};
  return true;
}

bool tg_witness_value(tg_job *j, const tg_witness *w, const tg_uop *u, tg_i128 *v) {
  search s = {.job = j};
  if (!prepare(&s, u)) return false;
  for (uint32_t i = 0; i < s.variables; i++) {
    bool given = false;
    for (uint32_t k = 0; k < w->n; k++)
      if (w->value[k].node == s.nodes[s.variable[i]]) {
        s.value[s.variable[i]].i = w->value[k].value;
        given = true;
      }
    if (!given) return false;
  }
  if (!evaluate(&s, 0, s.n)) return false;
  *v = s.value[s.n - 1].i;
  return true;
}

const char *tg_integer_text(tg_job *j, tg_i128 v) {
  char digits[48];
  int at = (int)sizeof digits;
  unsigned __int128 u = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
  digits[--at] = 0;
  do digits[--at] = (char)('0' + (int)(u % 10));
  while (u /= 10);
  return tg_format(&j->env, "%s%s", v < 0 ? "-" : "", digits + at);
}

const char *tg_witness_text(tg_job *j, const tg_witness *w) {
  tg_str s = tg_str_new(&j->env);
  for (int pass = 0; pass < 3; pass++) /* ranges, then parameters, then values of loads */
    for (uint32_t i = 0; i < w->n; i++) {
      const tg_uop *u = w->value[i].node;
      int kind = u->op == TG_OP_RANGE ? 0 : u->op == TG_OP_PARAM ? 1 : 2;
      /* a combiner's arguments have no place in the text */
      if (kind != pass || tg_is_float(u->type) || u->type == TG_VOID || u->op == TG_OP_ARG) continue;
      uint32_t ordinal = tg_range_ordinal(u) & ~(uint32_t)TG_TWIN;
      const char *name = kind == 2               ? tg_text(j, u)
                         : kind == 1             ? j->params.data[u->arg].name
                         : ordinal < j->ranges.n ? j->ranges.data[ordinal].name
                                                 : "?";
      if (kind == 0 && tg_range_ordinal(u) & TG_TWIN) name = tg_format(&j->env, "%s'", name);
      if (kind == 2 && strchr(name, '?')) continue;   /* a load that depends on a twin range, which has no name */
      tg_str_printf(&s, "%s%s = %s", s.n ? ", " : "", name, tg_integer_text(j, w->value[i].value));
    }
  return s.data;
}

/* ---- an element that no store writes ---- */

enum { ELEMENTS = 1 << 16, STEPS = 1 << 20 };

typedef struct {
  search s;
  uint32_t buffer, rank, steps;
  tg_i128 dim[16];
  uint8_t *written;
  bool unknown;
} trial;

static tg_i128 value_at(const trial *t, const tg_uop *u) { return t->s.value[t->s.at[u->id] - 1].i; }

static void mark(trial *t, const tg_uop *store) {
  tg_i128 at = 0;
  for (uint32_t d = 0; d < t->rank; d++) {
    tg_i128 i = value_at(t, store->src[1 + d]);
    if (i < 0 || i >= t->dim[d]) return;
    at = at * t->dim[d] + i;
  }
  if (!tg_gate(store) || value_at(t, tg_gate(store))) t->written[at] = 1;
}

/* Runs the stores to the buffer under u. Everything that the root names is computed again for each iteration: it is
 * little. */
static void run(trial *t, const tg_uop *u) {   /* as deep as loops nest */
  if (t->unknown || t->steps++ > STEPS) {
    t->unknown = true;
    return;
  }
  if (u->op == TG_OP_STORE && tg_buffer_ordinal(u->src[0]) == t->buffer) {
    if (!evaluate(&t->s, 0, t->s.n)) t->unknown = true;
    else mark(t, u);
  }
  if (u->op != TG_OP_END) return;
  if (!t->s.at[u->src[0]->id]) return;   /* nothing inside stores to the buffer */
  evaluate(&t->s, 0, t->s.n);
  tg_i128 n = value_at(t, tg_extent(u->src[0]));
  for (tg_i128 i = 0; i < n && !t->unknown; i++) {
    t->s.value[t->s.at[u->src[0]->id] - 1].i = i;
    for (uint32_t k = 1; k < u->n; k++) run(t, u->src[k]);
  }
}

/* Sums up into one expression everything that decides which elements are stored: subscripts, gates, ranges of the
 * loops. */
static void deciding(tg_job *j, const tg_uop *u, uint32_t buffer, const tg_uop **all, bool *any) {
  if (u->op == TG_OP_STORE && tg_buffer_ordinal(u->src[0]) == buffer) {
    *any = true;
    for (uint32_t d = 0; d < tg_access_rank(u); d++) *all = tg_op2(j, TG_OP_ADD, *all, u->src[1 + d]);
    if (tg_gate(u)) *all = tg_op2(j, TG_OP_ADD, *all, tg_cast(j, TG_INDEX, tg_gate(u)));
  }
  if (u->op != TG_OP_END) return;
  bool inside = false;
  for (uint32_t i = 1; i < u->n; i++) deciding(j, u->src[i], buffer, all, &inside);
  if (inside) *all = tg_op2(j, TG_OP_ADD, *all, u->src[0]);
  *any |= inside;
}

static const char *try_size(tg_job *j, trial *t, const tg_uop *sink, const tg_uop *define, int64_t size) {
  tg_i128 elements = 1;
  t->steps = 0;
  for (uint32_t i = 0; i < t->s.variables; i++) {
    const tg_uop *u = t->s.nodes[t->s.variable[i]];
    if (u->op != TG_OP_PARAM) continue;
    const tg_param *p = &j->params.data[u->arg];
    tg_i128 m = p->multiple > 0 ? p->multiple : 1, v = (size + u->arg) / m * m;
    if (v < p->lo) v = -tg_floor_div(-(tg_i128)p->lo, m) * m;
    if (v > p->hi) return NULL;
    t->s.value[t->s.variable[i]].i = v;
  }
  for (uint32_t i = 0; i < j->requires.n; i++) {
    tg_witness w = {0};
    tg_i128 v;
    w.value = tg_new(&j->env, tg_bound_value, t->s.variables + 1);
    for (uint32_t k = 0; k < t->s.variables; k++)
      w.value[w.n++] = (tg_bound_value){t->s.nodes[t->s.variable[k]], t->s.value[t->s.variable[k]].i};
    if (tg_witness_value(j, &w, j->requires.data[i], &v) && !v) return NULL;
  }
  evaluate(&t->s, 0, t->s.n);
  for (uint32_t d = 0; d < t->rank; d++) {
    t->dim[d] = value_at(t, define->src[d]);
    if (t->dim[d] < 1 || t->dim[d] > ELEMENTS || (elements *= t->dim[d]) > ELEMENTS) return NULL;
  }
  t->written = tg_new(&j->env, uint8_t, elements);
  for (uint32_t i = 0; i < sink->n; i++) run(t, sink->src[i]);
  if (t->unknown) return NULL;
  for (tg_i128 e = 0; e < elements; e++) {
    if (t->written[e]) continue;
    const char *index = "";
    tg_i128 rest = e;
    for (uint32_t d = t->rank; d-- > 0; rest /= t->dim[d])
      index = tg_format(&j->env, "%s%s%s", tg_integer_text(j, rest % t->dim[d]), *index ? ", " : "", index);
    tg_str text = tg_str_new(&j->env);
    tg_str_printf(&text, "%s[%s]", tg_buffer_info(j, define)->name, index);
    bool first = true;
    for (uint32_t i = 0; i < t->s.variables; i++) {
      const tg_uop *u = t->s.nodes[t->s.variable[i]];
      if (u->op != TG_OP_PARAM) continue;
      tg_str_printf(&text, "%s%s = %s", first ? ", when " : ", ", j->params.data[u->arg].name,
                    tg_integer_text(j, t->s.value[t->s.variable[i]].i));
      first = false;
    }
    return text.data;
  }
  return NULL;
}

const char *tg_unwritten_element(tg_job *j, const tg_uop *sink, const tg_uop *define) {
  static const int16_t sizes[] = {-1000, 1, 2, 3, 5, 8, 17, 33, 100};
  trial t = {.s = {.job = j}, .buffer = tg_buffer_ordinal(define), .rank = tg_buffer_info(j, define)->rank};
  const tg_uop *root = tg_index(j, 0);
  bool any = false, fixed = true;
  for (uint32_t d = 0; d < t.rank; d++) root = tg_op2(j, TG_OP_ADD, root, define->src[d]);
  for (uint32_t i = 0; i < sink->n; i++) deciding(j, sink->src[i], t.buffer, &root, &any);
  if (!any || !prepare(&t.s, root)) return NULL;
  for (uint32_t i = 0; i < t.s.variables; i++) {
    const tg_uop *u = t.s.nodes[t.s.variable[i]];
    if (u->op != TG_OP_PARAM && u->op != TG_OP_RANGE) return NULL;   /* memory decides */
    fixed &= u->op != TG_OP_PARAM;
  }
  for (size_t i = 0; i < (fixed ? 1 : TG_COUNT(sizes)); i++) {
    const char *e = try_size(j, &t, sink, define, sizes[i]);
    if (e) return e;
  }
  return NULL;
}
