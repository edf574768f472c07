/* SPDX-License-Identifier: MIT
 * The rewriter: one loop with an explicit stack, which visits each node once. Entry points: tg_rewrite, tg_simplify.
 *
 * A node is processed when its sources are in normal form. If a rule rewrites it, the result takes its place on the
 * stack; new nodes below the result are normalised first, old ones are cached. The cache of normal forms is kept with
 * the job, so simplifying again after a pass costs only as much as the pass changed. Each rewrite counts against a
 * budget along the chain that led to it; a rule set that loops is an internal error, reported with the cycle.
 *
 * Order at a node: gates and nodes without rules, constant folding, constants found by bounds, the C functions for
 * sums and quotients, the text rules. */
#include "ranges/known.h"

enum { BUDGET = 2000, CYCLE = 24 };

/* Of fired, job->fired_n hold: tg_job_try takes back those whose ranges and buffers it drops. */
typedef struct { TG_VEC(tg_fired) fired; } trace;

/* ---- the memo ---- */

static void memo_put(tg_job *j, tg_rule_set set, const tg_uop *u, const tg_uop *to) {
  tg_known *k = j->known;
  if (u->id >= k->memo[set].cap) {
    uint32_t cap = j->uops.n + j->uops.n / 2 + 64;
    const tg_uop **wider = tg_new(&j->env, const tg_uop *, cap);
    if (k->memo[set].cap) memcpy(wider, k->memo[set].to, k->memo[set].cap * sizeof *wider);
    k->memo[set].to = wider;
    k->memo[set].cap = cap;
  }
  k->memo[set].to[u->id] = to;
}

static const tg_uop *memo_step(const tg_known *k, tg_rule_set set, const tg_uop *u) {
  return u->id < k->memo[set].cap ? k->memo[set].to[u->id] : NULL;
}

/* The normal form of u, or NULL if it is not known yet. Rewrites forward to what they gave. */
static const tg_uop *memo_get(const tg_known *k, tg_rule_set set, const tg_uop *u) {
  const tg_uop *v = memo_step(k, set, u), *w = v;
  if (!v || v == u) return v;
  while (w && (v = memo_step(k, set, w)) != w) w = v;
  if (w) k->memo[set].to[u->id] = w;
  return w;
}

void tg_mark_normal(tg_job *j, const tg_uop *u) {
  tg_known *k = tg_known_of(j);
  if (!memo_step(k, k->set, u)) memo_put(j, k->set, u, u);
}

/* ---- trace ---- */

void tg_trace_begin(tg_job *j) {
  tg_known *k = tg_known_of(j);
  for (int s = 0; s < TG_RULES__COUNT; s++)
    if (k->memo[s].cap) memset(k->memo[s].to, 0, k->memo[s].cap * sizeof *k->memo[s].to);
  j->trace = tg_new(&j->env, trace, 1);
  j->fired_n = 0;
}

const tg_fired *tg_trace_end(tg_job *j, uint32_t *n) {
  trace *t = j->trace;
  j->trace = NULL;
  *n = t ? j->fired_n : 0;
  return t ? t->fired.data : NULL;
}

/* The rules of the cycle in order: back along this way to the node `again`, or (it grows) the shortest tail that
 * repeats. */
TG_NORETURN static void report_cycle(tg_job *j, const tg_rewrite_frame *f, const tg_uop *again) {
  tg_known *k = j->known;
  const char *names[2 * CYCLE];
  uint32_t n = 0, period = 1;
  for (uint32_t at = f->log; at && n < 2 * CYCLE; at = k->log.data[at - 1].before) {
    names[n++] = k->log.data[at - 1].rule;
    if (k->log.data[at - 1].node == again) break;
  }
  for (; period < n && !again; period++) {
    uint32_t i = 0;
    while (i + period < n && names[i] == names[i + period]) i++;
    if (i + period == n) break;
  }
  if (again || period > n) period = n;
  tg_str s = tg_str_new(&j->env);
  for (uint32_t i = period; i-- > 0;) tg_str_printf(&s, "%s%s", names[i], i ? ", " : "");
  tg_bug(&j->env, "rewriting does not end: %s", s.data);
}

