/* SPDX-License-Identifier: MIT
 * Applies a schedule: a list of words (opts), in order. Each is an exact rewriting of the program, or an error that
 * says why it is illegal. Needs a raised program. Afterwards ranges are split, ordered and have their kinds, copies are
 * staged, loops are cut, gates that always hold are removed, and loops of one iteration are dissolved. */
#include "schedule/opt.h"

/* Iterations in lockstep run the loops inside together, so these have one extent. Of a reduction in lockstep the
 * author's program may ask for more, and words that part its range may yet bring that about. */
static void check_lockstep(tg_schedule *s, const tg_opt *o) {
  if (s->author_uneven) return;
  for (uint32_t i = 0; i < s->sites.n; i++) {
    tg_kind kind = tg_range_kind(s->sites.data[i].range);
    const tg_uop *r = kind == TG_UPCAST || kind == TG_LANE || kind == TG_LOCAL
                          ? tg_extent_following(s, s->sites.data[i].range)
                          : NULL;
    if (r && !o) s->author_uneven = true;
    else if (r)
      tg_fail_at(s->j, o->pos, "the extent of %s would depend on the %s range %s", tg_range_text(s, r),
                 tg_kind_name[kind], tg_range_text(s, s->sites.data[i].range));
  }
}

void tg_schedule_begin(tg_schedule *s, tg_job *j, const tg_lowering *l, const tg_uop *plain) {
  *s = (tg_schedule){
      .j = j, .l = l, .author = plain, .sink = plain, .author_buffers = j->buffers.n, .author_ranges = j->ranges.n};
  tg_axis_begin(s);
  check_lockstep(s, NULL);
}

void tg_schedule_apply(tg_schedule *s, const tg_opt *o) {
  s->moved = false;
  tg_opt_rows[o->word].apply(s, o);
  tg_schedule_sites(s);
  tg_schedule_note(s, o);
  check_lockstep(s, o);
}

const tg_uop *tg_opt_apply(tg_job *j, const tg_lowering *l, const tg_uop *plain, const tg_opt *o) {
  tg_schedule s;
  tg_schedule_begin(&s, j, l, plain);
  tg_schedule_apply(&s, o);
  tg_finish_tiles(&s);
  tg_schedule_sites(&s);
  tg_schedule_check(&s, NULL);
  return s.sink;
}

/* ---- afterwards ---- */

/* The conjuncts of a gate that cannot be proved; NULL if none is left. */
static const tg_uop *unproved(tg_job *j, const tg_uop *gate) {
  const tg_uop *left = NULL, *stack[64];
  uint32_t n = 0;
  stack[n++] = gate;
  while (n) {
    const tg_uop *c = stack[--n];
    if (c->op == TG_OP_AND && c->type == TG_BOOL && n + 2 <= TG_COUNT(stack)) {
      stack[n++] = c->src[1];
      stack[n++] = c->src[0];
    } else if (!tg_proves(j, NULL, c)) left = tg_and(j, left, c);
  }
  return left;
}

static const tg_uop *drop_gate(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  if (old->op == TG_OP_WHERE && old->src[0]->type == TG_BOOL && old->src[0]->op == TG_OP_LT &&
      old->src[0]->src[0]->type == TG_INDEX)
    return tg_proves(j, NULL, src[0]) ? src[1] : NULL;
  if ((old->op != TG_OP_LOAD && old->op != TG_OP_STORE) || !tg_gate(old)) return NULL;
  uint32_t at = old->op == TG_OP_LOAD ? old->n - 2 : old->n - 1;
  const tg_uop *gate = unproved(j, src[at]);
  if (gate == src[at]) return NULL;
  int64_t flags = old->arg & ~(int64_t)TG_GATED;
  if (old->op == TG_OP_LOAD) return tg_load(j, src[0], src + 1, gate, gate ? src[at + 1] : NULL, flags);
  return tg_store(j, src[0], src + 1, src[1 + tg_access_rank(old)], gate, flags);
}

