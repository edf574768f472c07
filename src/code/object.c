/* SPDX-License-Identifier: MIT
 * Reader of objects: 64-bit, little-endian, relocatable ELF, as LLVM writes it for all targets but NVPTX. No field is
 * trusted. */
#include <elf.h>
#include "code/object.h"

static bool within(const tg_object_view *o, uint64_t offset, uint64_t bytes) {
  return offset <= o->bytes && bytes <= o->bytes - offset;
}

bool tg_object_open(tg_object_view *o, const void *data, size_t bytes) {
  *o = (tg_object_view){.data = data, .bytes = bytes, .head = data};
  const Elf64_Ehdr *h = o->head;
  if ((uintptr_t)data % 8 || bytes < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) ||
      h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_type != ET_REL || h->e_shentsize != sizeof *o->sections ||
      h->e_shoff % 8 || !within(o, h->e_shoff, (uint64_t)h->e_shnum * sizeof *o->sections))
    return false;
  o->sections = (const Elf64_Shdr *)(o->data + h->e_shoff);
  o->sections_n = h->e_shnum;
  for (uint32_t i = 0; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (s->sh_type != SHT_NOBITS && !within(o, s->sh_offset, s->sh_size)) return false;
    if (s->sh_type == SHT_SYMTAB) o->symtab = s;
  }
  if (!o->symtab || o->symtab->sh_link >= o->sections_n || o->symtab->sh_offset % 8) return false;
  o->strtab = &o->sections[o->symtab->sh_link];
  if (o->strtab->sh_type != SHT_STRTAB || !o->strtab->sh_size || o->data[o->strtab->sh_offset + o->strtab->sh_size - 1])
    return false;
  o->symbols = (const Elf64_Sym *)(o->data + o->symtab->sh_offset);
  o->symbols_n = (uint32_t)(o->symtab->sh_size / sizeof *o->symbols);
  for (uint32_t i = 0; i < o->symbols_n; i++)
    if (o->symbols[i].st_name >= o->strtab->sh_size) return false;
  return true;
}

const char *tg_object_symbol(const tg_object_view *o, uint32_t i) {
  return o->data + o->strtab->sh_offset + o->symbols[i].st_name;
}

const char *tg_object_undefined(const void *object, size_t bytes) {
  tg_object_view o;
  if (!tg_object_open(&o, object, bytes)) return "(malformed object)";
  for (uint32_t i = 1; i < o.symbols_n; i++)
    if (o.symbols[i].st_shndx == SHN_UNDEF && ELF64_ST_TYPE(o.symbols[i].st_info) != STT_FILE)
      return tg_object_symbol(&o, i);
  return NULL;
}

/* ---- AMD ---- */

static const char *bytes_of(const tg_object_view *o, uint32_t symbol, uint64_t bytes) {
  const Elf64_Sym *y = &o->symbols[symbol];
  if (y->st_shndx >= o->sections_n) return NULL;
  const Elf64_Shdr *s = &o->sections[y->st_shndx];
  return s->sh_type != SHT_NOBITS && y->st_value <= s->sh_size && bytes <= s->sh_size - y->st_value
             ? o->data + s->sh_offset + y->st_value
             : NULL;
}

/* Does a relocation of this type fill the field at offset `field` from the symbol, and point it to symbol `to`? */
static bool points_to(const tg_object_view *o, uint32_t symbol, uint64_t field, uint32_t type, uint32_t to) {
  for (uint32_t i = 0; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (s->sh_type != SHT_RELA || s->sh_info != o->symbols[symbol].st_shndx || s->sh_offset % 8) continue;
    const Elf64_Rela *r = (const Elf64_Rela *)(o->data + s->sh_offset);
    for (uint64_t k = 0; k < s->sh_size / sizeof *r; k++)
      if (r[k].r_offset == o->symbols[symbol].st_value + field) {
        uint64_t n = ELF64_R_SYM(r[k].r_info);
        if (ELF64_R_TYPE(r[k].r_info) != type || n >= o->symbols_n || o->symbols[n].st_shndx != o->symbols[to].st_shndx)
          return false;
        return o->symbols[n].st_value + (uint64_t)r[k].r_addend == o->symbols[to].st_value + field;
      }
  }
  return false;
}

bool tg_amdgpu_kernel_of(const tg_object_view *o, const char *name, tg_amdgpu_kernel *k) {
  enum { REL64 = 5, BYTES = 64, ENTRY = 16 };
  size_t n = strlen(name);
  uint32_t code = 0, descriptor = 0;
  for (uint32_t i = 1; i < o->symbols_n; i++) {
    const char *s = tg_object_symbol(o, i);
    if (strncmp(s, name, n)) continue;
    if (!s[n]) code = i;
    else if (!strcmp(s + n, ".kd")) descriptor = i;
  }
  const char *d = descriptor ? bytes_of(o, descriptor, BYTES) : NULL;
  if (o->head->e_machine != EM_AMDGPU || !code || !d || !bytes_of(o, code, o->symbols[code].st_size)) return false;
  *k = (tg_amdgpu_kernel){.code = bytes_of(o, code, o->symbols[code].st_size), .bytes = o->symbols[code].st_size,
                       .entry_known = points_to(o, descriptor, ENTRY, REL64, code)};
  static const struct { uint8_t at; uint8_t field; } fields[] = {{0, 0}, {4, 1}, {8, 2}, {44, 3}, {48, 4}, {52, 5}};
  uint32_t *to[] = {&k->local, &k->scratch, &k->arguments, &k->rsrc3, &k->rsrc1, &k->rsrc2};
  for (uint32_t i = 0; i < TG_COUNT(fields); i++) memcpy(to[fields[i].field], d + fields[i].at, 4);
  memcpy(&k->properties, d + 56, 2);
  /* in units of 8: so in wave32, and in wave64 where accumulators are in the same register file */
  k->vector_registers = ((k->rsrc1 & 63) + 1) * 8;
  return true;
}
