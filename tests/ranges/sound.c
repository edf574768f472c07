/* SPDX-License-Identifier: MIT
 * The prover is sound: random programs, affine and not, most of them within one of the edge. Whatever it accepts is run
 * for all small parameters by enumeration, and must leave no buffer, read nothing unwritten, race nowhere and write all
 * of its outputs; gates that the prover took away must have held; loops that it calls independent must have no two iterations that meet. */
#include <stdlib.h>
#include "dsl/text.h"
#include "ranges/ranges.h"
#include "test.h"

/* ---- programs ---- */

typedef struct { uint64_t state; char text[8192]; size_t n; int ranges, depth; char name[16][8], extent[16][48]; } maker;

static uint32_t below(maker *m, uint32_t n) {
  m->state ^= m->state << 13;
  m->state ^= m->state >> 7;
  m->state ^= m->state << 17;
  return (uint32_t)(m->state >> 11) % n;
}

static void put(maker *m, const char *format, ...) TG_PRINTF(2, 3);
static void put(maker *m, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  m->n += (size_t)vsnprintf(m->text + m->n, sizeof m->text - m->n, format, ap);
  va_end(ap);
}

typedef struct { char text[160], size[200]; } subscript;

static subscript constant_subscript(maker *m) {
  subscript s;
  uint32_t k = below(m, 3);
  snprintf(s.text, sizeof s.text, "%u", k);
  snprintf(s.size, sizeof s.size, "%u", k + 1);
  return s;
}

/* A subscript over the ranges in scope (from first), and a size that it just fits. */
static subscript make_subscript(maker *m, int first) {
  subscript s;
  int n = m->depth - first;
  if (n <= 0) return constant_subscript(m);
  int a = first + (int)below(m, (uint32_t)n), b = first + (int)below(m, (uint32_t)n), c = (int)below(m, 3), k = 2 + (int)below(m, 3);
  const char *i = m->name[a], *ei = m->extent[a], *j = m->name[b], *ej = m->extent[b];
  switch (below(m, 14)) {
  case 0: case 1: case 2: case 3: snprintf(s.text, sizeof s.text, "%s", i); snprintf(s.size, sizeof s.size, "%s", ei); break;
  case 4: snprintf(s.text, sizeof s.text, "%s + %d", i, c); snprintf(s.size, sizeof s.size, "%s + %d", ei, c); break;
  case 5: snprintf(s.text, sizeof s.text, "%s - 1 - %s", ei, i); snprintf(s.size, sizeof s.size, "%s", ei); break;
  case 6: snprintf(s.text, sizeof s.text, "%d*%s + %d", k, i, c); snprintf(s.size, sizeof s.size, "%d*%s + %d", k, ei, c + 1 - k); break;
  case 7: case 8:
    if (a == b) b = a > first ? a - 1 : a, j = m->name[b], ej = m->extent[b];
    snprintf(s.text, sizeof s.text, "%s*(%s) + %s", i, ej, j);
    snprintf(s.size, sizeof s.size, "(%s)*(%s)", ei, ej);
    break;
  case 9: snprintf(s.text, sizeof s.text, "%s + %s", i, j); snprintf(s.size, sizeof s.size, "%s + %s - 1", ei, ej); break;
  case 10: snprintf(s.text, sizeof s.text, "(%s + %d)/%d", i, c, k); snprintf(s.size, sizeof s.size, "(%s + %d)/%d + 1", ei, c - 1, k); break;
  case 11: snprintf(s.text, sizeof s.text, "(%s + %d) %% %d", i, c, k); snprintf(s.size, sizeof s.size, "%d", k); break;
  case 12: snprintf(s.text, sizeof s.text, "min(%s + %d, %s)", i, c, j); snprintf(s.size, sizeof s.size, "min(%s + %d, %s)", ei, c, ej); break;
  default: snprintf(s.text, sizeof s.text, "(%s - %s + %s - 1)", i, j, ej); snprintf(s.size, sizeof s.size, "%s + %s - 1", ei, ej); break;
  }
  return s;
}