/* ---- one node ---- */

static const tg_uop *folded(tg_job *j, const tg_uop *v) {
  tg_value a[3], r;
  if (!(tg_ops[v->op].flags & TG_OPF_W) || !v->n || v->n > 3) return NULL;
  for (uint32_t i = 0; i < v->n; i++) {
    if (v->src[i]->op != TG_OP_CONST) return NULL;
    a[i] = tg_value_of(v->src[i]);
  }
  tg_type from = v->src[v->n - 1]->type;
  bool ok = v->op == TG_OP_CAST      ? tg_convert(v->type, from, a[0], &r)
            : v->op == TG_OP_BITCAST ? tg_reinterpret(v->type, from, a[0], &r)
                                     : tg_evaluate(v->op, v->type, from, a, &r);
  return ok ? tg_const_of(j, v->type, r) : NULL;
}

static bool pure(const tg_uop *v) {
  return (tg_ops[v->op].flags & TG_OPF_W) || v->op == TG_OP_PARAM || v->op == TG_OP_IOTA;
}

static const tg_uop *by_bounds(tg_job *j, const tg_uop *v) {
  if (v->type == TG_VOID || tg_is_float(v->type) || !pure(v)) return NULL;
  tg_bounds b = tg_bounds_of(j, v);
  return b.lo == b.hi ? tg_const_of(j, v->type, (tg_value){.i = b.lo}) : NULL;
}

/* A gate that is known goes; so does a LOAD that never happens. A STORE that never happens is its list's to drop. */
static const tg_uop *ungated(tg_job *j, const tg_uop *v) {
  const tg_uop *gate = tg_gate(v);
  if (!gate || gate->op != TG_OP_CONST) return NULL;
  if (v->op == TG_OP_LOAD && !gate->arg) return tg_alternative(v);
  if (!gate->arg) return NULL;
  /* its lanes may have been the alternative's */
  if (v->op == TG_OP_LOAD) return tg_load(j, v->src[0], v->src + 1, NULL, NULL, v->arg & ~(int64_t)TG_GATED);
  return tg_make(j, v->op, v->type, v->lanes, v->arg & ~(int64_t)TG_GATED, v->n - 1, v->src);
}

/* A sum of two products of floats keeps the author's order: pass fma fuses the second of them, and tg_order goes by
 * numbers of ranges and nodes, which differ between two schedules of one text. */
static const tg_uop *ordered(tg_job *j, const tg_uop *v) {
  if (!(tg_ops[v->op].flags & TG_OPF_C)) return NULL;
  bool products = v->src[0]->op == TG_OP_MUL && v->src[1]->op == TG_OP_MUL;
  if (v->op == TG_OP_ADD && tg_is_float(v->type) && products) return NULL;
  if (tg_order(j, v->src[0], v->src[1]) <= 0) return NULL;
  const tg_uop *src[2] = {v->src[1], v->src[0]};
  return tg_make(j, v->op, v->type, v->lanes, v->arg, 2, src);
}

/* FOLD of one value for all lanes, where folding it with itself changes nothing. */
static const tg_uop *folded_lanes(const tg_uop *v) {
  bool idempotent = v->arg == TG_OP_MAX || v->arg == TG_OP_MIN || v->arg == TG_OP_AND || v->arg == TG_OP_OR;
  return v->src[0]->lanes == 1 && idempotent ? v->src[0] : NULL;
}

static bool holds_only_with(const tg_uop *condition, const tg_uop *gate) {
  return gate == condition || (gate->op == TG_OP_AND && gate->type == TG_BOOL &&
                               (holds_only_with(condition, gate->src[0]) || holds_only_with(condition, gate->src[1])));
}

/* Is u zero (all bits) whenever the condition is false? True for a load gated by the condition with alternative 0,
 * for a conversion of such a value, and for a product: of integers if one factor is zero, of floats only if both
 * are, since 0 * NaN is NaN. */
