/* SPDX-License-Identifier: MIT
 * Figures that machine code for AMD's processors keeps: tests/amd/counts.txt, which says how its lines are to be read.
 * What the programs compute is amd_corpus's to check.
 *   amd_counts [--report] [FILE.txt]      --report: each figure */
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

static bool launch(run *r) {
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
                   .seen = add,
                   .user = r};
  bool ran = ok && amd_program_run(&p, &r->code.memory, message);
  CHECK(ran || !ok, "%s: %s", r->code.where, message);
  return ran;
}

static void one_line(run *r, char *line, bool report) {
  static char text[1 << 16];
  char *claims = strchr(line, ':'), *path = strchr(line, ' '), *sizes = path ? strchr(path + 1, ' ') : NULL;
  CHECK(claims && path && path < claims, "'%s' has no target, or no ':'", line);
  if (!claims || !path || path > claims) return;
  *claims++ = 0, *path++ = 0;
  if (sizes && sizes < claims)
    *sizes++ = 0;
  else
    sizes = NULL;
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  r->code.text = text, r->code.where = path;
  r->code.size = r->size, r->code.sizes = claims_sizes(sizes ? sizes : "", r->size);
  bool open = kit_path_open(&r->code.path, line);
  CHECK(open, "no path for %s", line);
  if (!open) return;
  if (launch(r)) {
    char where[LINE + 64];
    snprintf(where, sizeof where, "%.900s for %.60s", path, line);
    claims_check(where, claims, report, figure, r);
  }
  tg_job_drop(&r->code.job);
  kit_path_close(&r->code.path);
}

int main(int argc, char **argv) {
  static run r;
  char line[LINE];
  bool report = argc > 1 && !strcmp(argv[1], "--report");
  const char *file = argc > 1 + report ? argv[1 + report] : "tests/amd/counts.txt";
  FILE *f = fopen(file, "r");
  CHECK(f, "%s cannot be read", file);
  while (f && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    if (*line && *line != '#') one_line(&r, line, report);
  }
  if (f) fclose(f);
  kit_memory_free(&r.code.memory);
  return TEST_END();
}
