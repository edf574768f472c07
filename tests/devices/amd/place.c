/* SPDX-License-Identifier: MIT
 * The image of an AMD object, of an object made here: sections at multiples of their alignment, what has no bytes in the object zero as the rest between sections, relocations, and what is refused. */
#include <stdlib.h>
#include "../../test.h"
#include "devices/amd/place.h"

enum { TEXT = 1, ZEROS, TABLE, NOTE, OF_TEXT, SECTIONS };
enum { FIRST, AT_ZEROS, AT_TABLE, AT_NOTE, SYMBOLS };
enum { TEXT_BYTES = 300, ZEROS_BYTES = 40, TABLE_BYTES = 70, ABOVE = 0x77 };
enum { REL64 = 5, REL32_LO = 10, REL32_HI = 11 };

typedef struct {
  _Alignas(8) char text[TEXT_BYTES + 4];
  char table[TABLE_BYTES + 2];
  Elf64_Rela of_text[3];
} contents;

typedef struct {
  contents data;
  Elf64_Shdr section[SECTIONS];
  Elf64_Sym symbol[SYMBOLS];
  tg_object_view view;
  tg_amd_image image;
  uint64_t offset[SECTIONS];
} object;

static void make(object *o) {
  *o = (object){.view = {.data = (char *)&o->data, .sections = o->section, .symbols = o->symbol, .sections_n = SECTIONS, .symbols_n = SYMBOLS}};
  memset(o->data.text, 1, TEXT_BYTES), memset(o->data.table, 2, TABLE_BYTES);
  o->section[TEXT] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_offset = offsetof(contents, text), .sh_size = TEXT_BYTES, .sh_addralign = 256};
  o->section[ZEROS] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC, .sh_offset = offsetof(contents, table), .sh_size = ZEROS_BYTES, .sh_addralign = 64};
  o->section[TABLE] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_offset = offsetof(contents, table), .sh_size = TABLE_BYTES, .sh_addralign = 128};
  o->section[NOTE] = (Elf64_Shdr){.sh_type = SHT_NOTE, .sh_flags = SHF_ALLOC, .sh_size = 8, .sh_addralign = 4};
  o->section[OF_TEXT] = (Elf64_Shdr){.sh_type = SHT_RELA, .sh_info = TEXT, .sh_offset = offsetof(contents, of_text), .sh_size = sizeof o->data.of_text};
  o->symbol[AT_ZEROS] = (Elf64_Sym){.st_shndx = ZEROS, .st_value = 8};
  o->symbol[AT_TABLE] = (Elf64_Sym){.st_shndx = TABLE, .st_value = 16};
  o->symbol[AT_NOTE] = (Elf64_Sym){.st_shndx = NOTE};
  o->data.of_text[0] = (Elf64_Rela){.r_offset = 20, .r_info = ELF64_R_INFO(AT_TABLE, REL32_LO), .r_addend = 4};
  o->data.of_text[1] = (Elf64_Rela){.r_offset = 28, .r_info = ELF64_R_INFO(AT_TABLE, REL32_HI), .r_addend = -(1ll << 32)};
  o->data.of_text[2] = (Elf64_Rela){.r_offset = TEXT_BYTES - 8, .r_info = ELF64_R_INFO(AT_ZEROS, REL64)};
}

/* NULL, or what is wrong; the image lies in memory that was in use. */
static const char *placed(object *o, char **memory) {
  *memory = NULL;
  const char *wrong = tg_amd_image_lay(&o->image, &o->view, o->offset);
  if (wrong) return wrong;
  *memory = malloc(o->image.bytes);
  memset(*memory, ABOVE, o->image.bytes);
  return tg_amd_image_write(&o->image, *memory);
}

static int64_t number(const char *at, size_t bytes) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (bytes == 8) return memcpy(&wide, at, 8), wide;
  return memcpy(&narrow, at, 4), narrow;
}

