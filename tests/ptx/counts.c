/* SPDX-License-Identifier: MIT
 * Figures that the PTX of programs keeps: tests/ptx/counts.txt, which says how its lines are to be read. The programs
 * are compiled for sm_80 and run in the interpreter of PTX; what they compute is ptx_corpus's to check.
 *   ptx_counts [--report] [FILE.txt]            --report: each figure
 *   ptx_counts --survey FILE.tg [SIZE=N ..]     what the launches of a program are made of, a line each: no claim */
#include <stdlib.h>
#include "../test.h"
#include "claims.h"
#include "launch.h"

enum { LINE = 1024 };

typedef struct {
  kit_code code;
  tg_binding size[CLAIM_SIZES];
  ptx_summary sum;
  uint64_t groups;
  ptx_traffic traffic[PTX_BUFFERS];
} run;

static void add(void *user, const ptx_launch *l) {
  run *r = user;
  ptx_summary s = ptx_summarise(l, 0);
  uint64_t groups = (uint64_t)l->groups[0] * l->groups[1] * l->groups[2];
  if (groups > r->groups) r->groups = groups;
  r->sum.all.warps += s.all.warps, r->sum.matrix += s.matrix;
  r->sum.all.wavefronts += s.all.wavefronts, r->sum.all.wavefronts_fewest += s.all.wavefronts_fewest;
  r->sum.all.sectors += s.all.sectors, r->sum.all.sectors_fewest += s.all.sectors_fewest;
  for (uint32_t b = 0; b < r->code.memory.n; b++) {
    ptx_traffic *to = &r->traffic[b];
    const ptx_traffic *t = &l->traffic[b];
    to->sectors_read += t->sectors_read, to->sectors_written += t->sectors_written;
    if (t->distinct_read > to->distinct_read) to->distinct_read = t->distinct_read;
    if (t->distinct_written > to->distinct_written) to->distinct_written = t->distinct_written;
  }
}

static bool launch(run *r, void (*seen)(void *, const ptx_launch *)) {
  char message[PTX_MESSAGE];
  r->sum = (ptx_summary){.matrix = 0};
  r->groups = 0;
  memset(r->traffic, 0, sizeof r->traffic);
  bool ok = kit_compile(&r->code, NULL, NULL);
  CHECK(ok, "%s: %s", r->code.where, r->code.job.env.message);
  ptx_program p = {.job = &r->code.job, .object = &r->code.object, .info = &r->code.info, .params = r->code.params, .seed = 1, .seen = seen, .user = r};
  bool ran = ok && ptx_program_run(&p, &r->code.memory, message);
  CHECK(ran || !ok, "%s: %s", r->code.where, message);
  return ran;
}

/* ---- figures ---- */

/* "read x": the buffer's number; -1: the name does not begin so. */
static int buffer_behind(const run *r, const char *name, const char *what) {
  size_t n = strlen(what);
  for (uint32_t b = 0; !strncmp(name, what, n) && b < r->code.memory.n; b++)
    if (!strcmp(name + n, r->code.memory.name[b])) return (int)b;
  return -1;
}

static bool figure(const void *user, const char *name, double *v) {
  const run *r = user;
  const ptx_count *c = &r->sum.all;
  const struct { const char *name; uint64_t v; } sums[] = {{"mma", r->sum.matrix}, {"instructions", c->warps}, {"wavefronts", c->wavefronts}, {"fewest wavefronts", c->wavefronts_fewest},
                                                           {"sectors", c->sectors}, {"fewest sectors", c->sectors_fewest}, {"groups", r->groups}};
  int b;
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    if (!strcmp(name, sums[i].name)) return *v = (double)sums[i].v, true;
  if ((b = buffer_behind(r, name, "read ")) >= 0) *v = (double)r->traffic[b].sectors_read;
  else if ((b = buffer_behind(r, name, "different read ")) >= 0) *v = (double)r->traffic[b].distinct_read;
  else if ((b = buffer_behind(r, name, "written ")) >= 0) *v = (double)r->traffic[b].sectors_written;
  else if ((b = buffer_behind(r, name, "different written ")) >= 0) *v = (double)r->traffic[b].distinct_written;
  else if ((b = buffer_behind(r, name, "elements ")) >= 0) *v = (double)(r->code.memory.bytes[b] / (size_t)tg_type_bytes(r->code.memory.type[b]));
  return b >= 0;
}

static void one_line(run *r, char *line, bool report) {
  char *claims = strchr(line, ':'), *sizes = strchr(line, ' ');
  CHECK(claims, "'%s' has no ':'", line);
  if (!claims) return;
  *claims++ = 0;
  if (sizes && sizes < claims) *sizes++ = 0;
  claims_program(&r->code, r->size, line, sizes && sizes < claims ? sizes : "");
  if (launch(r, add)) claims_check(r->code.where, claims, report, figure, r);
  tg_job_drop(&r->code.job);
}

/* ---- one program, for people ---- */

static void show(void *user, const ptx_launch *l) {
  ptx_summary s = ptx_summarise(l, 0);
  uint64_t groups = (uint64_t)l->groups[0] * l->groups[1] * l->groups[2], fewest = 0;
  uint64_t warps = groups * ((l->threads + PTX_LANES - 1) / PTX_LANES);
  for (uint32_t b = 0; b < l->buffers; b++) fewest += l->traffic[b].distinct_read + l->traffic[b].distinct_written;
  printf("%-24s groups %llu of %u, warp instructions %llu, of a warp %.0f, sectors %llu = %.2f of each once, LOCAL %llu = "
         "%.2f of fewest, mma %llu\n",
         l->kernel->name, (unsigned long long)groups, l->threads, (unsigned long long)s.all.warps,
         (double)s.all.warps / (double)warps, (unsigned long long)s.all.sectors,
         fewest ? (double)s.all.sectors / (double)fewest : 0, (unsigned long long)s.all.wavefronts,
         s.all.wavefronts_fewest ? (double)s.all.wavefronts / (double)s.all.wavefronts_fewest : 0,
         (unsigned long long)s.matrix);
  add(user, l);
}

static void survey(run *r, char **argv) {
  char sizes[LINE] = "";
  size_t n = 0;
  for (char **a = argv + 1; *a && n < sizeof sizes; a++) n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s ", *a);
  claims_program(&r->code, r->size, *argv, sizes);
  launch(r, show);
  tg_job_drop(&r->code.job);
}

static void check_file(run *r, const char *path, bool report) {
  char line[LINE];
  FILE *f = fopen(path, "r");
  CHECK(f, "%s cannot be read", path);
  while (f && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    if (*line && *line != '#') one_line(r, line, report);
  }
  if (f) fclose(f);
}

int main(int argc, char **argv) {
  static run r;
  bool report = argc > 1 && !strcmp(argv[1], "--report");
  CHECK(kit_path_open(&r.code.path, "sm_80"), "no path");
  if (argc > 2 && !strcmp(argv[1], "--survey")) survey(&r, argv + 2);
  else check_file(&r, argc > 1 + report ? argv[1 + report] : "tests/ptx/counts.txt", report);
  kit_memory_free(&r.code.memory);
  kit_path_close(&r.code.path);
  return TEST_END();
}
