/* SPDX-License-Identifier: MIT
 * The proof of the author's program: every subscript is in bounds for all values of ranges and parameters, extents are
 * exact, outputs are written completely, nothing is read before it is written, and there are no races. A failure is an
 * error at the author's line.
 *
 * Needs a versioned program in author form. Changes gates only: conjuncts that are always true are removed. Since
 * later passes may compute a LOAD earlier than where it stands, its proof may use only its own gate and the loops of
 * the ranges that it uses. If the proof also needs that another loop around it runs, that condition is added to its
 * gate. */
#include "dsl/text.h"
#include "ranges/polynomial.h"

typedef struct {
  tg_job *job;
  tg_polys *polys;
  const tg_uop *loop[64];
  uint32_t depth;
  uint32_t *seen, seen_n;          /* by node id: statement that visited it last, for walks */
  uint32_t stamp;
  uint32_t *inside, insides;       /* by node id: the extent that it is a part of, last */
  const tg_uop **gates;            /* by node id: the new gate of an access; the SINK for "none" */
  const tg_uop *sink;
  bool changed, added;
} prover;

/* ---- messages ---- */

tg_pos tg_position_of(tg_job *j, const tg_uop *node, const tg_uop *statement) {
  const tg_occurrence *any = NULL;
  for (uint32_t i = 0; i < j->occurrences.n; i++) {
    const tg_occurrence *o = &j->occurrences.data[i];
    if (o->node != node) continue;
    if (o->stmt == statement) return o->pos;
    if (!any) any = o;
  }
  tg_pos p = tg_get_pos(j, statement);
  if (any && (!p.line || any->pos.line == p.line)) return any->pos;
  if (!p.line && statement->op == TG_OP_END) p = j->ranges.data[tg_range_ordinal(statement->src[0])].pos;
  return p;
}

static const char *subscripted(tg_job *j, const tg_uop *access) {
  tg_str s = tg_str_new(&j->env);
  tg_str_printf(&s, "%s[", tg_buffer_info(j, access->src[0])->name);
  for (uint32_t i = 0; i < tg_access_rank(access); i++)
    tg_str_printf(&s, "%s%s", i ? ", " : "", tg_brief(j, access->src[1 + i]));
  tg_str_puts(&s, "]");
  return s.data;
}

/* An input loaded below u that promises no range of values (lo..hi); NULL: there is none. */
static const tg_buffer *unpromised(tg_job *j, const tg_uop *u) {
  uint32_t n;
  const tg_uop **all = tg_toposort(j, u, &n);
  for (uint32_t i = 0; i < n; i++) {
    const tg_buffer *b = all[i]->op == TG_OP_LOAD && tg_is_int(all[i]->type) ? tg_buffer_info(j, all[i]->src[0]) : NULL;
    if (b && b->role == TG_ROLE_IN && !b->lo) return b;
  }
  return NULL;
}

static TG_NORETURN void fail_bounds(prover *p, const tg_uop *access, const tg_uop *statement, uint32_t d, bool above) {
  tg_job *j = p->job;
  const tg_uop *idx = access->src[1 + d], *size = tg_define_of(access->src[0])->src[d], *gate = tg_gate(access);
  const tg_uop *conditions[3 + 64];
  uint32_t n = 0;
  conditions[n++] = above ? tg_op2(j, TG_OP_LE, size, idx) : tg_op2(j, TG_OP_LT, idx, tg_index(j, 0));
  conditions[n++] = tg_op2(j, TG_OP_EQ, size, size);   /* the size is to have a value too */
  if (gate) conditions[n++] = gate;
  for (uint32_t i = 0; i < j->requires.n && n < TG_COUNT(conditions); i++) conditions[n++] = j->requires.data[i];
  tg_pos at = tg_position_of(j, access, statement);
  tg_witness w;
  tg_i128 vi, vs;
  const tg_buffer *open = unpromised(j, idx);
  bool itself = idx->op == TG_OP_CAST && idx->src[0]->op == TG_OP_LOAD;   /* then its bounds are the size's */
  const char *last = !itself ? "HI"
                     : size->op == TG_OP_CONST
                         ? tg_integer_text(j, (tg_i128)size->arg - 1)
                         : tg_format(&j->env, size->op == TG_OP_PARAM ? "%s-1" : "%s - 1", tg_brief(j, size));
  const char *promise =
      open ? tg_format(&j->env, "promise what it holds where it is declared: in(%s, %s in %s..%s, ..); or ", open->name,
                       tg_type_name[open->type], itself ? "0" : "LO", last)
           : "";
  const char *others = access->op == TG_OP_LOAD
                           ? "read it with `else v`, guard it with `if`, or tg_require what makes it fit"
                           : "guard it with `if`, or tg_require what makes it fit";
  const char *remedy = tg_format(&j->env, "%s%s", promise, others);
  if (tg_witness_find(j, n, conditions, &w) && tg_witness_value(j, &w, idx, &vi) &&
      tg_witness_value(j, &w, size, &vs)) {
    const char *when = tg_witness_text(j, &w);
    tg_fail_at(j, at, "%s can leave %s's dimension %u: index %s reaches %s, size %s%s%s; %s", subscripted(j, access),
               tg_buffer_info(j, access->src[0])->name, d, tg_brief(j, idx), tg_integer_text(j, vi),
               tg_integer_text(j, vs), *when ? ", when " : "", tg_brief_text(j, when), remedy);
  }
  tg_polys *c = p->polys;
  tg_poly i = tg_poly_of(c, idx), difference = above ? tg_poly_minus(c, i, tg_poly_of(c, size)) : i;
  tg_fail_at(j, at, "%s is not proved to stay in %s's dimension %u: %s = %s is not known to be %s; %s",
             subscripted(j, access), tg_buffer_info(j, access->src[0])->name, d, above ? "index - size" : "index",
             tg_brief_text(j, tg_poly_text(c, difference)), above ? "below 0" : "0 or more", remedy);
}