/* Reductions over nothing, and ranges of one iteration. */
static const tg_uop *dissolve_reduce(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  tg_op op = old->op;
  if (op == TG_OP_ADD || op == TG_OP_MUL || op == TG_OP_MAX || op == TG_OP_MIN || op == TG_OP_AND || op == TG_OP_OR) {
    if (old->src[0]->op != TG_OP_REDUCE || old->src[1]->op != TG_OP_REDUCE ||
        (src[0] == old->src[0] && src[1] == old->src[1]))
      return NULL;
    const tg_uop *none = tg_identity(j, op, old->type);
    return src[0] == none ? src[1] : src[1] == none ? src[0] : NULL;
  }
  if (op != TG_OP_REDUCE || tg_reduce_info(old).generic) return NULL;
  tg_reduce_arg a = tg_reduce_info(old);
  const tg_uop *value = src[0], *zero = tg_index(j, 0), *ranges[8];
  uint32_t n = 0;
  for (uint32_t i = 0; i < a.ranges; i++) {
    const tg_uop *r = src[old->n - a.ranges + i], *extent = tg_extent(r);
    if (extent->op == TG_OP_CONST && extent->arg <= 0) return tg_identity(j, a.op, old->type);
    if (tg_is_const(extent, 1)) value = tg_substitute(j, value, 1, &r, &zero);
    else ranges[n++] = r;
  }
  if (n == a.ranges) return NULL;
  if (!n)
    return a.op == TG_OP_ADD && tg_is_float(old->type)
               ? tg_op2(j, TG_OP_ADD, tg_identity(j, TG_OP_ADD, old->type), value)
               : value;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < a.ranges; k++) {
      const tg_uop *r = src[old->n - a.ranges + k];
      if (tg_is_const(tg_extent(r), 1)) ranges[i] = tg_substitute(j, ranges[i], 1, &r, &zero);
    }
  return tg_reduce_like(j, old, &value, n, ranges);
}

/* What one lane exchanges with itself. */
static const tg_uop *own_value(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)j;
  return old->op == TG_OP_SHUFFLE && old->src[1] == user ? src[0] : NULL;
}

static bool once(const tg_uop *range) { return tg_is_const(tg_extent(range), 1) && tg_range_kind(range) != TG_LOCAL; }

static void dissolve(tg_schedule *s, const tg_uop *u, tg_statements *out) {
  tg_job *j = s->j;
  if (u->op != TG_OP_END) {
    tg_push(&j->env, out, u);
    return;
  }
  tg_statements list = {0};
  if (tg_is_merge(u)) return; /* no word divided its loop into parts */
  for (uint32_t i = 1; i < u->n; i++) dissolve(s, u->src[i], &list);
  if (tg_extent(u->src[0])->op == TG_OP_CONST && tg_extent(u->src[0])->arg <= 0) return;
  if (once(u->src[0])) {
    const tg_uop *zero = tg_index(j, 0);
    for (uint32_t i = 0; i < list.n; i++) {
      const tg_uop *v = tg_range_kind(u->src[0]) == TG_LANE
                            ? tg_map(j, list.data[i], own_value, NULL, (void *)u->src[0])
                            : list.data[i];
      tg_push(&j->env, out, tg_substitute(j, v, 1, &u->src[0], &zero));
    }
    return;
  }
  bool same = list.n == u->n - 1 && !memcmp(list.data, u->src + 1, list.n * sizeof *list.data);
  tg_push(&j->env, out, same ? u : tg_end_like(s, u, u->src[0], list.n, list.data));
}

/* ---- kinds that the author gave ---- */

/* What the launcher has to know, it must not ask the kernel's own memory for. */
bool tg_known_before(tg_job *j, const tg_uop *extent) {
  uint32_t n;
  if (extent->op == TG_OP_CONST || extent->op == TG_OP_PARAM) return true;
  const tg_uop **order = tg_toposort(j, extent, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_LOAD && tg_buffer_info(j, order[i]->src[0])->role != TG_ROLE_IN) return false;
  return true;
}

typedef struct { tg_job *j; const tg_uop *plain; bool device; } settling;

static bool exchanged(tg_job *j, const tg_uop *end) {
  uint32_t n;
  const tg_uop **order = tg_toposort(j, end, &n);
  for (uint32_t i = 0; i < n; i++)
    if (order[i]->op == TG_OP_SHUFFLE && order[i]->src[1] == end->src[0]) return true;
  return false;
}

/* A thread range in anything but loops whose turns are known before (on a GPU: in anything), and a lockstep range of
 * an extent known at run time whose iterations are independent, run as loops: the launcher runs what is around
 * phases, and lanes are a constant number. */
