/* SPDX-License-Identifier: MIT
 * First choices over the rows of processors as data, by the cost model alone: of every text of tests/bench/kernels the
 * choice costs no more than what the nests' classes have; where the structure of a text has words that no class has, it
 * costs clearly less on every row with vectors of 32 bytes and more; a choice is the same when it is made again, of the
 * text that tg prints; and a search may decide for any candidate.
 *   library_choices          each text on a third of the rows, another third for the next text
 *   library_choices all      each text on each row */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include "../rows.h"
#include "../test.h"
#include "choose/heuristic.h"
#include "compile/price.h"
#include "dsl/text.h"
#include "kit.h"

typedef struct {
  tg_job tables, job;
  const tg_rules *rules;
  tg_target target;
  const char *path, *text, *given;
  char *printed;                  /* of the author's program */
  bool priced;                    /* candidates are priced; else each nest gets its class */
  double seconds;
  char words[16384], moves[4096];
} choice;

static void compile_rules(void *user) {
  choice *c = user;
  c->rules = tg_rules_compile(&c->tables.env);
}

static void choose(void *user) {
  choice *c = user;
  tg_job *j = &c->job;
  tg_lowering l = {.target = &c->target, .rules = c->rules, .price = c->priced ? tg_price_raised : NULL};
  tg_decisions d = {.given = c->given};
  tg_str words = tg_str_new(&j->env), moves = tg_str_new(&j->env);
  tg_parse_kernel(j, c->path, c->text, 0, NULL);
  tg_str printed = tg_str_new(&j->env);
  tg_print(j, &printed, j->sink);
  free(c->printed);
  c->printed = strdup(printed.data);
  j->sink = tg_lower(j, &l, "raise", NULL, NULL);
  tg_heuristic_with(j, &l, j->sink, &d);
  for (uint32_t i = 0; i < j->opts.n; i++) tg_str_printf(&words, "%s; ", j->opts.data[i].text);
  for (uint32_t i = 0; i < d.made.n; i++)
    for (uint32_t k = 0; !strncmp(d.made.data[i].name, "plan@", 5) && k < d.made.data[i].n; k++)
      tg_str_printf(&moves, "%s=%lld ", d.made.data[i].name, (long long)d.made.data[i].option[k]);
  snprintf(c->words, sizeof c->words, "%s", words.data ? words.data : "");
  snprintf(c->moves, sizeof c->moves, "%s", moves.data ? moves.data : "");
  const tg_uop *linear = tg_lower(j, &l, NULL, NULL, NULL);
  c->seconds = tg_cost_of(j, &c->target, linear, NULL, (int)c->target.threads).seconds;
}

static bool made(choice *c) {
  tg_job_init(&c->job, NULL);
  bool ok = tg_protect(&c->job.env, choose, c);
  CHECK(ok, "%s on %s: %s", c->path, c->target.name, c->job.env.message);
  tg_job_drop(&c->job);
  return ok;
}

/* Texts whose structure has words that no class has, and what part of the class's price the choice costs at most. bytes:
 * of the vectors of the rows on which it does; 0: 32 and more. */
static const struct { const char *name; double part; uint32_t bytes; } better[] = {
    {"knn.tg", 0.6, 0}, {"q4.tg", 0.7, 0}, {"swiglu.tg", 0.8, 0}, {"conv3x3_stride2.tg", 0.6, 0},
    {"decode.tg", 0.6, 0}, {"columns.tg", 0.95, 0}, {"layernorm_channels.tg", 0.03, 0},
    {"maxpool.tg", 0.92, 0}, {"depthwise.tg", 0.97, 32}};

/* Texts that ask for a sum again and again keep it, and no others do. */
static void check_kept(const choice *c, const char *name) {
  bool again = !strcmp(name, "layers.tg") || !strcmp(name, "scores.tg");
  CHECK(!strncmp(c->words, "keep ", 5) == again, "%s on %s: %.60s", name, c->target.name, c->words);
}

/* Both factors of A A' are reads of one buffer: the panel is a copy of what one of them reads. */
static void check_panel(const choice *c, const char *name) {
  bool one_buffer = !strcmp(name, "gram.tg");
  CHECK(!one_buffer || strstr(c->words, " as x.panel"), "%s on %s: no panel: %.200s", name, c->target.name, c->words);
}

/* What needs 16 bits has as many lanes as that is; rows of a few bytes are joined; a row to bytes fills a vector of them. */
static void check_bytes(const choice *c, const char *name) {
  char lanes[32];
  bool row = !strcmp(name, "quantise.tg"), grey = !strcmp(name, "rgb2y.tg"), blend = !strcmp(name, "blend.tg");
  snprintf(lanes, sizeof lanes, " %u as ", c->target.vector_bytes / 2);
  CHECK(!(grey || blend) || strstr(c->words, lanes), "%s on %s: not%sby lanes: %.200s", name, c->target.name, lanes, c->words);
  snprintf(lanes, sizeof lanes, " %u as q", c->target.vector_bytes);
  CHECK(!row || strstr(c->words, lanes), "%s on %s: not%s: %.300s", name, c->target.name, lanes, c->words);
  CHECK(strncmp(c->words, "fuse i c ", 9) == 0 || !blend, "%s on %s: %.60s", name, c->target.name, c->words);
}