/* ---- accesses ---- */

static void open_question(prover *p, const tg_uop *access) {
  tg_polys *c = p->polys;
  tg_polys_reset(c);
  for (uint32_t d = 0; d < tg_access_rank(access); d++) {
    tg_poly_of(c, tg_define_of(access->src[0])->src[d]);
    tg_poly_of(c, access->src[1 + d]);
  }
}

static bool in_bounds(prover *p, const tg_uop *access, uint32_t *d, bool *above) {
  tg_polys *c = p->polys;
  const tg_uop *define = tg_define_of(access->src[0]);
  for (*d = 0; *d < tg_access_rank(access); ++*d) {
    tg_poly i = tg_poly_of(c, access->src[1 + *d]);
    *above = false;
    if (!tg_nonpositive(c, tg_poly_negate(c, i))) return false;
    *above = true;
    if (!tg_nonpositive(c, tg_poly_plus(c, tg_poly_minus(c, i, tg_poly_of(c, define->src[*d])), 1))) return false;
  }
  return true;
}

static void add_loop_facts(prover *p) {
  for (uint32_t i = 0; i < p->depth; i++) tg_poly_of(p->polys, p->loop[i]);
  tg_facts_basic(p->polys);
}

/* The conjuncts of the gate that are not proved; NULL: all are. */
static const tg_uop *needed_gate(prover *p, const tg_uop *gate) {
  const tg_uop *stack[64], *left = NULL;
  uint32_t n = 1;
  stack[0] = gate;
  while (n) {
    const tg_uop *u = stack[--n];
    if (u->op == TG_OP_AND && u->type == TG_BOOL && n + 2 <= TG_COUNT(stack)) {
      stack[n++] = u->src[1];
      stack[n++] = u->src[0];
    } else if (!tg_condition_holds(p->polys, u, true)) left = tg_and(p->job, left, u);
  }
  return left;
}

static void set_gate(prover *p, const tg_uop *access, const tg_uop *gate) {
  if (gate == tg_gate(access)) return;
  p->gates[access->id] = gate ? gate : p->sink;
  p->changed = true;
}

/* The loops around that must run for the access to be legal, as a condition. */
static const tg_uop *loops_run(prover *p) {
  const tg_uop *all = NULL;
  for (uint32_t i = 0; i < p->depth; i++) {
    const tg_uop *e = tg_extent(p->loop[i]);
    if (!(e->op == TG_OP_CONST && e->arg > 0))
      all = tg_and(p->job, all, tg_op2(p->job, TG_OP_LT, tg_index(p->job, 0), e));
  }
  return all;
}

