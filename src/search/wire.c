/* SPDX-License-Identifier: MIT
 * Tasks and answers as bytes: a frame with a checksum and the task's serial number, then the fields in order. Answers
 * come from processes that ran untrusted code, so every length is checked, and no number is trusted to be in range. */
#include <math.h>
#include "search/trial.h"

enum { MAGIC = 0x54474B31, MOST = 64 << 20 };

const char *tg_outcome_name(tg_outcome o) {
  static const char *const names[] = {"ok",    "illegal", "duplicate",    "crashed", "hung",
                                      "wrong", "limit",   "unbelievable", "slow",    "skipped"};
  _Static_assert(TG_COUNT(names) == TG_TRIAL__COUNT, "a name for each outcome");
  return (unsigned)o < TG_TRIAL__COUNT ? names[o] : "?";
}

/* ---- writing ---- */

static void put(tg_str *s, const void *p, size_t n) { tg_str_put(s, p, n); }
static void put_u64(tg_str *s, uint64_t v) { put(s, &v, sizeof v); }
static void put_double(tg_str *s, double v) { put(s, &v, sizeof v); }
static void put_text(tg_str *s, const char *t) {
  size_t n = t ? strlen(t) : 0;
  put_u64(s, t ? n + 1 : 0);
  if (t) put(s, t, n);
}

static size_t begin(tg_str *s) {
  tg_wire_header f = {0};
  size_t at = s->n;
  put(s, &f, sizeof f);
  return at;
}

static void end(tg_str *s, size_t at, uint64_t serial) {
  tg_assert(s->env, s->n >= at + sizeof(tg_wire_header));
  tg_wire_header f = {.magic = MAGIC, .bytes = (uint32_t)(s->n - at - sizeof f), .serial = serial};
  f.sum = tg_hash(s->data + at + sizeof f, f.bytes, serial);
  memcpy(s->data + at, &f, sizeof f);
}

void tg_wire_ask(tg_str *s, const tg_task *t, uint64_t serial) {
  size_t at = begin(s);
  put_u64(s, t->kind);
  put_text(s, t->trial.text);
  put_text(s, t->trial.words);
  put_text(s, t->trial.given);
  put_text(s, t->against.text);
  put_text(s, t->against.words);
  put_text(s, t->target);
  put_text(s, t->device), put_text(s, t->device_target);
  put_text(s, t->machine);
  put_text(s, t->folder);
  put_text(s, t->checks);
  put_u64(s, t->roundings);
  put_double(s, t->limit);
  put_u64(s, t->work);
  put_u64(s, t->quads);
  put_double(s, t->spend);
  put_double(s, t->give_up);
  put_u64(s, t->params_n);
  put(s, t->params, sizeof t->params);
  put_u64(s, t->threads);
  put_u64(s, t->pool);
  put_u64(s, t->seed);
  put_u64(s, (uint64_t)(int64_t)t->shared);
  put_u64(s, t->make);
  end(s, at, serial);
}

void tg_wire_answer(tg_str *s, const tg_task *t, uint64_t serial) {
  size_t at = begin(s);
  tg_assert(s->env, t->kind < TG_TASK__COUNT && t->outcome < TG_TRIAL__COUNT && t->n <= TG_QUADS);
  put_u64(s, t->kind);
  put_u64(s, t->outcome);
  put_text(s, t->message);
  put_text(s, t->words);
  put_text(s, t->decisions);
  put_u64(s, t->hash);
  put(s, &t->cost, sizeof t->cost);
  put_double(s, t->floor);
  put_double(s, t->slowest);
  put_double(s, t->flops);
  put_double(s, t->bytes);
  put_u64(s, t->exact);
  put_double(s, t->seconds);
  put_double(s, t->against_seconds);
  put_u64(s, t->n);
  put_u64(s, t->dropped);
  for (uint32_t i = 0; i < t->n && i < TG_QUADS; i++) put_double(s, t->gain[i]);
  end(s, at, serial);
}

/* ---- reading ---- */

typedef struct { tg_env *env; const char *at; size_t left; bool bad; } reader;

