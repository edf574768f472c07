/* SPDX-License-Identifier: MIT
 * Makes loaded code visible to gdb (its list of objects) and perf (its map). Line tables: jit/emit_debug.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "code/object.h"

/* ---- gdb's interface: one list for the whole process. LLVM defines it, and so may the program; tg looks it up by name
 * and has none of its own. If there is none, as without LLVM, nothing is registered. ---- */

typedef struct gdb_entry { struct gdb_entry *next, *prev; const char *file; uint64_t bytes; } gdb_entry;
typedef struct { uint32_t version, action; gdb_entry *relevant, *first; } gdb_descriptor;
typedef struct { gdb_entry entry; size_t total; char object[]; } gdb_record;

static pthread_mutex_t gdb_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */

static void gdb_tell(gdb_descriptor *d, uint32_t action, gdb_entry *entry) {
  void (*call)(void);
  void *at = dlsym(RTLD_DEFAULT, "__jit_debug_register_code");
  d->action = action;
  d->relevant = entry;
  memcpy(&call, &at, sizeof call);
  if (at) call();
}

void *tg_debug_register(const tg_allocator *a, const void *object, size_t bytes, const uint64_t *section_address,
                        uint32_t sections) {
  gdb_descriptor *d = dlsym(RTLD_DEFAULT, "__jit_debug_descriptor");
  gdb_record *r = d ? a->alloc(a->user, sizeof *r + bytes) : NULL;
  if (!r) return NULL;
  r->total = sizeof *r + bytes;
  memcpy(r->object, object, bytes);
  Elf64_Shdr *s = (Elf64_Shdr *)(r->object + ((Elf64_Ehdr *)r->object)->e_shoff);
  for (uint32_t i = 0; i < sections; i++) s[i].sh_addr = section_address[i];
  r->entry = (gdb_entry){.file = r->object, .bytes = bytes};
  pthread_mutex_lock(&gdb_lock);
  r->entry.next = d->first;
  if (d->first) d->first->prev = &r->entry;
  d->first = &r->entry;
  gdb_tell(d, 1, &r->entry);
  pthread_mutex_unlock(&gdb_lock);
  return r;
}

void tg_debug_unregister(const tg_allocator *a, void *record) {
  gdb_record *r = record;
  gdb_descriptor *d = dlsym(RTLD_DEFAULT, "__jit_debug_descriptor");
  pthread_mutex_lock(&gdb_lock);
  if (r->entry.prev) r->entry.prev->next = r->entry.next;
  else d->first = r->entry.next;
  if (r->entry.next) r->entry.next->prev = r->entry.prev;
  gdb_tell(d, 2, &r->entry);
  pthread_mutex_unlock(&gdb_lock);
  a->free(a->user, r, r->total);
}

/* ---- perf ---- */

/* Everybody may create files in /tmp, so the map is written only if it is a regular file of this user. O_NONBLOCK: if
 * it is a pipe, opening it must not wait. */
void tg_debug_perf_map(const void *code, size_t bytes, const char *name) {
  char path[64], line[512];
  snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
  int n = snprintf(line, sizeof line, "%lx %zx %s\n", (unsigned long)(uintptr_t)code, bytes, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
  struct stat s;
  if (fd < 0) return;
  bool own = !fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_nlink == 1 && tg_is_private(fd, false, NULL);
  /* half a line would mislead perf */
  if (own && n > 0 && (size_t)n < sizeof line && tg_write_all(fd, line, (size_t)n)) unlink(path);
  close(fd);
}