static void check_access(prover *p, const tg_uop *access, const tg_uop *statement) {
  tg_polys *c = p->polys;
  const tg_uop *gate = tg_gate(access);
  uint32_t d;
  bool above, load = access->op == TG_OP_LOAD;
  open_question(p, access);
  if (gate) {
    tg_facts_basic(c);
    if (!load) add_loop_facts(p);
    const tg_uop *left = needed_gate(p, gate);
    set_gate(p, access, left);
    tg_facts_add(c, gate, true);
  }
  if (load) tg_facts_basic(c);
  else add_loop_facts(p);
  if (in_bounds(p, access, &d, &above)) return;
  const tg_uop *run = load ? loops_run(p) : NULL;
  uint32_t bad = d;
  bool side = above;
  if (run) {
    add_loop_facts(p);
    if (in_bounds(p, access, &d, &above)) {
      const tg_uop *now = p->gates[access->id] ? p->gates[access->id] : gate;
      if (now == p->sink) now = NULL;
      set_gate(p, access, tg_and(p->job, now, run));
      p->added = true;
      return;
    }
  }
  if (tg_contradictory(c)) return;   /* it never happens */
  fail_bounds(p, access, statement, bad, side);
}

/* ---- extents ---- */

static bool same_but(const tg_uop *u, const tg_uop *b) {   /* u is b - 1 */
  if (u->op == TG_OP_CONST && b->op == TG_OP_CONST) return u->arg == b->arg - 1;
  return u->op == TG_OP_SUB && u->src[0] == b && tg_is_const(u->src[1], 1);
}

/* Is it a division that rounds up, (a + b - 1) / b or -((-a) / b), as ceildiv expands to? */
static bool rounds_up(const tg_uop *a, const tg_uop *b) {
  if (a->op == TG_OP_ADD && (same_but(a->src[0], b) || same_but(a->src[1], b))) return true;
  if (a->op == TG_OP_SUB && tg_is_const(a->src[1], 1) && a->src[0]->op == TG_OP_ADD &&
      (a->src[0]->src[0] == b || a->src[0]->src[1] == b))
    return true;
  return a->op == TG_OP_NEG;
}

typedef struct { const char *quotient, *dividend, *divisor, *exact; } exactness;

/* The text of the quotient: as the author wrote it if that is a single quotient, else as the program has it. */
static exactness exactness_of(tg_job *j, const tg_uop *range, const tg_uop *statement, const tg_uop *u,
                              const tg_uop *exact) {
  tg_pos p = tg_position_of(j, range, statement);
  const char *text = p.text && p.column > 0 && p.length > 0 && strlen(p.text) >= (size_t)p.column - 1 + (size_t)p.length
                         ? tg_strndup(&j->env, p.text + p.column - 1, (size_t)p.length)
                         : "";
  const char *slash = strchr(text, '/');
  size_t open = 0;
  for (const char *c = text; slash && c < slash; c++) open += (*c == '(') - (*c == ')');
  if (!slash || open || strchr(slash + 1, '/') || tg_extent(range) != u ||
      strcspn(slash, "+-*%<>=!&|^,") < strlen(slash) || strpbrk(text, ",:;{}"))
    return (exactness){tg_brief(j, u), tg_brief(j, u->src[0]), tg_brief(j, u->src[1]), tg_brief(j, exact)};
  size_t n = (size_t)(slash - text);
  while (n && text[n - 1] == ' ') n--;
  const char *divisor = slash + 1 + strspn(slash + 1, " ");
  bool outer = n > 1 && text[0] == '(' && strcspn(text, ")") == n - 1;
  const char *dividend = tg_strndup(&j->env, text + outer, n - 2 * outer), *whole = tg_strndup(&j->env, text, n);
  return (exactness){tg_format(&j->env, "%s / %s", whole, divisor), dividend, divisor,
                     tg_format(&j->env, "%s %% %s == 0", whole, divisor)};
}

