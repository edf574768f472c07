/* SPDX-License-Identifier: MIT
 * What others may have written: entries of the store, journals, and what workers say, changed at random, many with their checksums made right again so that what lies behind them is reached. Nothing may
 * crash (a build with sanitizers says what does), and what is taken must be the same when it is written and read once more. Arguments: seconds (2), seed (1). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "search/search.h"
#include "store/store.h"

enum { MOST = 1 << 14 };
typedef struct { tg_env env; uint64_t state; char *data; size_t n; char path[TEST_PATH]; long tried, taken; } fuzz;

static uint64_t draw(fuzz *f) {
  uint64_t z = f->state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static size_t below(fuzz *f, size_t n) { return n ? (size_t)(draw(f) % n) : 0; }

/* ---- changes ---- */

static void put_at(fuzz *f, size_t at, const char *text, size_t n) {
  if (f->n + n > MOST) return;
  memmove(f->data + at + n, f->data + at, f->n - at);
  memcpy(f->data + at, text, n);
  f->n += n;
}

/* Bytes, pieces left out, doubled or moved, numbers that are too large, words of the formats. */
static void change(fuzz *f) {
  static const char *const words[] = {"18446744073709551616", "-1", "9999999999", "0", "nan", "inf", "1e999", "\n", "end\n", "key 5\nabcde\n", "knob 3\nA=1\n", "knob 0\n\n", "words 1\n;\n", "\"", "\\u00", "\\", "}", "{", "[1,2", ":", "\"event\":\"time\"",
                                      "\"event\":\"end\",\"budget\":0", "\"gain\":[", "\"outcome\":\"ok\"", "\"id\":\""};
  size_t at = below(f, f->n + 1), n = below(f, 40);
  switch (draw(f) % 7) {
  case 0: if (at < f->n) f->data[at] = (char)draw(f); break;
  case 1: if (at < f->n) f->data[at] = (char)(f->data[at] ^ 1 << draw(f) % 8); break;
  case 2:
    if (n > f->n - at) n = f->n - at;
    memmove(f->data + at, f->data + at + n, f->n - at - n);
    f->n -= n;
    break;
  case 3: {
    char copy[64];
    if (n > f->n - at) n = f->n - at;
    memcpy(copy, f->data + at, n);
    put_at(f, below(f, f->n + 1), copy, n);
    break;
  }
  case 4: f->n = at; break;
  case 5: if (at + 8 <= f->n) memset(f->data + at, draw(f) & 1 ? 0xff : 0, 8); break;
  default: {
    const char *w = words[below(f, sizeof words / sizeof *words)];
    put_at(f, at, w, strlen(w));
  }
  }
}

static void change_some(fuzz *f) {
  for (size_t i = 1 + below(f, 4); i > 0; i--) change(f);
}

static void take(fuzz *f, const tg_str *s) {
  f->n = s->n < MOST ? s->n : MOST;
  memcpy(f->data, s->data, f->n);
}

/* ---- the store ---- */

static tg_tuned entry(fuzz *f) {
  tg_binding *b = tg_new(&f->env, tg_binding, 4);
  uint32_t n = (uint32_t)below(f, 4);
  for (uint32_t i = 0; i < n; i++) b[i] = (tg_binding){tg_format(&f->env, "K%u", i), (int64_t)draw(f), 0, 1};
  return (tg_tuned){.key = tg_format(&f->env, "tg 0\nkernel %u\n", (unsigned)below(f, 100)), .kernel = "k", .knobs = b, .knobs_n = n, .words = below(f, 2) ? "split i 4 as a b; lane b" : NULL, .seconds = 1e-6 * (double)below(f, 1000),
                    .default_seconds = 2e-3, .gain_low = 0.5};
}

