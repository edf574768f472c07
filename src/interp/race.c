/* SPDX-License-Identifier: MIT
 * Finds races: two parallel iterations that access one element, at least one of them writing, with nothing that orders
 * them. Iterations of thread and global ranges are tasks: they run in a shuffled order, and only the end of the loop
 * synchronizes them. Iterations of lockstep ranges are ordered statement by statement, so for them one statement plays
 * the role of the loop.
 *
 * A clock counts the beginnings of loops of tasks, tasks, lockstep statements and their iterations. For each active
 * parallel construct, the accesses by iterations before the current one lie between two moments of this clock. So an
 * element needs to remember only the moment of its last write and, for each construct, the moment at which it was first
 * read in it. This suffices: a later write by another iteration was reported when it happened, and if the first read
 * was by the current iteration, no other has read before. Memory private to the current iteration is not checked. */
#include "dsl/text.h"
#include "interp/code.h"

/* Words of an element, in pairs of a moment and a statement: who wrote it last; another reader in the current lockstep
 * statement; then for each parallel range around who read it first, and who added to it first. */
enum { WRITER, OTHER = 2, FIRST = 4, PAIR = 2 };

static uint32_t reader(uint32_t level) { return FIRST + PAIR * level; }
/* only if something in the program adds atomically */
static uint32_t adder(const tg_interpreter *m, uint32_t level) { return FIRST + PAIR * (m->levels_most + level); }
static uint32_t words(const tg_interpreter *m) { return FIRST + PAIR * m->levels_most * (m->adds ? 2u : 1u); }

void tg_race_advance(tg_interpreter *m, uint64_t by) {
  if (by > UINT32_MAX - m->moment)
    tg_fail(&m->j->env, TG_ELIMIT, "the interpreter stopped: over 2^32 parallel iterations");
  m->moment += (uint32_t)by;
}

/* ---- the order of tasks ---- */