static void get(reader *r, void *p, size_t n) {
  if (r->bad || r->left < n) {
    memset(p, 0, n);
    r->bad = true;
    return;
  }
  memcpy(p, r->at, n);
  r->at += n;
  r->left -= n;
}
static uint64_t get_u64(reader *r, uint64_t most) {
  uint64_t v;
  get(r, &v, sizeof v);
  if (v > most) r->bad = true;
  return v;
}
static double get_double(reader *r) {
  double v;
  get(r, &v, sizeof v);
  if (!isfinite(v)) r->bad = true;
  return v;
}
static const char *get_text(reader *r) {
  uint64_t n = get_u64(r, MOST);
  if (!n || r->bad) return NULL;
  if (n - 1 > r->left || memchr(r->at, 0, n - 1)) {
    r->bad = true;
    return NULL;
  }
  const char *t = tg_strndup(r->env, r->at, n - 1);
  r->at += n - 1;
  r->left -= n - 1;
  return t;
}

bool tg_wire_frame(const tg_wire_header *f) { return f->magic == MAGIC && f->bytes <= MOST; }

static bool whole(const tg_wire_header *f, const char *payload) {
  return tg_wire_frame(f) && tg_hash(payload, f->bytes, f->serial) == f->sum;
}

bool tg_wire_read_ask(tg_env *env, const tg_wire_header *f, const char *payload, tg_task *t) {
  reader r = {env, payload, f->bytes, !whole(f, payload)};
  *t = (tg_task){.kind = (uint8_t)get_u64(&r, TG_TASK__COUNT - 1)};
  t->trial.text = get_text(&r);
  t->trial.words = get_text(&r);
  t->trial.given = get_text(&r);
  t->against.text = get_text(&r);
  t->against.words = get_text(&r);
  t->target = get_text(&r);
  t->device = get_text(&r), t->device_target = get_text(&r);
  t->machine = get_text(&r);
  t->folder = get_text(&r);
  t->checks = get_text(&r);
  t->roundings = get_u64(&r, UINT64_MAX);
  t->limit = get_double(&r);
  t->work = get_u64(&r, 1) != 0;
  t->quads = (uint32_t)get_u64(&r, TG_QUADS);
  t->spend = get_double(&r);
  t->give_up = get_double(&r);
  t->params_n = (uint32_t)get_u64(&r, TG_TRIAL_PARAMS);
  get(&r, t->params, sizeof t->params);
  t->threads = (uint32_t)get_u64(&r, UINT32_MAX);
  t->pool = (uint32_t)get_u64(&r, UINT32_MAX);
  t->seed = get_u64(&r, UINT64_MAX);
  t->shared = (int)(int64_t)get_u64(&r, UINT64_MAX);
  t->make = get_u64(&r, 1) != 0;
  return !r.bad && !r.left;
}

bool tg_wire_read_answer(tg_env *env, const tg_wire_header *f, const char *payload, uint64_t serial, tg_task *t) {
  reader r = {env, payload, f->bytes, !whole(f, payload) || f->serial != serial};
  tg_task a = *t;
  if (get_u64(&r, TG_TASK__COUNT - 1) != t->kind) r.bad = true;
  a.outcome = (uint8_t)get_u64(&r, TG_TRIAL__COUNT - 1);
  a.message = get_text(&r);
  a.words = get_text(&r);
  a.decisions = get_text(&r);
  a.hash = get_u64(&r, UINT64_MAX);
  get(&r, &a.cost, sizeof a.cost);
  a.floor = get_double(&r);
  a.slowest = get_double(&r);
  a.flops = get_double(&r);
  a.bytes = get_double(&r);
  a.exact = get_u64(&r, 1) != 0;
  a.seconds = get_double(&r);
  a.against_seconds = get_double(&r);
  a.n = (uint32_t)get_u64(&r, TG_QUADS);
  a.dropped = (uint32_t)get_u64(&r, UINT32_MAX);
  for (uint32_t i = 0; i < a.n && !r.bad; i++) a.gain[i] = get_double(&r);
  if (r.bad || r.left) return false;
  *t = a;
  return true;
}