static void make_sum_right(fuzz *f) {
  enum { SUM = 32 };
  size_t head = strlen("tg-tuned 1\n") + 4 + SUM + 1;
  char sum[SUM + 1];
  if (f->n < head) return;
  tg_hash128 h = tg_hash_wide(f->data + head, f->n - head);
  snprintf(sum, sizeof sum, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
  memcpy(f->data + head - 1 - SUM, sum, SUM);
}

static void fuzz_store(fuzz *f) {
  tg_tuned t = entry(f), got, again;
  tg_str s = tg_str_new(&f->env), out = tg_str_new(&f->env);
  tg_store_print(&s, &t);
  take(f, &s);
  change_some(f);
  if (draw(f) % 4) make_sum_right(f);
  if (!tg_store_parse(&f->env, f->data, f->n, &got)) return;
  f->taken++;
  tg_store_print(&out, &got);
  CHECK(tg_store_parse(&f->env, out.data, out.n, &again) && !strcmp(got.key, again.key) && !strcmp(got.kernel, again.kernel) && got.knobs_n == again.knobs_n && got.seconds == again.seconds, "an entry that was taken is another when it is written and read");
}

/* ---- the journal ---- */

static void fuzz_journal(fuzz *f) {
  const uint64_t key = 0x1234;
  tg_point p = {.id = draw(f), .score = 0.25};
  tg_task t = {.kind = TG_TASK_TIME, .seconds = 1e-3, .against_seconds = 2e-3, .n = 3, .gain = {0.1, 0.2, 0.3}}, lower = {.kind = TG_TASK_LOWER, .hash = 7, .words = "lane \"j\" 8\\", .decisions = "rows@0=8:4"}, got = {.kind = TG_TASK_TIME};
  tg_journal *j = tg_journal_open(&f->env, f->path, "k", key, false);
  tg_journal_put(j, &lower, &p, 0, "k A=1");
  tg_journal_put(j, &t, &p, 5, "k A=1");
  if (below(f, 2)) tg_journal_end(j, false, 60, 0, "the default stays");
  tg_journal_close(j);
  size_t n;
  const char *text = tg_read_file(&f->env, f->path, &n);
  tg_str s = tg_str_new(&f->env);
  if (text) tg_str_put(&s, text, n);
  take(f, &s);
  change_some(f);
  FILE *file = fopen(f->path, "wb");
  if (!file) return;
  fwrite(f->data, 1, f->n, file);
  fclose(file);
  j = tg_journal_open(&f->env, f->path, "k", key, true);
  tg_journal_ended(j, 60, 0);
  if (tg_journal_find(j, TG_TASK_TIME, p.id, 5, &got)) {
    f->taken++;
    CHECK(got.n <= TG_QUADS && got.outcome < TG_TRIAL_SKIPPED, "an answer with %u samples", got.n);
  }
  got = (tg_task){.kind = TG_TASK_LOWER};
  tg_journal_find(j, TG_TASK_LOWER, p.id, 0, &got);
  tg_journal_put(j, &t, &p, 6, "k A=1");
  tg_journal_close(j);
}

/* ---- what workers say ---- */

static void fuzz_wire(fuzz *f) {
  tg_task t = {.kind = (uint8_t)below(f, TG_TASK__COUNT), .trial = {"kernel k() {}", "lane j", NULL}, .seconds = 1, .n = 2, .message = "m", .words = "w"}, got = t;
  bool ask = draw(f) & 1;
  tg_str s = tg_str_new(&f->env);
  if (ask) tg_wire_ask(&s, &t, 9);
  else tg_wire_answer(&s, &t, 9);
  take(f, &s);
  change_some(f);
  tg_wire_header frame;
  if (f->n < sizeof frame) return;
  memcpy(&frame, f->data, sizeof frame);
  if (!tg_wire_frame(&frame) && draw(f) % 2) memcpy(&frame, s.data, sizeof frame);
  frame.bytes = (uint32_t)(f->n - sizeof frame), frame.serial = 9;
  char *payload = tg_alloc(&f->env, frame.bytes + 1);   /* no more than there is: whoever reads on is seen */
  memcpy(payload, f->data + sizeof frame, frame.bytes);
  if (draw(f) % 8) frame.sum = tg_hash(payload, frame.bytes, frame.serial);
  bool taken = ask ? tg_wire_read_ask(&f->env, &frame, payload, &got) : tg_wire_read_answer(&f->env, &frame, payload, 9, &got);
  if (!taken) return;
  f->taken++;
  CHECK(got.kind < TG_TASK__COUNT && got.outcome < TG_TRIAL__COUNT && got.n <= TG_QUADS && got.params_n <= TG_TRIAL_PARAMS, "a task that is none");
}

/* ---- all ---- */

static void run(void *arg) {
  fuzz *f = arg;
  if (f->tried % 16 == 0) fuzz_journal(f);
  else if (f->tried % 2) fuzz_store(f);
  else fuzz_wire(f);
}

int main(int argc, char **argv) {
  static fuzz f = {.path = "tg-fuzz-XXXXXX"};
  static char data[MOST];
  double seconds = argc > 1 ? atof(argv[1]) : 2, end = tg_now() + seconds;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  test_place(f.path);
  int fd = mkstemp(f.path);
  f.data = data, f.state = seed;
  CHECK(fd >= 0, "a file");
  for (; tg_now() < end && !test_failed; f.tried++) {
    uint64_t state = f.state;
    tg_env_init(&f.env, NULL);
    CHECK(tg_protect(&f.env, run, &f), "seed %llu, turn %ld, state %llx: %s", (unsigned long long)seed, f.tried, (unsigned long long)state, f.env.message);
    tg_env_drop(&f.env);
  }
  close(fd), unlink(f.path);
  printf("seed %llu: %ld tried, %ld taken\n", (unsigned long long)seed, f.tried, f.taken);
  CHECK(f.taken > f.tried / 200, "hardly any was taken");
  return TEST_END();
}