static void open_range(maker *m) {
  static const char *const kinds[] = {"", "", "", ", global", ", thread", ", local"};
  static const char *const extents[] = {"M", "N", "2", "3", "M", "N", "4", "ceildiv(M, 2)", "M + 1", "N*2", "1", "M - 1", "min(M, N)", "N % 3"};
  int r = m->depth++;
  snprintf(m->name[r], sizeof m->name[r], "r%d", m->ranges++);
  bool triangular = r > 0 && below(m, 12) == 0;
  if (triangular) strcat(strcpy(m->extent[r], m->name[r - 1]), " + 1");
  else snprintf(m->extent[r], sizeof m->extent[r], "%s", extents[below(m, TG_COUNT(extents))]);
  put(m, "range(%s, %s%s) {\n", m->name[r], m->extent[r], kinds[below(m, r == 0 ? 6 : 4)]);
  if (triangular) strcpy(m->extent[r], "M + N");
}

static void put_condition(maker *m) {
  static const char *const compares[] = {"<", "<=", ">", ">=", "==", "!="};
  const char *i = m->name[below(m, (uint32_t)m->depth)], *j = m->name[below(m, (uint32_t)m->depth)];
  const char *o = compares[below(m, 6)];
  switch (below(m, 5)) {
  case 0: put(m, "%s %s %u", i, o, below(m, 3)); break;
  case 1: put(m, "%s %s %s", i, o, j); break;
  case 2: put(m, "%s*2 + %s %s M + N", i, j, o); break;
  case 3: put(m, "%s + %u < M", i, below(m, 3)); break;
  default: put(m, "%s %s N - 1 & %s >= %u", i, o, j, below(m, 2)); break;
  }
}

enum { BUFFERS = 5 };
typedef struct { int rank; char dims[3][208]; char decl[32]; } shape;
static shape shapes[BUFFERS];

/* An access: its buffer's shape is made to fit the first one, give or take one; later ones take their chance. */
static void put_access(maker *m, int b, int first, bool load) {
  shape *s = &shapes[b];
  if (!s->rank) {
    s->rank = 1 + (int)below(m, 2);
    for (int d = 0; d < s->rank; d++) {
      subscript x = make_subscript(m, first);
      uint32_t off = below(m, 10);
      snprintf(s->dims[d], sizeof s->dims[d], "%s%s", x.size, off == 0 ? " - 1" : off == 1 ? " + 1" : "");
      put(m, "%s%s", d ? ", " : (put(m, "b%d[", b), ""), x.text);
    }
    put(m, "]");
  } else {
    put(m, "b%d[", b);
    for (int d = 0; d < s->rank; d++) {
      subscript x;
      for (int tries = 0; tries < 12; tries++) { /* one that fits the size as it is written, if there is one */
        x = make_subscript(m, first);
        if (!strcmp(x.size, s->dims[d])) break;
      }
      put(m, "%s%s", d ? ", " : "", x.text);
    }
    put(m, "]");
  }
  if (load && below(m, 3) == 0) put(m, " else 0");
}

static void put_store(maker *m) {
  int b = 2 + (int)below(m, BUFFERS - 2);
  put_access(m, b, 0, false);
  put(m, below(m, 4) ? " = " : " += ");
  int terms = 1 + (int)below(m, 2);
  for (int t = 0; t < terms; t++) {
    if (t) put(m, " + ");
    int from = (int)below(m, 3) ? (int)below(m, 2) : (int)below(m, BUFFERS);
    put(m, "(");
    if (below(m, 5) == 0 && m->depth < 6) {
      int r = m->depth++;
      snprintf(m->name[r], sizeof m->name[r], "k%d", m->ranges++);
      snprintf(m->extent[r], sizeof m->extent[r], "%s", below(m, 2) ? "N" : "3");
      put(m, "sum(%s : %s, (", m->name[r], m->extent[r]);
      put_access(m, from, 0, true);
      put(m, "))");
      m->depth--;
    } else put_access(m, from, 0, true);
    put(m, ")");
  }
  if (m->depth && below(m, 5) == 0) {
    put(m, " if ");
    put_condition(m);
  }
  put(m, ";\n");
}

static void put_statements(maker *m, int budget) {
  int n = 1 + (int)below(m, 2);
  for (int i = 0; i < n; i++) {
    uint32_t what = m->depth == 0 ? 0 : m->depth < 3 ? below(m, 3) : 1;
    if (what == 0) {
      open_range(m);
      put_statements(m, budget - 1);
      put(m, "}\n");
      m->depth--;
    } else if (what == 1 || below(m, 3)) put_store(m);
    else {
      put(m, "if (");
      put_condition(m);
      put(m, ") {\n");
      put_store(m);
      put(m, "}\n");
    }
  }
}