/* The quotients in an extent, but not those within subscripts or gates of its loads. */
static void check_exact(prover *p, const tg_uop *range, const tg_uop *statement) {
  tg_job *j = p->job;
  uint32_t n;
  if (tg_extent(range)->op == TG_OP_CONST || tg_extent(range)->op == TG_OP_PARAM) return;
  const tg_uop **all = tg_toposort(j, tg_extent(range), &n);
  if (!p->inside) p->inside = tg_new(&j->env, uint32_t, p->seen_n);
  uint32_t *inside = p->inside, mark = ++p->insides;
  inside[tg_extent(range)->id] = mark;
  for (uint32_t i = n; i-- > 0;)
    for (uint32_t k = 0; k < all[i]->n && inside[all[i]->id] == mark && all[i]->op != TG_OP_LOAD; k++)
      inside[all[i]->src[k]->id] = mark;
  for (uint32_t i = 0; i < n; i++) {
    const tg_uop *u = all[i];
    if (inside[u->id] != mark || u->op != TG_OP_IDIV || u->type != TG_INDEX || rounds_up(u->src[0], u->src[1]))
      continue;
    const tg_uop *rest = tg_op2(j, TG_OP_MOD, u->src[0], u->src[1]), *exact = tg_op2(j, TG_OP_EQ, rest, tg_index(j, 0));
    tg_polys_reset(p->polys);
    tg_poly_of(p->polys, rest);
    tg_facts_basic(p->polys);
    if (tg_condition_holds(p->polys, exact, true)) continue;
    const tg_uop *fails = tg_op2(j, TG_OP_NE, rest, tg_index(j, 0));
    tg_witness w;
    tg_i128 drop, of;
    tg_pos at = j->ranges.data[tg_range_ordinal(range)].pos;
    if (!at.line) at = tg_get_pos(j, statement);
    exactness e = exactness_of(j, range, statement, u, exact);
    if (tg_witness_find(j, 1, &fails, &w) && tg_witness_value(j, &w, rest, &drop) &&
        tg_witness_value(j, &w, u->src[0], &of)) {
      const char *when = tg_witness_text(j, &w);
      tg_fail_at(j, at, "the extent %s drops %s of %s%s%s%s: ceildiv(%s, %s), or tg_require(%s)", e.quotient,
                 tg_integer_text(j, drop), tg_integer_text(j, of), *when ? " (" : "", when, *when ? ")" : "",
                 e.dividend, e.divisor, e.exact);
    }
    tg_fail_at(j, at, "the extent %s may not be exact: ceildiv(%s, %s), or tg_require(%s)", e.quotient, e.dividend,
               e.divisor, e.exact);
  }
}

/* ---- 64 bits ---- */

/* Machine code computes an INDEX in 64 bits, where a sum or a product that passes them wraps. That is harmless within
 * sums and products whose result fits again, such as an offset in bounds. It is not to what asks for more than the
 * lowest 64 bits: comparisons, quotients, extents, conversions to float. A quarter of the range is left to what passes
 * make of it, such as an extent rounded up. */
static const int64_t most = INT64_MAX - INT64_MAX / 4;

static bool wraps_alike(const tg_uop *u) {
  return u->op == TG_OP_ADD || u->op == TG_OP_SUB || u->op == TG_OP_MUL || u->op == TG_OP_NEG;
}

static void check_width(prover *p, const tg_uop *u, const tg_uop *statement) {
  tg_job *j = p->job;
  bool alike = u->op == TG_OP_LOAD || u->op == TG_OP_STORE || (u->type == TG_INDEX && wraps_alike(u)) ||
               (u->op == TG_OP_CAST && !tg_is_float(u->type));
  for (uint32_t i = 0; i < u->n && !alike; i++) {
    const tg_uop *v = u->src[i];
    if (v->type != TG_INDEX || !wraps_alike(v)) continue;
    tg_bounds b = tg_bounds_of(j, v);
    if (b.lo >= -most && b.hi <= most) continue;
    const tg_uop *below = tg_op2(j, TG_OP_LE, v, tg_index(j, most));
    const tg_uop *above = tg_op2(j, TG_OP_LE, tg_index(j, -most), v);
    tg_polys_reset(p->polys);
    tg_poly_of(p->polys, v);
    add_loop_facts(p);
    if (tg_condition_holds(p->polys, below, true) && tg_condition_holds(p->polys, above, true)) continue;
    tg_fail_at(j, tg_position_of(j, u, statement),
               "%s may pass the 64 bits of an index: bound its parameters, or tg_require(%s <= ..)", tg_brief(j, v),
               tg_brief(j, v));
  }
}

/* ---- the walk ---- */

/* Accesses and reductions in the expressions of a statement, each once. */
static void check_expressions(prover *p, const tg_uop *statement, uint32_t first) {
  tg_job *j = p->job;
  TG_VEC(const tg_uop *) stack = {0};
  p->stamp++;
  for (uint32_t i = statement->n; i-- > first;) tg_push(&j->env, &stack, statement->src[i]);
  while (stack.n) {
    const tg_uop *u = stack.data[--stack.n];
    if (u->id >= p->seen_n || p->seen[u->id] == p->stamp || u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER ||
        u->op == TG_OP_CONST)
      continue;
    p->seen[u->id] = p->stamp;
    check_width(p, u, statement);
    if (u->op == TG_OP_LOAD) check_access(p, u, statement);
    if (u->op == TG_OP_REDUCE)
      for (uint32_t i = 0; i < tg_reduce_info(u).ranges; i++) check_exact(p, tg_reduce_ranges(u)[i], statement);
    for (uint32_t i = u->n; i-- > 0;) tg_push(&j->env, &stack, u->src[i]);
  }
}