static bool runs_as_loop(const settling *s, const tg_uop *end, bool phase) {
  const tg_uop *r = end->src[0];
  const char *why;
  tg_kind k = tg_range_kind(r);
  if (k == TG_THREAD) return !phase || (!s->device && !tg_known_before(s->j, tg_extent(r)));
  if ((k != TG_LANE && k != TG_LOCAL && k != TG_UPCAST) || tg_extent(r)->op == TG_OP_CONST) return false;
  return tg_loop_verdict(s->j, s->plain, end, &why) == TG_INDEPENDENT && !(k == TG_LANE && exchanged(s->j, end));
}

static const tg_uop *find_loop(const settling *s, const tg_uop *u, bool phase) {
  const tg_uop *found = NULL;
  if (u->op != TG_OP_END) return NULL;
  if (runs_as_loop(s, u, phase)) return u->src[0];
  phase &= !s->device && tg_range_kind(u->src[0]) == TG_LOOP && tg_known_before(s->j, tg_extent(u->src[0]));
  for (uint32_t i = 1; i < u->n && !found; i++) found = find_loop(s, u->src[i], phase);
  return found;
}

/* One after another: the extent of an inner one may use an outer one. */
static const tg_uop *settle_kinds(tg_job *j, const tg_lowering *l, const tg_uop *plain) {
  for (;;) {
    const tg_uop *r = NULL;
    settling s = {j, plain, l->target && l->target->lanes > 1};
    for (uint32_t i = 0; i < plain->n && !r; i++) r = find_loop(&s, plain->src[i], true);
    if (!r) return plain;
    const tg_uop *loop = tg_range_again(j, r, tg_extent(r), TG_LOOP);
    plain = tg_substitute(j, plain, 1, &r, &loop);
  }
}

static bool has_merge(const tg_uop *u) {
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return false;
  if (u->op == TG_OP_END && tg_is_merge(u)) return true;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++)
    if (has_merge(u->src[i])) return true;
  return false;
}

static const tg_uop *drop_merge(tg_job *j, const tg_uop *old, const tg_uop *const *src, void *user) {
  (void)user;
  if (old->op != TG_OP_END || !tg_merge_of(old)) return NULL;
  return tg_make(j, TG_OP_END, TG_VOID, 1, 0, old->n - 1, src);
}

/* A program without a schedule is left as it is, if it can be. */
static const tg_uop *unscheduled(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  const tg_uop *plain = tg_plain(j, sink), *settled = settle_kinds(j, l, plain);
  if (has_merge(settled)) settled = tg_map(j, settled, drop_merge, NULL, NULL);
  return settled == plain ? sink : tg_versioned(j, settled);
}

static const tg_uop *scheduled(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  tg_schedule s;
  tg_schedule_begin(&s, j, l, tg_plain(j, sink));
  for (uint32_t i = 0; i < j->opts.n; i++) {
    tg_opt o = tg_opt_parse(j, j->opts.data[i].text, j->opts.data[i].pos);
    tg_schedule_apply(&s, &o);
  }
  tg_finish_tiles(&s);
  tg_schedule_sites(&s);
  tg_schedule_check(&s, NULL);
  tg_statements list = {0};
  for (uint32_t i = 0; i < s.sink->n; i++) dissolve(&s, s.sink->src[i], &list);
  const tg_uop *plain = settle_kinds(j, l, tg_map(j, tg_sink(j, list.n, list.data), dissolve_reduce, NULL, NULL));
  plain = tg_simplify(j, l->rules, plain);
  /* some extents are 0 only now */
  const tg_uop *proved = tg_map(j, tg_map(j, plain, dissolve_reduce, NULL, NULL), drop_gate, NULL, NULL);
  if (proved != plain) proved = tg_simplify(j, l->rules, proved);
  return tg_versioned(j, proved);
}

static bool was_tried(const tg_job *j, const tg_uop *sink) {
  return j->tried.from == sink && j->tried.opts == j->opts.n && j->tried.last == j->opts.data[j->opts.n - 1].text;
}

const tg_uop *tg_pass_schedule(tg_job *j, const tg_lowering *l, const tg_uop *sink) {
  if (!j->opts.n) return unscheduled(j, l, sink);
  if (was_tried(j, sink)) return j->tried.to;
  const tg_uop *to = scheduled(j, l, sink);
  j->tried.from = sink;
  j->tried.to = to;
  j->tried.opts = j->opts.n;
  j->tried.last = j->opts.data[j->opts.n - 1].text;
  return to;
}