static void right(void) {
  static object o;
  char *memory;
  uint64_t found = 0;
  make(&o);
  const char *wrong = placed(&o, &memory);
  CHECK(!wrong, "%s", wrong);
  if (wrong) return;
  const uint64_t *at = o.offset;
  for (int i = TEXT; i <= TABLE; i++)
    CHECK(at[i] % o.section[i].sh_addralign == 0 && at[i] + o.section[i].sh_size <= o.image.bytes, "section %d lies at %llu of %llu", i, (unsigned long long)at[i], (unsigned long long)o.image.bytes);
  CHECK(at[NOTE] == UINT64_MAX && at[OF_TEXT] == UINT64_MAX, "notes and relocations are in the image");
  int64_t to_table = (int64_t)(at[TABLE] + 16 - at[TEXT]), to_zeros = (int64_t)(at[ZEROS] + 8 - at[TEXT]);
  CHECK(number(memory + at[TEXT] + 20, 4) == to_table + 4 - 20, "low half: %lld", (long long)number(memory + at[TEXT] + 20, 4));
  CHECK(number(memory + at[TEXT] + 28, 4) == -1, "high half: %lld", (long long)number(memory + at[TEXT] + 28, 4));
  CHECK(number(memory + at[TEXT] + TEXT_BYTES - 8, 8) == to_zeros - (TEXT_BYTES - 8), "whole: %lld", (long long)number(memory + at[TEXT] + TEXT_BYTES - 8, 8));
  for (uint64_t i = 0; i < o.image.bytes; i++) {
    bool text = i >= at[TEXT] && i < at[TEXT] + TEXT_BYTES, table = i >= at[TABLE] && i < at[TABLE] + TABLE_BYTES;
    uint64_t in = i - at[TEXT];
    bool relocated = text && ((in >= 20 && in < 24) || (in >= 28 && in < 32) || in >= TEXT_BYTES - 8);
    if (!relocated) CHECK(memory[i] == (text ? 1 : table ? 2 : 0), "byte %llu is %d", (unsigned long long)i, memory[i]);
  }
  CHECK(tg_amd_image_find(&o.image, o.data.table + 5, &found) && found == at[TABLE] + 5, "found at %llu", (unsigned long long)found);
  CHECK(!tg_amd_image_find(&o.image, (char *)o.data.of_text, &found), "what is in no section is found");
  free(memory);
}

#define WRONG(change, text)                                                        \
  do {                                                                             \
    static object o;                                                               \
    char *memory;                                                                  \
    make(&o);                                                                      \
    change;                                                                        \
    const char *wrong = placed(&o, &memory);                                       \
    CHECK(wrong && strstr(wrong, text), "%s: %s", #change, wrong ? wrong : "taken"); \
    free(memory);                                                                  \
  } while (0)

int main(void) {
  right();
  WRONG(o.section[TABLE].sh_addralign = 512, "a section is too large");
  WRONG(o.section[ZEROS].sh_size = 2ull << 30, "a section is too large");
  WRONG(o.section[ZEROS].sh_size = (1ull << 30) - 512, "too large");
  WRONG(o.section[TEXT].sh_flags = o.section[ZEROS].sh_flags = o.section[TABLE].sh_flags = 0, "it has no code");
  WRONG(o.data.of_text[0].r_offset = TEXT_BYTES - 3, "outside of its section");
  WRONG(o.data.of_text[2].r_offset = TEXT_BYTES - 7, "outside of its section");
  WRONG(o.data.of_text[1].r_info = ELF64_R_INFO(AT_NOTE, REL32_HI), "a symbol that is not there");
  WRONG(o.data.of_text[1].r_info = ELF64_R_INFO(SYMBOLS, REL32_HI), "a symbol that is not there");
  WRONG(o.data.of_text[1].r_info = ELF64_R_INFO(AT_TABLE, 1), "an unknown type");
  WRONG(o.section[OF_TEXT].sh_offset += 4, "are not aligned");
  return TEST_END();
}
