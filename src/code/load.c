/* SPDX-License-Identifier: MIT
 * Loads object code into memory where it can be called. Fresh objects go through a given linker (the compiler's),
 * objects from a cache through tg's own small loader. A kernel is a few functions and their constants; loading one
 * takes microseconds and needs no LLVM. Pages are first writable, then executable, never both. The result has the same
 * type (tg_code) in both cases. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "code/object.h"

#if defined(__aarch64__)
enum { HOST = EM_AARCH64 };
#else
enum { HOST = EM_X86_64 };
#endif

struct tg_code {
  tg_allocator allocator;
  tg_linker linker;            /* set if linked is */
  void *linked;                /* what the linker made; NULL: tg's loader placed the code in memory */
  char *memory;
  size_t mapped;
  uint32_t phases, loops, buffers;
  void *debug;
  const int64_t *steps;        /* as in tg_code_info.launch, stored behind phase[]; NULL: no loops of phases */
  uint64_t steps_n;
  struct { tg_phase_fn *entry, *unaligned; tg_tasks_fn *tasks; } phase[];   /* then the loops, whose tasks are turns */
};

/* Sets the offset of each section in the loaded memory; UINT64_MAX: it is not loaded. Returns the total size; 0: this
 * is not an object of tg. */
static uint64_t lay_out(const tg_object_view *o, uint64_t *place) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    place[i] = UINT64_MAX;
    if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size) continue;
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    if ((s->sh_flags & SHF_WRITE) || s->sh_type == SHT_NOBITS || align > 4096 || (align & (align - 1))) return 0;
    place[i] = at = (at + align - 1) & -align;
    at += s->sh_size;
  }
  return at;
}

static bool patch_x86(uint32_t type, char *at, int64_t value) {
  int64_t distance = (int64_t)((uint64_t)value - (uint64_t)(uintptr_t)at);
  int32_t near = (int32_t)distance;
  switch (type) {
  case R_X86_64_64: memcpy(at, &value, 8); return true;
  case R_X86_64_PC64: memcpy(at, &distance, 8); return true;
  case R_X86_64_PC32: case R_X86_64_PLT32: memcpy(at, &near, 4); return near == distance;
  default: return false;
  }
}

/* Patches immediates of AArch64 instructions: adrp takes 21 bits of a page number, add and ldr take the 12-bit offset
 * in the page (ldr in units of the size it loads). */
static bool patch_aarch64(uint32_t type, char *at, int64_t value) {
  uint64_t to = (uint64_t)value, here = (uint64_t)(uintptr_t)at;
  int64_t distance = (int64_t)(to - here), pages = (int64_t)((to >> 12) - (here >> 12));
  int32_t near = (int32_t)distance;
  uint32_t code, unit;
  memcpy(&code, at, 4);
  switch (type) {
  case R_AARCH64_ABS64: memcpy(at, &value, 8); return true;
  case R_AARCH64_PREL64: memcpy(at, &distance, 8); return true;
  case R_AARCH64_PREL32: memcpy(at, &near, 4); return near == distance;
  case R_AARCH64_ADR_PREL_PG_HI21:
    code = (code & 0x9f00001f) | ((uint32_t)pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7ffff) << 5;
    memcpy(at, &code, 4);
    return pages >= -(1 << 20) && pages < 1 << 20;
  case R_AARCH64_ADD_ABS_LO12_NC: case R_AARCH64_LDST8_ABS_LO12_NC: unit = 0; break;
  case R_AARCH64_LDST16_ABS_LO12_NC: unit = 1; break;
  case R_AARCH64_LDST32_ABS_LO12_NC: unit = 2; break;
  case R_AARCH64_LDST64_ABS_LO12_NC: unit = 3; break;
  case R_AARCH64_LDST128_ABS_LO12_NC: unit = 4; break;
  default: return false;
  }
  code = (code & 0xffc003ff) | ((uint32_t)(to & 0xfff) >> unit) << 10;
  memcpy(at, &code, 4);
  return !(to & (((uint64_t)1 << unit) - 1));
}

static bool is_wide(uint32_t type) {
  return HOST == EM_AARCH64 ? type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64
                            : type == R_X86_64_64 || type == R_X86_64_PC64;
}

