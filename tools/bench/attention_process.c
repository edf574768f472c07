/* SPDX-License-Identifier: MIT
 * Peers of tg bench attention that are packages of Python: each runs in a process of its own, tests/bench/attention/
 * peers.py, which says what is asked of it. A line out, a line back. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench/attention.h"
#include "bench/bench.h"

static const char driver[] = "tests/bench/attention/peers.py";

/* The answer is at *rest behind its first word. False: the process is gone, or says `none`, and why is in about. */
static bool ask(attention_peer *p, const char *line, const char *wanted, char *answer, size_t n) {
  if (line && p->to) fprintf(p->to, "%s\n", line), fflush(p->to);
  if (!p->from || !fgets(answer, (int)n, p->from))
    return snprintf(p->about, sizeof p->about, "its process ended"), p->here = false;
  answer[strcspn(answer, "\n")] = 0;
  size_t word = strlen(wanted);
  if (strncmp(answer, "none ", 5) && !strncmp(answer, wanted, word)) {
    memmove(answer, answer + word, strlen(answer + word) + 1);
    return true;
  }
  snprintf(p->about, sizeof p->about, "%.500s", !strncmp(answer, "none ", 5) ? answer + 5 : answer);
  return false;
}

static bool python_open(attention_peer *p, const attention_case *c) {
  const attention_shape *s = &c->of;
  char line[256], answer[1024], *rest = NULL;
  size_t out_bytes = c->results * sizeof *c->result, at = c->q_bytes + 2 * c->kv_bytes;
  p->of = c, p->entries = 0;
  p->memory_bytes = at + (c->d_o ? c->q_bytes : 0) + out_bytes;
  p->memory = ftruncate(p->shared, (off_t)p->memory_bytes)
                  ? MAP_FAILED
                  : mmap(NULL, p->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->shared, 0);
  if (p->memory == MAP_FAILED) return snprintf(p->about, sizeof p->about, "no shared memory"), p->memory = NULL, false;
  memcpy(p->memory, c->q, c->q_bytes);
  memcpy(p->memory + c->q_bytes, c->k, c->kv_bytes);
  memcpy(p->memory + c->q_bytes + c->kv_bytes, c->v, c->kv_bytes);
  if (c->d_o) memcpy(p->memory + at, c->d_o, c->q_bytes);
  snprintf(line, sizeof line, "open %d %d %d %lld %lld %d %d %s %d %d %d %zu", s->batch, s->heads, s->kv_heads,
           (long long)s->queries, (long long)s->keys, s->head, s->causal,
           s->type == TG_F32   ? "f32"
           : s->type == TG_F16 ? "f16"
                               : "bf16",
           c->threads, c->copies, c->d_o != NULL, p->memory_bytes);
  if (!ask(p, line, "entries", answer, sizeof answer)) return false;
  for (char *e = strtok_r(answer + strspn(answer, " "), "|", &rest); e && p->entries < ATTENTION_ENTRIES;
       e = strtok_r(NULL, "|", &rest))
    snprintf(p->entry[p->entries++], sizeof p->entry[0], "%.95s", e);
  return p->entries > 0;
}

static bool python_use(attention_peer *p, int entry) {
  char line[32], answer[1024];
  snprintf(line, sizeof line, "use %d", p->used = entry);
  return ask(p, line, "ok", answer, sizeof answer);
}

static double python_run(attention_peer *p, int repeat) {
  char line[32], answer[1024];
  snprintf(line, sizeof line, "run %d", repeat);
  return ask(p, line, "", answer, sizeof answer) && strspn(answer, "0123456789.e-+") ? strtod(answer, NULL) : -1;
}

static bool python_result(attention_peer *p) {
  char answer[1024];
  size_t o_bytes = p->of->results * sizeof *p->of->result;
  memset(p->memory + p->memory_bytes - o_bytes, 0xff, o_bytes);
  if (!ask(p, "result", "ok", answer, sizeof answer)) return false;
  memcpy(p->of->result, p->memory + p->memory_bytes - o_bytes, o_bytes);
  return true;
}

static void python_close(attention_peer *p) {
  char answer[1024];
  if (p->here) ask(p, "close", "ok", answer, sizeof answer);
  if (p->memory) munmap(p->memory, p->memory_bytes);
  p->memory = NULL;
}

/* In the child. */
static void become(const attention_peer *p, const char *python, int in, int out) {
  char descriptor[16];
  snprintf(descriptor, sizeof descriptor, "%d", p->shared);
  if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0) execlp(python, python, driver, p->name, descriptor, (char *)NULL);
  dprintf(1, "none %s cannot be started\n", python);
  _exit(1);
}

void attention_python(attention_peer *p, const char *file) {
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  char answer[1024];
  *p = (attention_peer){.name = p->name,
                        .gradients = !strcmp(p->name, "torch"),
                        .open = python_open,
                        .use = python_use,
                        .run = python_run,
                        .result = python_result,
                        .close = python_close};
  snprintf(p->about, sizeof p->about, "%s is not found: it lies in the source, where tg bench is to run", driver);
  if (access(driver, R_OK)) return;
  p->shared = memfd_create("tg-bench-attention", 0);
  if (p->shared < 0 || pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC) || (p->process = fork()) < 0) {
    snprintf(p->about, sizeof p->about, "no process");
    return;
  }
  if (!p->process) become(p, file ? file : "python3", to[0], from[1]);
  close(to[0]), close(from[1]);
  p->to = fdopen(to[1], "w"), p->from = fdopen(from[0], "r");
  p->here = p->to && p->from;
  if (!p->here || !ask(p, NULL, "ready", answer, sizeof answer)) {
    p->here = false;
    return;
  }
  snprintf(p->about, sizeof p->about, "%.500s", answer + strspn(answer, " "));
}
