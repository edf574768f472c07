/* SPDX-License-Identifier: MIT
 * Machine code of NVIDIA's GPUs, which only NVIDIA's own programs make and print: PTX through ptxas, and its result
 * through nvdisasm or cuobjdump. They are of the CUDA toolkit, or of the packages nvidia-cuda-nvcc and
 * nvidia-cuda-nvdisasm for Python; tg needs neither to compile for these GPUs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tool.h"

extern char **environ;

/* The program's path: that of the environment's variable, on PATH, or where CUDA's toolkit puts it. */
static bool find(const char *name, const char *variable, char path[4096]) {
  static const char *const places[] = {"/usr/local/cuda/bin", "/opt/cuda/bin"};
  const char *said = getenv(variable), *all = getenv("PATH");
  if (said && *said) return snprintf(path, 4096, "%s", said) < 4096 && !access(path, X_OK);
  for (const char *at = all ? all : ""; *at; at += strcspn(at, ":"), at += *at == ':') {
    int n = snprintf(path, 4096, "%.*s/%s", (int)strcspn(at, ":"), at, name);
    if (n > 0 && n < 4096 && !access(path, X_OK)) return true;
  }
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    snprintf(path, 4096, "%s/%s", places[i], name);
    if (!access(path, X_OK)) return true;
  }
  return false;
}

/* Runs it with its output into the file. */
static bool run(char *const *args, const char *output) {
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status = 0;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  int failed = posix_spawn(&child, args[0], &actions, NULL, args, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    fprintf(stderr, "tg show: %s: %s\n", args[0], strerror(failed));
    return false;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void print(const char *path, FILE *to) {
  size_t n;
  char *text = tool_read(path, &n);
  if (text) fwrite(text, 1, n, to);
  free(text);
}

typedef struct { char ptxas[4096], printer[4096]; bool whole; } programs;   /* whole: the printer is cuobjdump */

static bool find_programs(programs *p) {
  bool assembler = find("ptxas", "TG_PTXAS", p->ptxas), printer = find("nvdisasm", "TG_NVDISASM", p->printer);
  p->whole = !printer;
  if (!printer) printer = find("cuobjdump", "TG_CUOBJDUMP", p->printer);
  if (assembler && printer) return true;
  fprintf(stderr,
          "tg show: --stage sass needs %s: of the CUDA toolkit, or of Python's packages nvidia-cuda-nvcc and "
          "nvidia-cuda-nvdisasm; looked for on PATH and in /usr/local/cuda/bin, and TG_PTXAS and TG_NVDISASM name "
          "them. --stage asm is the PTX\n",
          !assembler && !printer ? "ptxas, and nvdisasm or cuobjdump"
          : !assembler           ? "ptxas"
                                 : "nvdisasm or cuobjdump");
  return false;
}

static bool translate(const programs *p, const char *target, const char *folder) {
  char ptx[512], code[512], text[512], arch[64];
  snprintf(ptx, sizeof ptx, "%s/kernel.ptx", folder);
  snprintf(code, sizeof code, "%s/kernel.cubin", folder);
  snprintf(text, sizeof text, "%s/kernel.sass", folder);
  snprintf(arch, sizeof arch, "-arch=%s", target);
  char *assemble[] = {(char *)(uintptr_t)p->ptxas, arch, (char[]){"-o"}, code, ptx, NULL};
  char *show[] = {(char *)(uintptr_t)p->printer, p->whole ? (char[]){"-sass"} : (char[]){"-c"}, code, NULL};
  bool made = run(assemble, text), shown = made && run(show, text);
  if (!shown) fprintf(stderr, "tg show: %s failed:\n", made ? p->printer : p->ptxas);
  print(text, shown ? stdout : stderr);
  unlink(code);
  unlink(text);
  return shown;
}

int tool_sass(const char *target, const char *ptx) {
  programs p;
  char folder[400], path[512];
  const char *base = getenv("TMPDIR");
  if (!find_programs(&p)) return TOOL_BROKEN;
  snprintf(folder, sizeof folder, "%.300s/tg-sass-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(folder)) {
    fprintf(stderr, "tg show: no folder %s: %s\n", folder, strerror(errno));
    return TOOL_BROKEN;
  }
  snprintf(path, sizeof path, "%s/kernel.ptx", folder);
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(ptx, 1, strlen(ptx), f) == strlen(ptx);
  if (f) ok = !fclose(f) && ok;
  if (!ok) fprintf(stderr, "tg show: %s cannot be written: %s\n", path, strerror(errno));
  ok = ok && translate(&p, target, folder);
  unlink(path);
  rmdir(folder);
  return ok ? TOOL_OK : TOOL_BROKEN;
}