static void check_statement(prover *p, const tg_uop *u) {   /* as deep as loops nest */
  if (u->op == TG_OP_STORE) {
    check_access(p, u, u);
    check_expressions(p, u, 1);
  } else if (u->op == TG_OP_END) {
    check_exact(p, u->src[0], u);
    const tg_uop *range = u->src[0];
    check_expressions(p, range, 0);
    if (p->depth == TG_COUNT(p->loop))
      tg_fail(&p->job->env, TG_ELIMIT, "loops nested more than %zu deep", TG_COUNT(p->loop));
    p->loop[p->depth++] = range;
    for (uint32_t i = 1; i < u->n; i++) check_statement(p, u->src[i]);
    p->depth--;
  } else check_expressions(p, u, 0);
}

/* The conjuncts of the new gate whose originals are kept: both have one shape. */
static const tg_uop *kept_of(prover *p, const tg_uop *old, const tg_uop *now, const tg_uop *keep) {
  const tg_uop *stack[64][2] = {{old, now}}, *all = NULL, *kept[64];
  uint32_t n = 1, m = 1, count = 0;
  const tg_uop *list[64] = {keep};
  while (m) {
    const tg_uop *u = list[--m];
    if (u->op == TG_OP_AND && u->type == TG_BOOL && m + 2 <= 64) {
      list[m++] = u->src[0];
      list[m++] = u->src[1];
    } else if (count < 64) kept[count++] = u;
  }
  while (n) {
    n--;
    const tg_uop *u = stack[n][0], *v = stack[n][1];
    if (u->op == TG_OP_AND && u->type == TG_BOOL && n + 2 <= 64) {
      for (int i = 2; i-- > 0; n++) {
        stack[n][0] = u->src[i];
        stack[n][1] = v->src[i];
      }
      continue;
    }
    for (uint32_t i = 0; i < count; i++)
      if (kept[i] == u) {
        all = tg_and(p->job, all, v);
        kept[i] = NULL;
        break;
      }
  }
  for (uint32_t i = 0; i < count; i++) /* what the proof added: conditions on the extents around */
    if (kept[i]) {
      bool was = false;
      for (uint32_t k = 0; k < i && !was; k++) was = kept[k] == kept[i];
      if (!was && p->added) all = tg_and(p->job, all, kept[i]);
    }
  return all;
}

static const tg_uop *regate(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  prover *p = user;
  if ((old->op != TG_OP_LOAD && old->op != TG_OP_STORE) || old->id >= p->seen_n || !p->gates[old->id]) return NULL;
  bool gated = old->arg & TG_GATED, load = old->op == TG_OP_LOAD;
  uint32_t at = old->n - (load ? 2 : 1);
  const tg_uop *gate = p->gates[old->id] == p->sink ? NULL : p->gates[old->id];
  if (gate && gated) gate = kept_of(p, old->src[at], src[at], gate);
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  if (!load) return tg_store(j, src[0], src + 1, src[old->n - 1 - gated], gate, flags);
  const tg_uop *alternative = gated                    ? src[old->n - 1]
                              : tg_is_float(old->type) ? tg_const_float(j, old->type, 0)
                                                       : tg_const_int(j, old->type, 0);
  return tg_load(j, src[0], src + 1, gate, gate ? alternative : NULL, flags);
}

const tg_uop *tg_prove(tg_job *j, const tg_uop *sink) {
  prover p = {.job = j, .polys = tg_polys_take(j), .sink = sink, .seen_n = j->uops.n};
  p.seen = tg_new(&j->env, uint32_t, p.seen_n);
  p.gates = tg_new(&j->env, const tg_uop *, p.seen_n);
  for (uint32_t i = 0; i < sink->n; i++) check_statement(&p, sink->src[i]);
  tg_polys_give(j, p.polys);
  tg_check_written(j, sink);
  tg_check_races(j, sink);
  if (!p.changed) return sink;
  const tg_uop *r = tg_map(j, sink, regate, NULL, &p);
  return p.added ? tg_versioned(j, tg_plain(j, r)) : r;   /* an added gate is over extents as the program had them */
}