static void check_text(choice *c, const char *name) {
  static char words[sizeof c->words];
  const char *text = c->text;
  c->given = NULL, c->priced = false;
  if (!made(c)) return;
  double by_class = c->seconds, part = 1;
  check_kept(c, name);
  check_panel(c, name);
  check_bytes(c, name);
  c->priced = true;
  if (!made(c)) return;
  for (uint32_t i = 0; i < sizeof better / sizeof *better; i++)
    if (!strcmp(better[i].name, name) &&
        (better[i].bytes ? c->target.vector_bytes == better[i].bytes : c->target.vector_bytes >= 32))
      part = better[i].part;
  CHECK(c->seconds <= part * by_class, "%s on %s: the choice costs %g of the class's %g s", name, c->target.name,
        c->seconds / by_class, by_class);
  strcpy(words, c->words);
  char *printed = strdup(c->printed);
  c->text = printed;
  made(c);
  CHECK(!strcmp(words, c->words), "%s on %s: another choice for its printed text\n%s\n%s", name, c->target.name, words,
        c->words);
  c->text = text;
  free(printed);
}

/* What a search decides is done: each candidate has words of its own. */
static void check_moves(choice *c, const char *name) {
  static char first[sizeof c->words], moves[sizeof c->moves];
  uint32_t tried = 0, others = 0;
  c->given = NULL, c->priced = true;
  if (!made(c)) return;
  strcpy(first, c->words), strcpy(moves, c->moves);
  for (char *p = moves; (p = strtok(p, " ")); p = NULL, tried++) {
    c->given = p;
    if (made(c)) others += strcmp(first, c->words) != 0;
  }
  CHECK(others == tried, "%s on %s: %u of %u candidates are other words", name, c->target.name, others, tried);
}

/* Where sizes are open until the call, there are candidates as well, priced at a few sizes. */
static const char *const open[] = {
    "kernel pairs(P in 1..4096, Q in 1..4096) { in(a, f32, [P, 3]); in(b, f32, [Q, 3]); out(d, f32, [P, Q]);\n"
    "  range(i, P) range(j, Q) d[i,j] = sum(k : 3, (a[i,k] - b[j,k]) * (a[i,k] - b[j,k])); }",
    "kernel moved(N in 8..4096, M in 8..4096) { in(x, f32, [N, M]); in(g, f32, [N]); out(y, f32, [N, M]);\n"
    "  range(i, N) range(j, M) y[i,j] = x[i,j] * g[i]; }",
    "kernel flat(N in 1..100000000) { in(x, f32, [N]); out(y, f32, [N]); range(i, N) y[i] = max(x[i], 0); }"};

static void check_open(choice *c) {
  for (uint32_t i = 0; i < sizeof open / sizeof *open; i++) {
    c->path = "open", c->text = open[i];
    check_moves(c, "open");
    CHECK(c->moves[0], "%s on %s: no candidates", open[i], c->target.name);
  }
}

/* A sum beside a product that changes with more loops is no accumulator of the product's tiles; where there is no
 * product, it is computed in the loop that it stands in. */
static const struct { const char *text; int keeps; } beside[] = {
    {"kernel beside(N = 512, M = 64, D = 128) { in(x, f32, [N, D]); in(z, f32, [M, D]); out(y, f32, [N, M]);\n"
     "  range(i, N) range(j, M)\n"
     "    y[i,j] = sum(d : D, x[i,d] * z[j,d]) * rsqrt(sum(d : D, x[i,d] * x[i,d]) * sum(d : D, z[j,d] * z[j,d])); }", 2},
    {"kernel alone(N = 512, M = 64, D = 128) { in(x, f32, [N, D]); in(z, f32, [N, M]); out(y, f32, [N, M]);\n"
     "  range(i, N) range(j, M) y[i,j] = z[i,j] * rsqrt(sum(d : D, x[i,d] * x[i,d])); }", 0}};

static void check_beside(choice *c) {
  for (uint32_t i = 0; i < sizeof beside / sizeof *beside; i++) {
    int keeps = 0;
    c->path = "beside", c->text = beside[i].text, c->given = NULL, c->priced = true;
    if (!made(c)) continue;
    for (const char *w = c->words; (w = strstr(w, "keep ")); w++) keeps++;
    CHECK(keeps == beside[i].keeps, "%s on %s: %d kept: %.120s", beside[i].text, c->target.name, keeps, c->words);
  }
}

int main(int argc, char **argv) {
  const bool all = argc > 1 && !strcmp(argv[1], "all");
  static const char *const folder[] = {"tests/bench/kernels"};
  static tg_target rows[ROWS];
  static choice c;
  int texts;
  uint32_t n = rows_of_processors(rows);
  kit_program *program = kit_programs_of(1, folder, &texts);
  CHECK(n > 4 && texts > 20, "%u rows, %d texts", n, texts);
  tg_job_init(&c.tables, NULL);
  CHECK(tg_protect(&c.tables.env, compile_rules, &c), "%s", c.tables.env.message);
  for (int f = 0; f < texts; f++)
    for (uint32_t i = all ? 0 : (uint32_t)f % 3; i < n; i += all ? 1 : 3) {
      const char *name = strrchr(program[f].path, '/') + 1;
      c.path = program[f].path, c.text = program[f].text;
      c.target = rows[i];
      c.target.threads = i % 2 ? 8 : 1;
      check_text(&c, name);
      if (i == (all ? 0 : (uint32_t)f % 3)) check_moves(&c, name);
      if (!f) check_open(&c), check_beside(&c);
    }
  kit_programs_free(program, texts);
  free(c.printed);
  tg_job_drop(&c.tables);
  return TEST_END();
}