static bool relocate(const tg_object_view *o, char *memory, const uint64_t *place, const Elf64_Shdr *s) {
  if (s->sh_info >= o->sections_n || s->sh_offset % 8) return false;
  if (place[s->sh_info] == UINT64_MAX) return true; /* debug information, which gdb relocates itself */
  const Elf64_Rela *r = (const Elf64_Rela *)(o->data + s->sh_offset);
  for (uint64_t i = 0; i < s->sh_size / sizeof *r; i++, r++) {
    uint64_t n = ELF64_R_SYM(r->r_info), room = o->sections[s->sh_info].sh_size;
    uint32_t type = ELF64_R_TYPE(r->r_info);
    unsigned width = is_wide(type) ? 8 : 4;
    if (n >= o->symbols_n || r->r_offset > room || width > room - r->r_offset) return false;
    const Elf64_Sym *y = &o->symbols[n];
    if (y->st_shndx >= o->sections_n || place[y->st_shndx] == UINT64_MAX) return false;
    char *at = memory + place[s->sh_info] + r->r_offset;
    int64_t value = (int64_t)((uint64_t)(uintptr_t)memory + place[y->st_shndx] + y->st_value + (uint64_t)r->r_addend);
    if (!(HOST == EM_AARCH64 ? patch_aarch64 : patch_x86)(type, at, value)) return false;
  }
  return true;
}

/* Entry points of an object have names of the form NAME.suffix. */
static bool is_function(const tg_object_view *o, uint32_t i) {
  return ELF64_ST_TYPE(o->symbols[i].st_info) == STT_FUNC;
}
static bool is_entry(const tg_object_view *o, uint32_t i, const char *name, size_t n) {
  const char *s = tg_object_symbol(o, i);
  return is_function(o, i) && !strncmp(s, name, n) && s[n] == '.';
}

/* A linker finds global symbols only. */
static bool is_linked(const tg_object_view *o, uint32_t i, const char *name, size_t n) {
  return ELF64_ST_BIND(o->symbols[i].st_info) == STB_GLOBAL && is_entry(o, i, name, n);
}

/* NAME.p, NAME.p.unaligned, NAME.p.tasks, NAME.l.turns. */
static void set_entry(tg_code *c, const char *symbol, size_t name_n, const void *at) {
  const char *s = symbol + name_n + 1;
  char *rest;
  unsigned long p = strtoul(s, &rest, 10);
  bool turns = !strcmp(rest, ".turns");
  if (rest == s || p >= (turns ? c->loops : c->phases)) return;
  if (turns) memcpy(&c->phase[c->phases + p].tasks, &at, sizeof at);
  else if (!*rest) memcpy(&c->phase[p].entry, &at, sizeof at);
  else if (!strcmp(rest, ".unaligned")) memcpy(&c->phase[p].unaligned, &at, sizeof at);
  else if (!strcmp(rest, ".tasks")) memcpy(&c->phase[p].tasks, &at, sizeof at);
}

static bool has_entries(const tg_code *c) {
  for (uint32_t p = 0; p < c->phases; p++)
    if (!c->phase[p].entry || !c->phase[p].tasks) return false;
  for (uint32_t l = 0; l < c->loops; l++)
    if (!c->phase[c->phases + l].tasks) return false;
  return true;
}

static bool find_entries(const tg_object_view *o, tg_code *c, const char *name, const uint64_t *place) {
  size_t n = strlen(name);
  for (uint32_t i = 1; i < o->symbols_n; i++) {
    const Elf64_Sym *y = &o->symbols[i];
    if (!is_entry(o, i, name, n)) continue;
    if (y->st_shndx >= o->sections_n || place[y->st_shndx] == UINT64_MAX ||
        y->st_value >= o->sections[y->st_shndx].sh_size)
      return false;
    set_entry(c, tg_object_symbol(o, i), n, c->memory + place[y->st_shndx] + y->st_value);
  }
  return has_entries(c);
}

static tg_status failed(tg_env *err, tg_status s, const char *what, const char *name) {
  if (err->status == TG_OK) {
    err->status = s;
    snprintf(err->message, sizeof err->message, "the code of kernel '%s' cannot be loaded: %s", name, what);
  }
  return s;
}

/* Is the list of steps valid? It must name phases and loops that exist, an inner loop must end within the outer one,
 * and the counters of loops must fit the shared memory. */
static bool steps_hold(const tg_code_info *info) {
  const int64_t *s = info->launch;
  uint64_t end[64], depth = 0;
  if (!info->loops) return !info->launch_n;
  for (uint64_t at = 0; at < info->launch_n;) {
    while (depth && end[depth - 1] == at) depth--;
    if (s[at] >= (int64_t)info->phases || s[at] < -(int64_t)info->loops) return false;
    if (s[at++] >= 0) continue;
    uint64_t limit = depth ? end[depth - 1] : info->launch_n;
    if (at >= limit || s[at] < 0 || (uint64_t)s[at] > limit - at - 1 || depth == TG_COUNT(end) ||
        info->shared < 8 * (depth + 1))
      return false;
    end[depth++] = at + 1 + (uint64_t)s[at];
    at++;
  }
  return true;
}