static void make_program(maker *m, char *out, size_t size) {
  static const char *const roles[BUFFERS] = {"in", "in", "out", "inout", "define_reg"};
  memset(shapes, 0, sizeof shapes);
  m->n = 0;
  m->text[0] = 0;
  m->ranges = m->depth = 0;
  bool partial = below(m, 3) == 0;
  put_statements(m, 3);
  size_t n = (size_t)snprintf(out, size, "kernel f(M in 1..5, N in 1..5) {\n");
  for (int pass = 0; pass < 2; pass++)
    for (int b = 0; b < BUFFERS; b++) {
      if (!shapes[b].rank || (b == 4) != pass) continue;
      n += (size_t)snprintf(out + n, size - n, "%s(b%d, f32, [", roles[b], b);
      for (int d = 0; d < shapes[b].rank; d++) n += (size_t)snprintf(out + n, size - n, "%s%s", d ? ", " : "", shapes[b].dims[d]);
      n += (size_t)snprintf(out + n, size - n, "]%s);\n", b == 2 && partial ? ", partial" : "");
    }
  snprintf(out + n, size - n, "%s}\n", m->text);
}

/* ---- running them ---- */

enum { ELEMENTS = 4096, LOOPS = 16 };
typedef struct { int32_t iteration; bool stored; } mark;

typedef struct {
  tg_job *j;
  int64_t param[2], range[128];
  bool written[BUFFERS][ELEMENTS];
  struct watch { const tg_uop *end; bool lockstep; int64_t iteration; int32_t reader[BUFFERS][ELEMENTS], writer[BUFFERS][ELEMENTS]; } *watch[LOOPS];
  int watches;
  const char *broken;
  uint64_t trace, steps;
  const tg_uop *statement;
} runner;

static void broken(runner *r, const char *why) {
  if (!r->broken) r->broken = why;
}

static tg_i128 value(runner *r, const tg_uop *u);

static bool element(runner *r, const tg_uop *a, int64_t *at) {
  const tg_uop *define = tg_define_of(a->src[0]);
  *at = 0;
  for (uint32_t d = 0; d < tg_access_rank(a); d++) {
    tg_i128 i = value(r, a->src[1 + d]), n = value(r, define->src[d]);
    if (i < 0 || i >= n) {
      broken(r, "out of bounds");
      return false;
    }
    *at = *at * (int64_t)n + (int64_t)i;
  }
  return *at < ELEMENTS;
}

static void touch(runner *r, const tg_uop *a) {
  int64_t at;
  bool store = a->op == TG_OP_STORE;
  if (tg_gate(a) && !value(r, tg_gate(a))) return;
  if (!element(r, a, &at)) return;
  uint32_t b = tg_buffer_ordinal(a->src[0]);
  tg_buffer *info = tg_buffer_info(r->j, a->src[0]);
  r->trace = tg_mix(r->trace, (uint64_t)at << 8 | b << 1 | store);
  bool needs = info->space == TG_SPACE_REG || info->role == TG_ROLE_OUT;
  if (!store && needs && !r->written[b][at]) broken(r, "read before written");
  if (store) r->written[b][at] = true;
  for (int k = 0; k < r->watches; k++) {
    struct watch *w = r->watch[k];
    int32_t now = (int32_t)w->iteration + 1, *reader = &w->reader[b][at], *writer = &w->writer[b][at];
    if (*writer && *writer != now) broken(r, "iterations meet");
    if (store && *reader && *reader != now) broken(r, "iterations meet");
    if (store) *writer = now;
    else *reader = *reader && *reader != now ? INT32_MAX : now;
  }
}

static void loads(runner *r, const tg_uop *u, uint32_t first) {   /* test programs are small: recursion will do */
  if (u->op == TG_OP_DEFINE || u->op == TG_OP_AFTER || u->op == TG_OP_RANGE) return;
  if (u->op == TG_OP_REDUCE) {
    const tg_uop *range = tg_reduce_ranges(u)[0];
    tg_i128 n = value(r, tg_extent(range));
    for (tg_i128 i = 0; i < n; i++) {
      r->range[tg_range_ordinal(range)] = (int64_t)i;
      loads(r, u->src[0], 0);
    }
    return;
  }
  for (uint32_t i = first; i < u->n; i++) loads(r, u->src[i], u->src[i]->op == TG_OP_LOAD);
  if (u->op == TG_OP_LOAD) touch(r, u);
}

