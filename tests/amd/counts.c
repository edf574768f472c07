/* SPDX-License-Identifier: MIT
 * Figures that machine code for AMD's processors keeps: tests/amd/counts.txt, which says how its lines are to be read.
 * What the programs compute is amd_corpus's to check.
 *   amd_counts [--report] [FILE.txt]                   --report: each figure
 *   amd_counts --survey TARGET FILE.tg [SIZE=N ..]     what the launches of a program are made of: no claim */
#include <stdlib.h>
#include "../ptx/claims.h"
#include "../test.h"
#include "launch.h"

enum { LINE = 1024 };

typedef struct {
  kit_code code;
  tg_binding size[CLAIM_SIZES];
  amd_count sum;
  uint64_t groups, phases;
} run;

static void add(void *user, const amd_dispatch *d) {
  run *r = user;
  const amd_count *c = &d->count;
  uint64_t groups = (uint64_t)d->groups[0] * d->groups[1] * d->groups[2];
  r->sum.instructions += c->instructions, r->sum.matrix += c->matrix;
  r->sum.wavefronts += c->wavefronts, r->sum.wavefronts_fewest += c->wavefronts_fewest;
  r->sum.sectors += c->sectors, r->sum.sectors_fewest += c->sectors_fewest;
  if (groups > r->groups) r->groups = groups;
  r->phases++;
}

static bool figure(const void *user, const char *name, double *v) {
  const run *r = user;
  const amd_count *c = &r->sum;
  const struct {
    const char *name;
    uint64_t v;
  } all[] = {{"matrix", c->matrix},         {"instructions", c->instructions},
             {"wavefronts", c->wavefronts}, {"fewest wavefronts", c->wavefronts_fewest},
             {"sectors", c->sectors},       {"fewest sectors", c->sectors_fewest},
             {"groups", r->groups},         {"phases", r->phases}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(name, all[i].name)) return *v = (double)all[i].v, true;
  for (uint32_t b = 0; !strncmp(name, "elements ", 9) && b < r->code.memory.n; b++)
    if (!strcmp(name + 9, r->code.memory.name[b]))
      return *v = (double)(r->code.memory.bytes[b] / (size_t)tg_type_bytes(r->code.memory.type[b])), true;
  return false;
}

static bool launch(run *r, void (*seen)(void *, const amd_dispatch *)) {
  char message[AMD_MESSAGE];
  r->sum = (amd_count){.instructions = 0};
  r->groups = r->phases = 0;
  bool ok = kit_compile(&r->code, NULL, NULL);
  CHECK(ok, "%s: %s", r->code.where, r->code.job.env.message);
  amd_program p = {.job = &r->code.job,
                   .processor = r->code.path.target.name,
                   .object = &r->code.object,
                   .info = &r->code.info,
                   .params = r->code.params,
                   .seed = 1,
                   .seen = seen,
                   .user = r};
  bool ran = ok && amd_program_run(&p, &r->code.memory, message);
  CHECK(ran || !ok, "%s: %s", r->code.where, message);
  return ran;
}

static void one_line(run *r, char *line, bool report) {
  char *claims = strchr(line, ':'), *path = strchr(line, ' '), *sizes = path ? strchr(path + 1, ' ') : NULL;
  CHECK(claims && path && path < claims, "'%s' has no target, or no ':'", line);
  if (!claims || !path || path > claims) return;
  *claims++ = 0, *path++ = 0;
  if (sizes && sizes < claims)
    *sizes++ = 0;
  else
    sizes = NULL;
  claims_program(&r->code, r->size, path, sizes ? sizes : "");
  bool open = kit_path_open(&r->code.path, line);
  CHECK(open, "no path for %s", line);
  if (!open) return;
  if (launch(r, add)) {
    char where[LINE + 64];
    snprintf(where, sizeof where, "%.900s for %.60s", path, line);
    claims_check(where, claims, report, figure, r);
  }
  tg_job_drop(&r->code.job);
  kit_path_close(&r->code.path);
}

/* ---- one program, for people ---- */

static void show(void *user, const amd_dispatch *d) {
  run *r = user;
  const amd_count *c = &d->count;
  uint64_t groups = (uint64_t)d->groups[0] * d->groups[1] * d->groups[2], bytes = 0;
  uint32_t threads = d->threads[0] * d->threads[1] * d->threads[2], lanes = r->code.path.target.lanes;
  for (uint32_t b = 0; b < r->code.memory.n; b++) bytes += r->code.memory.bytes[b];
  printf("groups %llu of %u, wave instructions %llu, of a wave %.0f, sectors %llu = %.2f of all buffers, LOCAL %llu = %.2f "
         "of fewest, matrix %llu\n",
         (unsigned long long)groups, threads, (unsigned long long)c->instructions,
         (double)c->instructions / (double)(groups * ((threads + lanes - 1) / lanes)), (unsigned long long)c->sectors,
         (double)c->sectors * 64 / (double)bytes, (unsigned long long)c->wavefronts,
         c->wavefronts_fewest ? (double)c->wavefronts / (double)c->wavefronts_fewest : 0, (unsigned long long)c->matrix);
}

static void survey(run *r, char **argv) {
  char sizes[LINE] = "";
  size_t n = 0;
  for (char **a = argv + 2; *a && n < sizeof sizes; a++) n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s ", *a);
  claims_program(&r->code, r->size, argv[1], sizes);
  bool open = kit_path_open(&r->code.path, argv[0]);
  CHECK(open, "no path for %s", argv[0]);
  if (!open) return;
  launch(r, show);
  tg_job_drop(&r->code.job);
  kit_path_close(&r->code.path);
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
  if (argc > 3 && !strcmp(argv[1], "--survey")) survey(&r, argv + 2);
  else check_file(&r, argc > 1 + report ? argv[1 + report] : "tests/amd/counts.txt", report);
  kit_memory_free(&r.code.memory);
  return TEST_END();
}