static uint64_t draw(uint64_t *state) {
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* The iterations run from a random one on, in steps of a random size by which each is reached once. */
void tg_tasks_enter(tg_interpreter *m, const tg_step *s, int64_t n) {
  tg_tasks *t = &m->level[m->levels++];
  uint64_t state = m->in->order * 0xD1342543DE82EF95u + ++m->entries, count = n > 0 ? (uint64_t)n : 1;
  t->loop = s;
  t->n = count;
  t->turns = 0;
  bool shuffled = true;
  t->first = shuffled ? draw(&state) % count : 0;
  do t->step = shuffled ? 1 + draw(&state) % count : 1;
  while (common_divisor(t->step, count) != 1);
  if (t->step == count) t->step = 0;
  t->next = t->first;
  if (!m->in->check_races) return;
  tg_race_advance(m, 1);
  t->entry = m->moment;
}

int64_t tg_tasks_begin(tg_interpreter *m) {
  tg_tasks *t = &m->level[m->levels - 1];
  uint64_t i = t->next;
  t->next = i >= t->n - t->step ? i - (t->n - t->step) : i + t->step;
  if (!m->in->check_races) return (int64_t)i;
  tg_race_advance(m, 1);
  t->now = m->moment;
  if (t->turns == t->begun_cap) {
    uint32_t *more = tg_new(&m->j->env, uint32_t, t->begun_cap * 2 + 64);
    if (t->turns) memcpy(more, t->begun, t->turns * sizeof *more);
    t->begun = more;
    t->begun_cap = t->begun_cap * 2 + 64;
  }
  t->begun[t->turns++] = m->moment;
  return (int64_t)i;
}

/* The iteration that was running at that moment. */
static int64_t task_at(const tg_tasks *t, uint32_t moment) {
  uint64_t lo = 0, hi = t->turns;
  while (hi - lo > 1) {
    uint64_t mid = (lo + hi) / 2;
    if (t->begun[mid] <= moment) lo = mid;
    else hi = mid;
  }
  return (int64_t)((tg_i128)(t->first + (unsigned __int128)lo * t->step) % (tg_i128)t->n);
}

/* ---- a statement in lockstep ---- */

void tg_lanes_enter(tg_interpreter *m, uint64_t n) {
  tg_tasks *t = &m->level[m->levels++];
  t->loop = NULL;
  t->n = n;
  if (!m->in->check_races) return;
  tg_race_advance(m, 1);
  t->entry = m->moment;
  tg_race_advance(m, n);
}

void tg_lanes_select(tg_interpreter *m, uint64_t combination) {
  tg_tasks *t = m->levels ? &m->level[m->levels - 1] : NULL;
  if (t && !t->loop && m->in->check_races) t->now = m->moment = t->entry + (uint32_t)combination;
}

void tg_lanes_leave(tg_interpreter *m) {
  tg_tasks *t = &m->level[--m->levels];
  if (m->in->check_races) m->moment = t->entry + (uint32_t)t->n;
}

/* ---- reports ---- */

typedef struct { const char *what; const uint32_t *who; uint32_t level; } culprit;

static void print_statement(tg_interpreter *m, tg_str *s, const tg_uop *u) {
  tg_pos pos = tg_get_pos(m->j, u);
  if (u->op == TG_OP_END) tg_str_printf(s, "the extent of %s", m->j->ranges.data[tg_range_ordinal(u->src[0])].name);
  else tg_str_printf(s, "'%s'", tg_text(m->j, u));
  if (pos.line) tg_str_printf(s, " (line %d)", pos.line);
}

static void print_lanes(tg_interpreter *m, tg_str *s, uint64_t combination) {
  int64_t value[TG_COUNT(m->locks)];
  for (uint32_t d = m->locks_n; d-- > 0;) {
    value[d] = (int64_t)(combination % (uint64_t)m->locks[d].extent);
    combination /= (uint64_t)m->locks[d].extent;
  }
  for (uint32_t d = 0; d < m->locks_n; d++)
    tg_str_printf(s, "%s%s = %lld", d ? ", " : "", m->j->ranges.data[m->locks[d].ordinal].name, (long long)value[d]);
}

/* Prints the iteration of ranges 0 .. level at that moment; all but the last range are in their current iteration. */
static void print_iteration(tg_interpreter *m, tg_str *s, uint32_t level, uint32_t moment) {
  for (uint32_t k = 0; k <= level; k++) {
    const tg_tasks *t = &m->level[k];
    if (k) tg_str_puts(s, ", ");
    if (!t->loop) print_lanes(m, s, moment - t->entry);
    else
      tg_str_printf(s, "%s = %lld", m->j->ranges.data[t->loop->ordinal].name,
                    (long long)task_at(t, moment < t->now ? moment : t->now));
  }
}

static void print_element(const tg_interpreter *m, const tg_memory *b, size_t at, tg_str *s) {
  at = b->count ? at % b->count : at;
  tg_str_printf(s, "%s[", m->j->buffers.data[b - m->memory].name);
  size_t element = at / b->lanes;
  for (uint32_t i = 0; i < b->rank && !b->strided; i++) {
    tg_str_printf(s, "%s%zu", i ? ", " : "", b->stride[i] > 0 ? element / (size_t)b->stride[i] : 0);
    if (b->stride[i] > 0) element %= (size_t)b->stride[i];
  }
  if (b->strided) tg_str_printf(s, "offset %zu", element);
  tg_str_puts(s, "]");
  if (b->lanes > 1) tg_str_printf(s, " lane %zu", at % b->lanes);
}

TG_NORETURN static void fail_race(tg_interpreter *m, const tg_memory *b, size_t at, const char *what, culprit c) {
  tg_str s = tg_str_new(&m->j->env);
  const tg_tasks *t = &m->level[c.level];
  print_element(m, b, at, &s);
  tg_str_printf(&s, " is %s by ", c.what);
  print_statement(m, &s, m->j->uops.data[c.who[1]]);
  tg_str_puts(&s, " at ");
  print_iteration(m, &s, c.level, c.who[0]);
  tg_str_printf(&s, " and %s by ", what);
  print_statement(m, &s, m->statement);
  tg_str_puts(&s, " at ");
  print_iteration(m, &s, c.level, m->moment);
  if (t->loop)
    tg_machine_fail(m, "race: %s, and nothing orders the iterations of %s", s.data,
                    m->j->ranges.data[t->loop->ordinal].name);
  tg_machine_fail(m, "race: %s, in one statement of iterations in lockstep", s.data);
}

void tg_race_of_lanes(tg_interpreter *m, const tg_memory *b, size_t at, uint32_t lane, uint32_t other) {
  tg_str s = tg_str_new(&m->j->env);
  print_element(m, b, at, &s);
  tg_machine_fail(m, "race: lanes %u and %u of '%s' both write %s", other, lane, tg_text(m->j, m->statement), s.data);
}

/* ---- checks ---- */

/* Was it another iteration of the present run of this loop, and since the memory was defined? */
static bool conflicts(const tg_memory *b, const tg_tasks *t, uint32_t moment) {
  return moment >= t->entry && moment >= b->born && (t->loop ? moment < t->now : moment != t->now);
}

static void check(tg_interpreter *m, const tg_memory *b, size_t at, const uint32_t *who, const char *was,
                  const char *is) {
  for (uint32_t k = b->levels; k < m->levels; k++)
    if (conflicts(b, &m->level[k], *who)) fail_race(m, b, at, is, (culprit){was, who, k});
}

static uint32_t *element(tg_interpreter *m, tg_memory *b, size_t at) {
  size_t n = words(m);
  if (!b->shadow) {
    tg_memory_limit(m, m->j->buffers.data[b - m->memory].name, b->cap, n * sizeof *b->shadow);
    b->shadow = tg_new(&m->j->env, uint32_t, (b->cap + 1) * n);
  }
  return b->shadow + at * n;
}

static void note_first(const tg_interpreter *m, const tg_memory *b, uint32_t *who, uint32_t level) {
  const tg_tasks *t = &m->level[level];
  if (*who >= t->entry && *who >= b->born) return;
  who[0] = m->moment;
  who[1] = m->statement->id;
}

void tg_race_read(tg_interpreter *m, tg_memory *b, size_t at) {
  uint32_t *e = element(m, b, at);
  check(m, b, at, e + WRITER, "written", "read");
  for (uint32_t k = b->levels; k < m->levels; k++) {
    if (m->adds && conflicts(b, &m->level[k], e[adder(m, k)]))
      fail_race(m, b, at, "read", (culprit){"added to", e + adder(m, k), k});
    if (!m->level[k].loop && conflicts(b, &m->level[k], e[reader(k)]))
      e[OTHER] = m->moment, e[OTHER + 1] = m->statement->id;
    note_first(m, b, e + reader(k), k);
  }
}

void tg_race_write(tg_interpreter *m, tg_memory *b, size_t at, bool atomic) {
  uint32_t *e = element(m, b, at);
  const char *is = atomic ? "added to" : "written";
  check(m, b, at, e + WRITER, "written", is);
  for (uint32_t k = b->levels; k < m->levels; k++) {
    const tg_tasks *t = &m->level[k];
    if (conflicts(b, t, e[reader(k)])) fail_race(m, b, at, is, (culprit){"read", e + reader(k), k});
    if (!t->loop && conflicts(b, t, e[OTHER])) fail_race(m, b, at, is, (culprit){"read", e + OTHER, k});
    if (atomic) note_first(m, b, e + adder(m, k), k);
    else if (m->adds && conflicts(b, t, e[adder(m, k)]))
      fail_race(m, b, at, is, (culprit){"added to", e + adder(m, k), k});
  }
  if (atomic) return;
  e[WRITER] = m->moment;
  e[WRITER + 1] = m->statement->id;
}
