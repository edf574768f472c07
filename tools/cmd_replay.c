/* SPDX-License-Identifier: MIT
 * tg replay: the code of a corpus against hashes that are checked in, so that a refactor shows no difference and a
 * change of code is declared. A line: program, kernel, target, hash of the linear form, LLVM's version and hash of the object. The
 * object is compared where this LLVM made the line. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "path.h"
#include "tool.h"

static const char usage[] =
  "tg replay CORPUS [--update] [--json]\n"
  "\n"
  "CORPUS is a file of lines: PROGRAM.tg TARGET LINEAR-HASH LLVM-VERSION OBJECT-HASH (paths from its own folder). Each\n"
  "program is compiled with its own parameters and the heuristic's schedule; differences are listed. --update writes the new hashes.\n";

typedef struct { tool_path *p; uint64_t linear; tg_hash128 object; } replay;

static void compile(void *user) {
  replay *r = user;
  tg_job *j = &r->p->job;
  tg_str text = tg_str_new(&j->env);
  tg_print(j, &text, j->sink);
  r->linear = tg_hash(text.data, text.n, 0);
  tg_code_info info;
  tg_object o = tg_jit_compile(r->p->jit, j, j->sink, &info, NULL, NULL);
  r->object = tg_hash_wide(o.data, o.bytes);
}

static bool replay_one(const char *file, const char *target, replay *out) {
  static tool_path p;
  char *text = tool_read(file, NULL);
  if (!text) return fprintf(stderr, "tg: %s: %s\n", file, strerror(errno)), false;
  bool ok = path_open(&p, target);
  if (ok) {
    tool_source s = {.file = file, .text = text};
    out->p = &p;
    ok = path_lower(&p, &s) && tg_protect(&p.job.env, compile, out);
    if (!ok) fprintf(stderr, "%s\n", p.job.env.message);
    tg_job_drop(&p.job);
    path_close(&p);
  }
  free(text);
  return ok;
}

int cmd_replay(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help || !a.file) {
    fputs(usage, a.help ? stdout : stderr);
    return a.help ? TOOL_OK : TOOL_USAGE;
  }
  char *corpus = tool_read(a.file, NULL), *save = NULL, *out = NULL;
  if (!corpus) return fprintf(stderr, "tg: %s: %s\n", a.file, strerror(errno)), TOOL_WRONG;
  size_t out_n = 0, folder = strrchr(a.file, '/') ? (size_t)(strrchr(a.file, '/') - a.file) + 1 : 0;
  FILE *now = open_memstream(&out, &out_n);
  int same = 0, changed = 0, broken = 0;
  for (char *line = strtok_r(corpus, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char program[512], target[64], linear[32] = "", version[32] = "", object[64] = "", path[1024], got_linear[32], got_object[64];
    if (line[0] == '#' || sscanf(line, "%511s %63s %31s %31s %63s", program, target, linear, version, object) < 2) {
      fprintf(now, "%s\n", line);
      continue;
    }
    snprintf(path, sizeof path, "%.*s%s", (int)folder, a.file, program);
    replay r = {0};
    if (!replay_one(path, target, &r)) {
      broken++;
      fprintf(now, "%s\n", line);
      continue;
    }
    snprintf(got_linear, sizeof got_linear, "%016llx", (unsigned long long)r.linear);
    snprintf(got_object, sizeof got_object, "%016llx%016llx", (unsigned long long)r.object.hi, (unsigned long long)r.object.lo);
    bool equal = !strcmp(linear, got_linear) && (strcmp(version, tg_llvm_version()) || !strcmp(object, got_object));
    if (!equal) printf(a.json ? "{\"bench\":\"replay\",\"case\":\"%s\",\"metric\":\"%s differs\",\"value\":1,\"unit\":\"programs\"}\n" : "%s: %s differs\n", program,
                       strcmp(linear, got_linear) ? "linear form" : "object");
    same += equal, changed += !equal;
    fprintf(now, "%s %s %s %s %s\n", program, target, got_linear, tg_llvm_version(), got_object);
  }
  fclose(now);
  int result = broken ? TOOL_BROKEN : changed && !a.update ? TOOL_WRONG : TOOL_OK;
  if (a.update) {
    FILE *f = fopen(a.file, "wb");
    if (!f || fwrite(out, 1, out_n, f) != out_n || fclose(f)) {
      fprintf(stderr, "tg: %s: %s\n", a.file, strerror(errno));
      result = TOOL_BROKEN;
    }
  }
  if (!a.json) printf("%d the same, %d changed, %d do not compile%s\n", same, changed, broken, a.update ? "; hashes written" : "");
  free(corpus), free(out);
  return result;
}