static bool is_zero_unless(const tg_uop *condition, const tg_uop *u) {
  switch (u->op) {
  case TG_OP_LOAD:
    return tg_gate(u) && holds_only_with(condition, tg_gate(u)) && tg_alternative(u)->op == TG_OP_CONST &&
           !tg_alternative(u)->arg;
  case TG_OP_CAST: return is_zero_unless(condition, u->src[0]);
  case TG_OP_MUL: {
    bool a = is_zero_unless(condition, u->src[0]);
    return tg_is_float(u->type) ? a && is_zero_unless(condition, u->src[1]) : a || is_zero_unless(condition, u->src[1]);
  }
  default: return false;
  }
}

/* where(p, x, 0) -> x if x is zero whenever p is false. */
static const tg_uop *needless_where(const tg_uop *v) {
  const tg_uop *x = v->src[1], *zero = v->src[2];
  return zero->op == TG_OP_CONST && !zero->arg && x->lanes == v->lanes && is_zero_unless(v->src[0], x) ? x : NULL;
}

static const tg_uop *of_index(tg_job *j, const tg_uop *v, const char **rule) {
  const tg_uop *w = NULL;
  switch (v->op) {
  case TG_OP_ADD: case TG_OP_SUB: case TG_OP_NEG: case TG_OP_MUL:
    *rule = "sum";
    return tg_rewrite_sum(j, v);
  case TG_OP_IDIV: case TG_OP_MOD:
    *rule = v->op == TG_OP_IDIV ? "quotient" : "remainder";
    return tg_rewrite_divmod(j, v);
  case TG_OP_LT: case TG_OP_LE: case TG_OP_EQ: case TG_OP_NE:
    *rule = "comparison";
    return tg_rewrite_compare(j, v);
  default: return w;
  }
}

static const tg_uop *applied(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *v, const char **rule) {
  const tg_uop *w;
  if (!v->n && v->op != TG_OP_PARAM && v->op != TG_OP_IOTA) return NULL;
  if (v->op == TG_OP_LOAD || v->op == TG_OP_STORE) return *rule = "gate", ungated(j, v);
  if (v->op == TG_OP_FOLD) return *rule = "fold_same", folded_lanes(v);
  if (v->op == TG_OP_WHERE && (w = needless_where(v))) return *rule = "where_zero", w;
  if (!pure(v)) return NULL;
  if ((w = folded(j, v))) return *rule = "constant", w;
  if ((w = by_bounds(j, v))) return *rule = "bounds", w;
  bool index = v->n && v->src[v->n - 1]->type == TG_INDEX && v->op != TG_OP_CAST;
  if (index && (w = of_index(j, v, rule))) return w;
  bool sum = index && (v->op == TG_OP_ADD || v->op == TG_OP_MUL || v->op == TG_OP_EQ || v->op == TG_OP_NE);
  if (!sum && (w = ordered(j, v))) return *rule = "order", w;
  return v->n ? tg_rules_apply(j, r, set, v, rule) : NULL;
}

/* ---- the loop ---- */

/* Is source i of u used as a value? A RANGE used as a value may be rewritten; as the range of an END or REDUCE it
 * stays. */
static bool as_value(const tg_uop *u, uint32_t i) {
  switch (u->op) {
  case TG_OP_END: return i > 0;
  case TG_OP_AFTER: return false;
  case TG_OP_SHUFFLE: return i != 1;
  case TG_OP_MATRIX: return i != 3;
  case TG_OP_REDUCE: return i + tg_reduce_info(u).ranges < u->n;
  default: return true;
  }
}

/* A vector's op over lanes, or a scatter, must not lose its lanes. */
static bool keeps_lanes(const tg_uop *u, uint32_t i, const tg_uop *s) {
  if (s->lanes == u->src[i]->lanes) return false;
  if (u->op == TG_OP_FOLD) return u->arg == TG_OP_ADD || u->arg == TG_OP_MUL;
  return u->op == TG_OP_STORE && i > 0 && i <= tg_access_rank(u);
}

