/* SPDX-License-Identifier: MIT
 * tg pack: folders of compiled kernels and of tuned choices as one file. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "code/cache.h"
#include "store/store.h"
#include "tool.h"

static const char usage[] =
    "tg pack FOLDER [--tuned DIR] -o FILE\n"
    "\n"
    "Puts the compiled kernels of a folder (tg_context_options.cache, tg run --cache) and, with --tuned, the choices "
    "of another into one file. A program\n"
    "maps it and gives it to tg_context_options.pack: no folder, and with libtg alone no LLVM. Damaged files are left "
    "out, and told. Kernels are for the\n"
    "target, the processor and the build of tg that compiled them; a pack may hold those of many.\n";

typedef struct {
  tg_env env;
  const char *folder[2], *path;
  uint32_t kernels, choices, damaged;
  size_t bytes;
  TG_VEC(tg_pack_file) files;
} packing;

static bool ends_in(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n > k && !strcmp(name + n - k, end);
}

static void take(packing *p, const char *folder, const char *name) {
  size_t bytes;
  bool kernel = ends_in(name, ".tgo");
  tg_tuned t;
  if (!kernel && !ends_in(name, ".tgt")) return;
  const char *data = tg_read_private(&p->env, folder, name, !kernel, &bytes);
  if (!data || !(kernel ? tg_cache_file_valid(&p->env, name, data, bytes) : tg_store_parse(&p->env, data, bytes, &t))) {
    fprintf(stderr, "tg pack: %s/%s is damaged, or others can write to it: left out\n", folder, name);
    p->damaged++;
    return;
  }
  if (kernel) p->kernels++;
  else p->choices++;
  tg_push(&p->env, &p->files, ((tg_pack_file){tg_strdup(&p->env, name), data, bytes}));
}

static void collect(packing *p, const char *folder) {
  struct dirent **names;
  int n = scandir(folder, &names, NULL, alphasort);
  if (n < 0) tg_fail(&p->env, TG_EIO, "%s: %s", folder, strerror(errno));
  for (int i = 0; i < n; i++) {
    take(p, folder, names[i]->d_name);
    free(names[i]);
  }
  free(names);
}

static void pack(void *arg) {
  packing *p = arg;
  for (int i = 0; i < 2; i++)
    if (p->folder[i]) collect(p, p->folder[i]);
  const char *data = tg_pack_made(&p->env, p->files.data, p->files.n, &p->bytes);
  const char *slash = strrchr(p->path, '/');
  const char *folder = slash ? tg_strndup(&p->env, p->path, (size_t)(slash - p->path) + (slash == p->path)) : ".";
  const char *aside = tg_format(&p->env, "%s/.%s.new", folder, slash ? slash + 1 : p->path);
  FILE *f = fopen(aside, "wb");
  bool good = f && fwrite(data, 1, p->bytes, f) == p->bytes;
  if (f) good = !fclose(f) && good;
  if (!good || rename(aside, p->path)) {
    int why = errno;
    remove(aside);
    tg_fail(&p->env, TG_EIO, "%s: %s", p->path, strerror(why));
  }
}

int cmd_pack(int argc, char **argv) {
  tool_args a;
  if (!tool_parse(argc, argv, &a, usage)) return TOOL_USAGE;
  if (a.help) return fputs(usage, stdout), TOOL_OK;
  if (!a.file) return tool_missing("tg pack", "a folder of compiled kernels");
  if (!a.object) return tool_missing("tg pack", "where the pack goes (-o FILE)");
  packing p = {.folder = {a.file, a.tuned}, .path = a.object};
  tg_env_init(&p.env, NULL);
  bool ok = tg_protect(&p.env, pack, &p);
  if (ok) printf("%s: %u kernels, %u choices, %zu bytes\n", a.object, p.kernels, p.choices, p.bytes);
  else fprintf(stderr, "tg pack: %s\n", p.env.message);
  tg_env_drop(&p.env);
  return ok ? TOOL_OK : TOOL_WRONG;
}