static bool place_code(const tg_object_view *o, tg_code *c, const char *name, const uint64_t *place) {
  for (uint32_t i = 0; i < o->sections_n; i++)
    if (place[i] != UINT64_MAX)
      memcpy(c->memory + place[i], o->data + o->sections[i].sh_offset, o->sections[i].sh_size);
  for (uint32_t i = 0; i < o->sections_n; i++)
    if (o->sections[i].sh_type == SHT_RELA && !relocate(o, c->memory, place, &o->sections[i])) return false;
#if defined(__aarch64__)
  __builtin___clear_cache(c->memory, c->memory + c->mapped);
#endif
  return find_entries(o, c, name, place);
}

static size_t head_bytes(size_t entries, uint64_t words) {
  return sizeof(tg_code) + entries * sizeof(((tg_code *)0)->phase[0]) + 8 * words;
}

enum { SECTIONS = 64 };
typedef struct {
  tg_object_view o;
  const char *name;
  uint64_t place[SECTIONS], size;   /* offset of each section in tg's memory; its bytes */
  uint64_t address[SECTIONS];       /* of each section; 0: not loaded, or unknown */
} placing;

static tg_status place_own(placing *w, tg_code *c, tg_env *err) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  c->mapped = (w->size + page - 1) / page * page;
  void *m = mmap(NULL, c->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return failed(err, TG_ENOMEM, strerror(errno), w->name);
  c->memory = m;
  if (!place_code(&w->o, c, w->name, w->place)) return failed(err, TG_EINVAL, "it is not an object of tg", w->name);
  if (mprotect(c->memory, c->mapped, PROT_READ | PROT_EXEC)) return failed(err, TG_EIO, strerror(errno), w->name);
  for (uint32_t i = 0; i < w->o.sections_n; i++)
    w->address[i] = w->place[i] == UINT64_MAX ? 0 : (uint64_t)(uintptr_t)c->memory + w->place[i];
  return TG_OK;
}

/* Asks for every entry by its name. A section is placed in one piece, so that an entry tells where its section is. */
static tg_status link_entries(placing *w, tg_code *c, const void **names, void **at, tg_env *err) {
  char message[512] = "";
  uint32_t n = 0;
  size_t name_n = strlen(w->name);
  for (uint32_t i = 1; i < w->o.symbols_n; i++)
    if (is_linked(&w->o, i, w->name, name_n)) names[n++] = tg_object_symbol(&w->o, i);
  tg_status s = c->linker.link(c->linker.user, w->o.data, w->o.bytes, (const char *const *)names, n, at, &c->linked,
                               message, sizeof message);
  if (s == TG_MISS) return s;
  if (s != TG_OK) return failed(err, s, message, w->name);
  n = 0;
  for (uint32_t i = 1; i < w->o.symbols_n; i++) {
    const Elf64_Sym *y = &w->o.symbols[i];
    if (!is_linked(&w->o, i, w->name, name_n)) continue;
    set_entry(c, tg_object_symbol(&w->o, i), name_n, at[n]);
    if (y->st_shndx < w->o.sections_n) w->address[y->st_shndx] = (uint64_t)(uintptr_t)at[n] - y->st_value;
    n++;
  }
  return has_entries(c) ? TG_OK : failed(err, TG_EINVAL, "it is not an object of tg", w->name);
}

static tg_status link_code(placing *w, tg_code *c, const tg_linker *linker, tg_env *err) {
  size_t n = 0, name_n = strlen(w->name);
  for (uint32_t i = 1; i < w->o.symbols_n; i++) n += is_linked(&w->o, i, w->name, name_n);
  size_t bytes = (n + 1) * (sizeof(const void *) + sizeof(void *));
  const void **names = c->allocator.alloc(c->allocator.user, bytes);
  if (!names) return failed(err, TG_ENOMEM, "out of memory", w->name);
  c->linker = *linker;
  tg_status s = link_entries(w, c, names, (void **)(names + n + 1), err);
  c->allocator.free(c->allocator.user, names, bytes);
  return s == TG_MISS ? place_own(w, c, err) : s;
}

