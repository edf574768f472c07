/* SPDX-License-Identifier: MIT
 * Reader of ELF objects as LLVM writes them, for tg's own loader; and registration of code with debuggers. */
#ifndef TG_OBJECT_H
#define TG_OBJECT_H
#include <elf.h>
#include "code/code.h"

typedef struct {
  const char *data;
  size_t bytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sections, *symtab, *strtab;
  const Elf64_Sym *symbols;
  uint32_t sections_n, symbols_n;
} tg_object_view;

/* False unless all headers, sections and names lie inside the data, which must be 8-aligned. */
bool tg_object_open(tg_object_view *o, const void *data, size_t bytes);
const char *tg_object_symbol(const tg_object_view *o, uint32_t i);
/* The first symbol that the object does not define, or NULL. */
const char *tg_object_undefined(const void *object, size_t bytes);

/* A kernel of an AMD code object: its code and the fields of its descriptor NAME.kd (LLVM's "User Guide for AMDGPU
 * Backend", Kernel Descriptor). */
typedef struct {
  const char *code;
  uint64_t bytes;
  uint32_t local, scratch, arguments;   /* bytes: LOCAL per workgroup, scratch per thread, kernel arguments */
  uint32_t rsrc1, rsrc2, rsrc3, vector_registers;
  /* bits: 0 private segment buffer, 1 dispatch pointer, 2 queue pointer, 3 arguments, 4 dispatch id, 5 flat scratch,
   * 6 private size, 10 wave32, 11 dynamic stack */
  uint16_t properties;
  bool entry_known;                     /* the descriptor's entry field has a relocation that points to the code */
} tg_amdgpu_kernel;
bool tg_amdgpu_kernel_of(const tg_object_view *o, const char *name, tg_amdgpu_kernel *k);

/* Support for gdb and perf (debug.c). Pass the record that tg_debug_register returns to tg_debug_unregister. */
void *tg_debug_register(const tg_allocator *a, const void *object, size_t bytes, const uint64_t *section_address,
                        uint32_t sections);
void tg_debug_unregister(const tg_allocator *a, void *record);
void tg_debug_perf_map(const void *code, size_t bytes, const char *name);
#endif
