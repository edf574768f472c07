/* SPDX-License-Identifier: MIT
 * ELF objects for AMD's processors: all that is to be loaded, in one image, its relocations, and the kernels' descriptors
 * (LLVM's "User Guide for AMDGPU Backend", "Relocation Records", "Kernel Descriptor"). */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "amd.h"

typedef struct { amd_object *o; const uint8_t *elf; size_t bytes; const Elf64_Shdr *section; uint32_t sections; uint64_t *at; } loader;

static bool fail(const loader *l, const char *what) { return snprintf(l->o->message, AMD_MESSAGE, "object: %s", what), false; }
static bool within(const loader *l, uint64_t offset, uint64_t bytes) { return offset <= l->bytes && bytes <= l->bytes - offset; }
static bool loaded(const Elf64_Shdr *s) { return s->sh_flags & SHF_ALLOC && s->sh_type != SHT_NOTE; }

static bool open_sections(loader *l) {
  const Elf64_Ehdr *h = (const void *)l->elf;
  if (!within(l, 0, sizeof *h) || memcmp(h->e_ident, ELFMAG, 4) || h->e_machine != EM_AMDGPU || h->e_type != ET_REL) return fail(l, "no relocatable object for AMD's processors");
  if (h->e_shoff % 8 || !within(l, h->e_shoff, (uint64_t)h->e_shnum * sizeof *l->section)) return fail(l, "sections outside");
  l->section = (const void *)(l->elf + h->e_shoff), l->sections = h->e_shnum;
  for (uint32_t k = 0; k < l->sections; k++)
    if (l->section[k].sh_type != SHT_NOBITS && !within(l, l->section[k].sh_offset, l->section[k].sh_size)) return fail(l, "a section outside");
  return true;
}

static bool place(loader *l) {
  uint64_t end = 0;
  l->at = calloc(l->sections + 1, sizeof *l->at);
  for (uint32_t k = 0; k < l->sections; k++) {
    if (!loaded(&l->section[k])) continue;
    uint64_t align = l->section[k].sh_addralign < 256 ? 256 : l->section[k].sh_addralign;
    end = (end + align - 1) / align * align, l->at[k] = end, end += l->section[k].sh_size;
  }
  l->o->bytes = end, l->o->image = calloc(1, end + 16);
  for (uint32_t k = 0; k < l->sections; k++)
    if (loaded(&l->section[k]) && l->section[k].sh_type != SHT_NOBITS) memcpy(l->o->image + l->at[k], l->elf + l->section[k].sh_offset, l->section[k].sh_size);
  return true;
}

static bool relocate(loader *l, const Elf64_Shdr *r) {
  const Elf64_Rela *rela = (const void *)(l->elf + r->sh_offset);
  const Elf64_Shdr *t = &l->section[r->sh_info], *table = &l->section[r->sh_link];
  if (!loaded(t)) return true;
  for (uint64_t k = 0; k < r->sh_size / sizeof *rela; k++) {
    uint32_t n = (uint32_t)ELF64_R_SYM(rela[k].r_info), type = (uint32_t)ELF64_R_TYPE(rela[k].r_info);
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(l->elf + table->sh_offset) + n;
    if (n >= table->sh_size / sizeof *s || s->st_shndx >= l->sections || rela[k].r_offset + 8 > t->sh_size + 4) return fail(l, "a relocation of what it does not define");
    uint64_t place = l->at[r->sh_info] + rela[k].r_offset, v = l->o->base + l->at[s->st_shndx] + s->st_value + (uint64_t)rela[k].r_addend, relative = v - l->o->base - place;
    switch (type) {
    case 1: case 6: memcpy(l->o->image + place, &v, 4); break;          /* ABS32_LO, ABS32 */
    case 2: v >>= 32, memcpy(l->o->image + place, &v, 4); break;        /* ABS32_HI */
    case 3: memcpy(l->o->image + place, &v, 8); break;                  /* ABS64 */
    case 4: case 10: memcpy(l->o->image + place, &relative, 4); break;  /* REL32, REL32_LO */
    case 5: memcpy(l->o->image + place, &relative, 8); break;           /* REL64 */
    case 11: relative >>= 32, memcpy(l->o->image + place, &relative, 4); break;
    default: return snprintf(l->o->message, AMD_MESSAGE, "object: relocation of kind %u", type), false;
    }
  }
  return true;
}

static bool descriptors(loader *l, const Elf64_Shdr *table) {
  const Elf64_Sym *s = (const void *)(l->elf + table->sh_offset);
  const char *names = (const char *)l->elf + l->section[table->sh_link].sh_offset;
  for (uint64_t k = 0; k < table->sh_size / sizeof *s; k++) {
    const char *name = names + s[k].st_name;
    size_t n = strlen(name);
    if (n < 4 || n > 90 || strcmp(name + n - 3, ".kd") || s[k].st_shndx >= l->sections) continue;
    if (l->o->kernels == 64) return fail(l, "over 64 kernels");
    amd_kernel *d = &l->o->kernel[l->o->kernels++];
    uint64_t at = l->at[s[k].st_shndx] + s[k].st_value, entry;
    const uint8_t *p = l->o->image + at;
    if (at + 64 > l->o->bytes) return fail(l, "a descriptor outside");
    snprintf(d->name, sizeof d->name, "%.*s", (int)(n - 3), name);
    memcpy(&d->local, p, 4), memcpy(&d->scratch, p + 4, 4), memcpy(&d->arguments, p + 8, 4), memcpy(&entry, p + 16, 8);
    memcpy(&d->rsrc3, p + 44, 4), memcpy(&d->rsrc1, p + 48, 4), memcpy(&d->rsrc2, p + 52, 4), memcpy(&d->properties, p + 56, 2);
    d->entry = l->o->base + at + entry;
  }
  return true;
}

bool amd_object_load(amd_object *o, const void *elf, size_t bytes, uint64_t base) {
  loader l = {.o = o, .elf = elf, .bytes = bytes};
  memset(o, 0, sizeof *o);
  o->base = base;
  bool ok = open_sections(&l) && place(&l);
  for (uint32_t k = 0; ok && k < l.sections; k++)
    if (l.section[k].sh_type == SHT_RELA) ok = relocate(&l, &l.section[k]);
  for (uint32_t k = 0; ok && k < l.sections; k++)
    if (l.section[k].sh_type == SHT_SYMTAB) ok = descriptors(&l, &l.section[k]);
  free(l.at);
  return ok;
}

void amd_object_free(amd_object *o) {
  free(o->image);
  o->image = NULL;
}

const amd_kernel *amd_object_find(const amd_object *o, const char *name) {
  for (uint32_t k = 0; k < o->kernels; k++)
    if (!strcmp(o->kernel[k].name, name)) return &o->kernel[k];
  return NULL;
}