/* Tells gdb and perf of the code. perf gets all functions, entries or not. */
static void tell(const placing *w, tg_code *c, uint32_t flags) {
  const tg_object_view *o = &w->o;
  if (flags & TG_JIT_DEBUG) c->debug = tg_debug_register(&c->allocator, o->data, o->bytes, w->address, o->sections_n);
  if (!(flags & TG_JIT_PERF_MAP)) return;
  for (uint32_t i = 1; i < o->symbols_n; i++) {
    const Elf64_Sym *y = &o->symbols[i];
    if (is_function(o, i) && y->st_shndx < o->sections_n && w->address[y->st_shndx])
      tg_debug_perf_map((const void *)(uintptr_t)(w->address[y->st_shndx] + y->st_value), y->st_size,
                        tg_object_symbol(o, i));
  }
}

tg_status tg_code_link(const tg_allocator *a, const tg_linker *linker, const void *object, size_t bytes,
                       const char *name, const tg_code_info *info, uint32_t flags, tg_code **out, tg_env *err) {
  placing w = {.name = name};
  *out = NULL;
  if ((uintptr_t)object % 8 || !tg_object_open(&w.o, object, bytes) || w.o.head->e_machine != HOST ||
      w.o.sections_n > SECTIONS || (!(w.size = lay_out(&w.o, w.place)) && info->phases) || info->phases > 1 << 16 ||
      info->loops > 1 << 16 || !steps_hold(info))
    return failed(err, TG_EINVAL, "it is not an object of tg", name);
  size_t head = head_bytes(info->phases + info->loops, info->launch_n);
  tg_code *c = a->alloc(a->user, head);
  if (!c) return failed(err, TG_ENOMEM, "out of memory", name);
  memset(c, 0, head);
  c->allocator = *a;
  c->phases = info->phases;
  c->loops = info->loops;
  c->buffers = info->buffers;
  if ((c->steps_n = info->launch_n))
    c->steps = memcpy(&c->phase[c->phases + c->loops], info->launch, 8 * info->launch_n);
  /* a kernel without phases, whose ranges are all empty, has no code */
  tg_status s = !w.size ? TG_OK : linker ? link_code(&w, c, linker, err) : place_own(&w, c, err);
  if (s != TG_OK) {
    tg_code_unload(c);
    return s;
  }
  tell(&w, c, flags);
  *out = c;
  return TG_OK;
}

tg_status tg_code_load(const tg_allocator *a, const void *object, size_t bytes, const char *name,
                       const tg_code_info *info, uint32_t flags, tg_code **out, tg_env *err) {
  return tg_code_link(a, NULL, object, bytes, name, info, flags, out, err);
}

tg_phase_fn *tg_code_entry(const tg_code *c, uint32_t phase, bool unaligned) {
  return unaligned && c->phase[phase].unaligned ? c->phase[phase].unaligned : c->phase[phase].entry;
}

int64_t tg_code_tasks(const tg_code *c, uint32_t phase, void *const *buffers, const int64_t *params) {
  return c->phase[phase].tasks(buffers, params);
}

typedef struct { const tg_code *c; void *const *buffers; const int64_t *params; tg_step_fn *fn; void *user; } walk;

static void take_steps(const walk *w, const int64_t *s, const int64_t *end, int64_t *counter) {
  while (s < end) {
    if (*s >= 0) {
      w->fn(w->user, (uint32_t)*s++);
      continue;
    }
    int64_t turns = w->c->phase[(int64_t)w->c->phases + ~*s].tasks(w->buffers, w->params);
    for (int64_t i = 0; i < turns; i++) {
      *counter = i;
      take_steps(w, s + 2, s + 2 + s[1], counter + 1);
    }
    s += 2 + s[1];
  }
}

void tg_code_walk(const tg_code *c, void *const *buffers, const int64_t *params, tg_step_fn *fn, void *user) {
  walk w = {c, buffers, params, fn, user};
  if (c->loops) take_steps(&w, c->steps, c->steps + c->steps_n, buffers[c->buffers]);
  else
    for (uint32_t p = 0; p < c->phases; p++) fn(user, p);
}

void tg_code_unload(tg_code *c) {
  if (!c) return;
  tg_allocator a = c->allocator;
  if (c->debug) tg_debug_unregister(&a, c->debug);
  if (c->linked) c->linker.unlink(c->linker.user, c->linked);
  if (c->memory) munmap(c->memory, c->mapped);
  a.free(a.user, c, head_bytes(c->phases + c->loops, c->steps_n));
}