static tg_i128 value(runner *r, const tg_uop *u) {
  tg_value v[3] = {{0}}, out = {0};
  if (u->op == TG_OP_CONST) return tg_value_of(u).i;
  if (u->op == TG_OP_PARAM) return r->param[u->arg];
  if (u->op == TG_OP_RANGE) return r->range[tg_range_ordinal(u)];
  for (uint32_t i = 0; i < u->n && i < 3; i++) v[i].i = value(r, u->src[i]);
  if (u->op == TG_OP_CAST) tg_convert(u->type, u->src[0]->type, v[0], &out);
  else tg_evaluate(u->op, u->type, u->src[u->n - 1]->type, v, &out);
  return out.i;
}

static void execute(runner *r, const tg_uop *u, const tg_uop *watched) {
  if (r->steps++ > 200000 || r->broken) return;
  if (u->op == TG_OP_STORE) {
    r->statement = u;
    loads(r, u, 1);
    touch(r, u);
  }
  if (u->op != TG_OP_END) return;
  tg_kind kind = tg_range_kind(u->src[0]);
  bool watch = kind == TG_GLOBAL || kind == TG_THREAD || u == watched;
  tg_i128 n = value(r, tg_extent(u->src[0]));
  struct watch *w = NULL;
  if (watch && r->watches < LOOPS) w = r->watch[r->watches++] = calloc(1, sizeof *w);
  for (tg_i128 i = 0; i < n; i++) {
    r->range[tg_range_ordinal(u->src[0])] = (int64_t)i;
    if (w) w->iteration = (int64_t)i;
    for (uint32_t k = 1; k < u->n; k++) execute(r, u->src[k], watched);
  }
  if (w) {
    free(w);
    r->watches--;
  }
}

/* Lockstep loops at the top: each statement for all iterations before the next. With nothing nested it can be run so. */
static bool flat_lockstep(const tg_uop *u) {
  if (u->op != TG_OP_END || tg_range_kind(u->src[0]) != TG_LOCAL) return false;
  for (uint32_t i = 1; i < u->n; i++)
    if (u->src[i]->op != TG_OP_STORE) return false;
  return true;
}

static void execute_lockstep(runner *r, const tg_uop *u) {
  tg_i128 n = value(r, tg_extent(u->src[0]));
  for (uint32_t k = 1; k < u->n; k++) {
    struct watch *w = r->watch[r->watches++] = calloc(1, sizeof *w);
    for (tg_i128 i = 0; i < n; i++) {
      r->range[tg_range_ordinal(u->src[0])] = (int64_t)i;
      w->iteration = (int64_t)i;
      execute(r, u->src[k], NULL);
    }
    free(w);
    r->watches--;
  }
}

static bool has_nested_lockstep(const tg_uop *u, bool top) {
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return false;
  if (u->op == TG_OP_END && tg_range_kind(u->src[0]) == TG_LOCAL && !(top && flat_lockstep(u))) return true;
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++)
    if (has_nested_lockstep(u->src[i], u->op == TG_OP_SINK)) return true;
  return false;
}

static const char *run_once(tg_job *j, const tg_uop *sink, int64_t m, int64_t n, const tg_uop *watched, uint64_t *trace) {
  runner *r = calloc(1, sizeof *r);
  r->j = j;
  r->param[0] = m;
  r->param[1] = n;
  for (uint32_t i = 0; i < sink->n; i++)
    if (flat_lockstep(sink->src[i])) execute_lockstep(r, sink->src[i]);
    else execute(r, sink->src[i], watched);
  for (uint32_t i = 0; i < sink->n && !r->broken && !watched; i++) {
    const tg_uop *d = sink->src[i];
    int64_t elements = 1;
    if (d->op != TG_OP_DEFINE || tg_buffer_info(j, d)->role != TG_ROLE_OUT || tg_buffer_info(j, d)->partial) continue;
    for (uint32_t k = 0; k < d->n; k++) {
      tg_i128 size = value(r, d->src[k]);
      elements *= size > 0 ? (int64_t)size : 0;
    }
    for (int64_t e = 0; e < elements && e < ELEMENTS; e++)
      if (!r->written[tg_buffer_ordinal(d)][e]) broken(r, "output not written");
  }
  if (trace) *trace = r->trace;
  const char *why = r->broken;
  free(r);
  return why;
}