static const tg_uop *with_normal_sources(tg_job *j, tg_rule_set set, const tg_uop *u) {
  const tg_known *k = j->known;
  const tg_uop *few[16], **src = u->n <= TG_COUNT(few) ? few : tg_new(&j->env, const tg_uop *, u->n);
  bool same = true;
  for (uint32_t i = 0; i < u->n; i++) {
    const tg_uop *s = memo_get(k, set, u->src[i]);
    if (s->op == TG_OP_RANGE && s->src[0]->op == TG_OP_CONST && s->src[0]->arg <= 1 && as_value(u, i)) {
      s = tg_index(j, 0);
      tg_mark_normal(j, s);
    }
    src[i] = keeps_lanes(u, i, s) ? u->src[i] : s;
    same &= src[i] == u->src[i];
  }
  if (same) return u;
  const tg_uop *v = tg_with_sources(j, u, src);
  if (v->type == TG_VOID && u->id < j->pos.n && j->pos.data[u->id].line && !tg_get_pos(j, v).line)
    tg_set_pos(j, v, j->pos.data[u->id]);
  return v;
}

static void fire(tg_job *j, const char *rule, const tg_uop *before, const tg_uop *after) {
  trace *t = j->trace;
  if (!t) return;
  t->fired.n = j->fired_n;
  tg_push(&j->env, &t->fired, ((tg_fired){rule, before, after}));
  j->fired_n = t->fired.n;
}

static void note(tg_job *j, tg_rewrite_frame *f, const char *rule, const tg_uop *before, const tg_uop *after) {
  tg_known *k = j->known;
  tg_push(&j->env, &k->log, ((tg_rewrite_log){rule, before, f->log}));
  f->log = k->log.n;
  fire(j, rule, before, after);
  if (before->type == TG_VOID && tg_get_pos(j, before).line) tg_set_pos(j, after, tg_get_pos(j, before));
  if (++f->steps > BUDGET) report_cycle(j, f, NULL);
}

/* Needs all sources of f's node in normal form. True: the node is done; false: a rule rewrote it, and f now holds
 * the result. */
static bool advance(tg_job *j, const tg_rules *r, tg_rule_set set, tg_rewrite_frame *f) {
  tg_known *k = j->known;
  const tg_uop *u = f->u, *v = with_normal_sources(j, set, u), *w;
  const char *rule = NULL;
  if (v != u) {
    memo_put(j, set, u, v);
    if (memo_get(k, set, v)) return true;
  }
  tg_rewrite_frame at = *f;   /* rules may push on no stack of ours, but notes grow the log */
  w = applied(j, r, set, v, &rule);
  if (!w || w == v) {
    memo_put(j, set, v, v);
    return true;
  }
  note(j, &at, rule, v, w);
  const tg_uop *end = w, *next;
  while ((next = memo_step(k, set, end)) && next != end) end = next;
  if (end == v) report_cycle(j, &at, w);
  memo_put(j, set, v, w);
  if (memo_get(k, set, w)) return true;
  at.u = w;
  at.next = 0;
  *f = at;
  return false;
}

const tg_uop *tg_rewrite(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *root) {
  tg_known *k = tg_known_of(j);
  if (k->memo[set].rules != r) {
    if (k->memo[set].cap) memset(k->memo[set].to, 0, k->memo[set].cap * sizeof *k->memo[set].to);
    k->memo[set].rules = r;
  }
  k->set = set;
  k->stack.n = k->log.n = 0;
  if (!memo_get(k, set, root)) tg_push(&j->env, &k->stack, ((tg_rewrite_frame){.u = root}));
  while (k->stack.n) {
    tg_rewrite_frame *f = &k->stack.data[k->stack.n - 1];
    if (!f->next && memo_get(k, set, f->u)) {
      k->stack.n--;
      continue;
    }
    while (f->next < f->u->n && memo_get(k, set, f->u->src[f->next])) f->next++;
    if (f->next < f->u->n) {
      tg_rewrite_frame below = {.u = f->u->src[f->next++], .log = f->log, .steps = f->steps};
      tg_push(&j->env, &k->stack, below);
    } else if (advance(j, r, set, f)) k->stack.n--;
  }
  return memo_get(k, set, root);
}

const tg_uop *tg_rewrite_one(tg_job *j, const tg_rules *r, tg_rule_set set, const tg_uop *u) {
  const char *rule;
  const tg_uop *w = r ? tg_rules_apply(j, r, set, u, &rule) : NULL;
  if (w) fire(j, rule, u, w);
  return w;
}
