/* SPDX-License-Identifier: MIT
 * Sections and relocations: LLVM, "User Guide for AMDGPU Backend", Relocation Records. All that compiled kernels have
 * are relative, so that an image is the same at any address. */
#include "devices/amd/place.h"

enum { ALIGN = 256, MOST_BYTES = 1 << 30 };   /* kernels begin at multiples of 256 */
enum { REL64 = 5, REL32_LO = 10, REL32_HI = 11 };

static bool is_loaded(const Elf64_Shdr *s) { return (s->sh_flags & SHF_ALLOC) && s->sh_type != SHT_NOTE; }

const char *tg_amd_image_lay(tg_amd_image *m, const tg_object_view *o, uint64_t *offset) {
  *m = (tg_amd_image){.object = *o, .offset = offset};
  for (uint32_t i = 0; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    offset[i] = UINT64_MAX;
    if (!is_loaded(s)) continue;
    if (s->sh_addralign > ALIGN || s->sh_size > MOST_BYTES - m->bytes) return "a section is too large";
    offset[i] = m->bytes;
    m->bytes += (s->sh_size + ALIGN - 1) / ALIGN * ALIGN;
    if (m->bytes > MOST_BYTES - ALIGN) return "it is too large";
  }
  return m->bytes ? NULL : "it has no code";
}

/* Where in the image a symbol lies that the object defines in a section that is loaded. */
static bool symbol_at(const tg_amd_image *m, uint64_t number, uint64_t *value) {
  if (number >= m->object.symbols_n) return false;
  const Elf64_Sym *y = &m->object.symbols[number];
  if (y->st_shndx >= m->object.sections_n || m->offset[y->st_shndx] == UINT64_MAX) return false;
  *value = m->offset[y->st_shndx] + y->st_value;
  return true;
}

static const char *relocate(const tg_amd_image *m, const Elf64_Rela *r, uint32_t section, char *memory) {
  uint32_t type = ELF64_R_TYPE(r->r_info), bytes = type == REL64 ? 8 : 4;
  uint64_t size = m->object.sections[section].sh_size, at = m->offset[section] + r->r_offset, value;
  if (r->r_offset > size || bytes > size - r->r_offset) return "a relocation lies outside of its section";
  if (!symbol_at(m, ELF64_R_SYM(r->r_info), &value)) return "a relocation is to a symbol that is not there";
  value += (uint64_t)r->r_addend - at;
  if (type == REL32_HI) value >>= 32;
  else if (type != REL64 && type != REL32_LO) return "it has a relocation of an unknown type";
  memcpy(memory + at, &value, bytes);
  return NULL;
}

const char *tg_amd_image_write(const tg_amd_image *m, char *memory) {
  const tg_object_view *o = &m->object;
  memset(memory, 0, m->bytes);
  for (uint32_t i = 0; i < o->sections_n; i++)
    if (m->offset[i] != UINT64_MAX && o->sections[i].sh_type != SHT_NOBITS)
      memcpy(memory + m->offset[i], o->data + o->sections[i].sh_offset, o->sections[i].sh_size);
  for (uint32_t i = 0; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (s->sh_type != SHT_RELA || s->sh_info >= o->sections_n || m->offset[s->sh_info] == UINT64_MAX) continue;
    if (s->sh_offset % 8) return "its relocations are not aligned";
    const Elf64_Rela *r = (const Elf64_Rela *)(o->data + s->sh_offset);
    for (uint64_t k = 0; k < s->sh_size / sizeof *r; k++) {
      const char *wrong = relocate(m, &r[k], s->sh_info, memory);
      if (wrong) return wrong;
    }
  }
  return NULL;
}

bool tg_amd_image_find(const tg_amd_image *m, const char *data, uint64_t *offset) {
  const tg_object_view *o = &m->object;
  uint64_t at = (uint64_t)(data - o->data);
  for (uint32_t i = 0; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (m->offset[i] == UINT64_MAX || s->sh_type == SHT_NOBITS || at < s->sh_offset || at - s->sh_offset >= s->sh_size)
      continue;
    *offset = m->offset[i] + (at - s->sh_offset);
    return true;
  }
  return false;
}