typedef struct { tg_job *j; const char *text; const tg_uop *before, *after; int stage; } attempt;

static void try_prove(void *user) {
  attempt *a = user;
  tg_parse_kernel(a->j, "random.tg", a->text, 0, NULL);
  a->before = a->j->sink;
  a->stage = 1;
  a->after = tg_prove(a->j, a->j->sink);
  a->stage = 2;
}

typedef struct { tg_job *j; const tg_uop *sink, *end; tg_verdict verdict; } question;
static void ask_verdict(void *user) {
  question *q = user;
  q->verdict = tg_loop_verdict(q->j, q->sink, q->end, NULL);
}

static int independents, others;

static void check_verdicts(tg_job *j, const tg_uop *sink, const tg_uop *u, const char *text) {
  if (u->op != TG_OP_END && u->op != TG_OP_SINK) return;
  if (u->op == TG_OP_END) {
    question q = {j, sink, u, TG_SEQUENTIAL};
    CHECK(tg_protect(&j->env, ask_verdict, &q), "%s", j->env.message);
    if (q.verdict == TG_INDEPENDENT) {
      independents++;
      for (int k = 0; k < 25; k++) {
        const char *why = run_once(j, sink, 1 + k / 5, 1 + k % 5, u, NULL);
        CHECK(!why, "%s called independent, but %s, M = %d, N = %d\n%s", j->ranges.data[tg_range_ordinal(u->src[0])].name, why, 1 + k / 5, 1 + k % 5, text);
        if (why) return;
      }
    } else others++;
  }
  for (uint32_t i = u->op == TG_OP_END; i < u->n; i++) check_verdicts(j, sink, u->src[i], text);
}

int main(int argc, char **argv) {
  int programs = argc > 1 ? atoi(argv[1]) : 2000, accepted = 0, rejected = 0, parsed = 0, ungated = 0;
  maker m = {.state = argc > 2 ? strtoull(argv[2], NULL, 0) * 2 + 1 : 0x9E3779B97F4A7C15u};
  char text[12000];
  for (int p = 0; accepted < programs && p < programs * 200; p++) {
    tg_job j;
    make_program(&m, text, sizeof text);
    tg_job_init(&j, NULL);
    attempt a = {.j = &j, .text = text};
    bool ok = tg_protect(&j.env, try_prove, &a);
    CHECK(j.env.status != TG_INTERNAL, "%s\n%s", j.env.message, text);
    if (!a.stage && argc > 3) printf("%s\n%s", j.env.message, text);
    if (a.stage == 1 && argc > 4) printf("%s\n%s", j.env.message, text);
    parsed += a.stage > 0;
    rejected += a.stage == 1;
    if (ok && !has_nested_lockstep(a.after, true)) {
      accepted++;
      bool good = true;
      for (int k = 0; k < 25 && good; k++) {
        uint64_t one = 0, two = 0;
        const char *why = run_once(&j, a.after, 1 + k / 5, 1 + k % 5, NULL, &one);
        run_once(&j, a.before, 1 + k / 5, 1 + k % 5, NULL, &two);
        good = !why && one == two;
        if (!good) CHECK(good, "accepted, but %s, M = %d, N = %d\n%s", why ? why : "a gate that mattered is gone", 1 + k / 5, 1 + k % 5, text);
      }
      CHECK(good, "above");
      ungated += a.after != a.before;
      if (good) check_verdicts(&j, a.after, a.after, text);
    }
    tg_job_drop(&j);
  }
  CHECK(accepted == programs, "%d programs accepted of %d parsed, %d rejected", accepted, parsed, rejected);
  CHECK(ungated > 0 && rejected > 0 && independents > 0 && others > 0, "%d without some gate", ungated);
  printf("%d accepted, %d rejected; %d lost a gate; %d loops independent, %d not\n", accepted, rejected, ungated, independents, others);
  return TEST_END();
}
