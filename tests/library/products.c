/* SPDX-License-Identifier: MIT
 * Products of matrices on sm_80 by the first choice, from three lines without a word: the PTX multiplies by matrix instructions, loads their operands by ldmatrix and copies ahead by cp.async.
 * Where ptxas is installed, it takes the PTX for every GPU from sm_80 on without a spill, and two workgroups share a core's registers; where nvdisasm is too, the loop with the matrix instructions
 * has few others (tools/mix counts them). Results are compared elsewhere: tests/corpus has such products, which library_distribute interprets at every stage. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
#include "../folder.h"
#include "../test.h"
#include "kit.h"
#include "tg/tg.h"

enum { THREADS_REGISTERS = 32768 };

typedef struct { char *text, *summary; } shown;
typedef struct { const char *name, *a, *b, *read_a, *read_b; } form;
typedef struct { int m, n, k; double most; } size;
typedef struct { const char *ptxas, *folder; int unassembled, uncounted; bool counts; } run;

static void keep(void *user, const char *stage, const char *text) {
  shown *s = user;
  if (!strcmp(stage, "asm")) s->text = strdup(text);
  if (!strcmp(stage, "object")) s->summary = strdup(text);
}

static char *output_of(const char *command, int *status) {
  static char report[1 << 16];
  FILE *pipe = popen(command, "r");
  size_t n = pipe ? fread(report, 1, sizeof report - 1, pipe) : 0;
  report[n] = 0;
  *status = pipe ? pclose(pipe) : -1;
  return report;
}

/* The most registers that a thread of the main entry has, as ptxas reports them. */
static int registers_of(const char *report) {
  for (const char *at = strstr(report, "Compiling entry function '"); at; at = strstr(at + 1, "Compiling entry function '")) {
    const char *name = at + strlen("Compiling entry function '"), *used = strstr(at, "Used ");
    if (!memcmp(name, "product_0'", 10) && used) return atoi(used + 5);
  }
  return 0;
}

static void assemble(run *r, const char *what, const char *file, int threads) {
  static const char *const archs[] = {"sm_80", "sm_86", "sm_89", "sm_90"};
  char command[2048];
  for (size_t i = 0; i < TG_COUNT(archs); i++) {
    int status, kernels = 0;
    snprintf(command, sizeof command, "'%s' -arch=%s -v -o /dev/null '%s' 2>&1", r->ptxas, archs[i], file);
    const char *report = output_of(command, &status);
    CHECK(!status && kit_no_spills(report, &kernels) && kernels, "%s for %s: %s", what, archs[i], report);
    int registers = registers_of(report);
    CHECK(registers && registers * threads <= THREADS_REGISTERS, "%s for %s: %d threads of %d registers", what, archs[i], threads, registers);
  }
}

/* Of the loop with the matrix instructions. */
static void count(run *r, const char *what, const char *file, const size *s) {
  static const char *const slow[] = {" LDS.U16 ", " LDG.", " PRMT ", " CALL ", " LDL", " STL"};
  char command[2048], *line = NULL;
  int status;
  snprintf(command, sizeof command, "sh tools/mix '%s' 2>&1", file);
  char *report = output_of(command, &status);
  if (WEXITSTATUS(status) == 3) {   /* a tool is not installed */
    r->uncounted++;
    return;
  }
  CHECK(!status, "%s: %s", what, report);
  for (char *at = strtok(report, "\n"); at; at = strtok(NULL, "\n"))
    if (!strncmp(at, "product_0 loop", 14) && strstr(at, " each:")) line = at;
  CHECK(line, "%s: no loop has matrix instructions", what);
  if (!line) return;
  double each = atof(strstr(line, "matrix, ") + 8);
  CHECK(each > 1 && each <= s->most, "%s: %s", what, line);
  for (size_t i = 0; i < TG_COUNT(slow); i++) CHECK(!strstr(line, slow[i]), "%s: %s", what, line);
  CHECK(strstr(line, " BAR 1") && strstr(line, " LDGSTS.E.BYPASS.128 "), "%s: %s", what, line);
}

static void one(run *r, tg_context *c, const form *f, const char *type, const size *s) {
  char text[512], what[128], file[512];
  shown seen = {NULL, NULL};
  tg_compile_options o = {.flags = 0};
  snprintf(what, sizeof what, "%s %s %d x %d x %d", f->name, type, s->m, s->n, s->k);
  snprintf(text, sizeof text, "kernel product(M = %d, N = %d, K = %d) { in(A, %s, [%s]); in(B, %s, [%s]); out(C, %s, [M, N]);"
           "range(i, M) range(j, N) C[i,j] = %s(sum(k : K, f32(A[%s]) * f32(B[%s]))); }",
           s->m, s->n, s->k, type, f->a, type, f->b, type, type, f->read_a, f->read_b);
  CHECK(tg_show_text(c, "product.tg", text, &o, "asm", keep, &seen) == TG_OK && seen.text, "%s: %s", what, tg_error_message(c));
  CHECK(tg_show_text(c, "product.tg", text, &o, "object", keep, &seen) == TG_OK && seen.summary, "%s: %s", what, tg_error_message(c));
  if (seen.text && seen.summary) {
    const char *other = strstr(seen.text, ".entry product_0_unaligned"), *groups = strstr(seen.summary, "groups of ");
    static const char *const parts[] = {"mma.sync.", "ldmatrix.sync.aligned.m8n8.x4", "cp.async.cg.shared.global", "cp.async.wait_group \t2"};
    for (size_t i = 0; i < TG_COUNT(parts); i++) {
      const char *at = strstr(seen.text, parts[i]);
      CHECK(at && (!other || at < other), "%s: no %s", what, parts[i]);
    }
    snprintf(file, sizeof file, "%s/product.ptx", r->folder);
    FILE *out = fopen(file, "w");
    bool written = out && fputs(seen.text, out) >= 0;
    if (out) written &= !fclose(out);
    CHECK(written && groups, "%s: %s cannot be written", what, file);
    if (r->ptxas) assemble(r, what, file, groups ? atoi(groups + 10) : 0);
    else r->unassembled++;
    if (r->ptxas) count(r, what, file, s);
  }
  free(seen.text);
  free(seen.summary);
}

int main(void) {
  static const form forms[] = {{"NT", "M, K", "N, K", "i,k", "j,k"},
                               {"NN", "M, K", "K, N", "i,k", "k,j"},
                               {"TN", "K, M", "K, N", "k,i", "k,j"},
                               {"TT", "K, M", "N, K", "k,i", "j,k"}};
  static const size sizes[] = {{4096, 4096, 4096, 2.3}, {1000, 4104, 2056, 3.6}};
  static char ptxas[512];
  char folder[TEST_PATH] = "tg-products-XXXXXX";
  tg_context *c = NULL;
  run r = {.ptxas = kit_find_ptxas(ptxas, sizeof ptxas), .folder = test_folder(folder)};
  CHECK(tg_context_create(&(tg_context_options){.target = "sm_80"}, &c) == TG_OK, "no context for sm_80");
  for (size_t i = 0; i < TG_COUNT(forms) && c; i++)
    for (size_t k = 0; k < TG_COUNT(sizes); k++) {
      one(&r, c, &forms[i], "f16", &sizes[k]);
      if (!k) one(&r, c, &forms[i], "bf16", &sizes[k]);
    }
  tg_context_free(c);
  kit_remove(folder);
  if (r.unassembled) printf("%d products not assembled: ptxas is not installed\n", r.unassembled);
  if (r.uncounted) printf("%d products not counted: nvdisasm is not installed\n", r.uncounted);
  return TEST_END();
}
