/* SPDX-License-Identifier: MIT
 * The contents of an object as text for people: AMD machine code, disassembled by LLVM, and the data that a launcher
 * reads. */
#include <llvm-c/Disassembler.h>
#include "jit/emit.h"
#include "code/object.h"

/* One line for each instruction. Among them are s_code_end, which pad the end for what the processor fetches ahead. */
static void disassemble(tg_env *env, const tg_target *t, const tg_amdgpu_kernel *k, tg_str *out) {
  LLVMDisasmContextRef d = LLVMCreateDisasmCPUFeatures(t->triple, t->cpu, t->features, NULL, 0, NULL, NULL);
  char line[512];
  uint64_t at = 0;
  if (!d) tg_fail(env, TG_EBACKEND, "LLVM has no disassembler for %s", t->name);
  while (at < k->bytes) {
    uint8_t code[32] = {0};
    uint64_t n = k->bytes - at < sizeof code ? k->bytes - at : sizeof code;
    memcpy(code, k->code + at, n);
    size_t size = LLVMDisasmInstruction(d, code, n, at, line, sizeof line);
    if (!size) break;
    tg_str_printf(out, "%6llx %s\n", (unsigned long long)at, line);
    at += size;
  }
  LLVMDisasmDispose(d);
  if (at < k->bytes) tg_str_printf(out, "%6llx\t(not an instruction of %s)\n", (unsigned long long)at, t->name);
}

static void put_amd(tg_job *j, const tg_target *t, const tg_object_view *o, const char *name, bool code, tg_str *out) {
  tg_amdgpu_kernel k;
  if (!tg_amdgpu_kernel_of(o, name, &k)) return;
  if (code) {
    tg_str_printf(out, "%s:\n", name);
    disassemble(&j->env, t, &k, out);
    return;
  }
  tg_str_printf(out, "descriptor %s.kd\n  LOCAL %u bytes, scratch %u, arguments %u\n", name, k.local, k.scratch,
                k.arguments);
  tg_str_printf(out, "  rsrc1 %08x rsrc2 %08x rsrc3 %08x, properties %04x\n", k.rsrc1, k.rsrc2, k.rsrc3, k.properties);
  tg_str_printf(out, "  vector registers %u, user scalar registers %u, wave%u, code %llu bytes, entry %s\n",
                k.vector_registers, k.rsrc2 >> 1 & 31, k.properties >> 10 & 1 ? 32 : 64, (unsigned long long)k.bytes,
                k.entry_known ? "relocated" : "unknown");
}

static void put_launch(tg_job *j, const tg_code_info *info, uint32_t p, const char *name, tg_str *out) {
  int64_t *params = tg_new(&j->env, int64_t, j->params.n + 1);
  for (uint32_t i = 0; i < j->params.n; i++) params[i] = j->params.data[i].hi;
  tg_grid g;
  if (!tg_grid_of(info, p, params, &g)) {
    tg_str_printf(out, "launch %s: too large with the parameters' largest values\n", name);
    return;
  }
  tg_str_printf(out, "launch %s: %lld x %lld x %lld groups of %u threads, %llu bytes of LOCAL", name,
                (long long)g.groups[0], (long long)g.groups[1], (long long)g.groups[2], g.threads,
                (unsigned long long)g.local);
  for (uint32_t i = 0; i < j->params.n; i++)
    tg_str_printf(out, "%s%s = %lld", i ? ", " : ", for ", j->params.data[i].name, (long long)params[i]);
  tg_str_puts(out, "\n");
}

static const char *kernel_name(tg_job *j, uint32_t p, bool unaligned) {
  return tg_format(&j->env, "%s_%u%s", j->name, p, unaligned ? "_unaligned" : "");
}

const char *tg_llvm_assembly(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info) {
  tg_str out = tg_str_new(&j->env);
  tg_object_view o;
  if (t->arch != TG_ARCH_AMDGPU || !tg_object_open(&o, object->data, object->bytes)) return NULL;
  for (uint32_t p = 0; p < 2 * info->phases; p++) put_amd(j, t, &o, kernel_name(j, p / 2, p % 2), true, &out);
  return out.data;
}

static void put_sections(const tg_object_view *o, tg_str *out) {
  const Elf64_Shdr *names = o->head->e_shstrndx < o->sections_n ? &o->sections[o->head->e_shstrndx] : NULL;
  for (uint32_t i = 1; i < o->sections_n; i++) {
    const Elf64_Shdr *s = &o->sections[i];
    if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size) continue;
    bool named =
        names && names->sh_size && s->sh_name < names->sh_size && !o->data[names->sh_offset + names->sh_size - 1];
    tg_str_printf(out, "section %s: %llu bytes, aligned to %llu\n",
                  named ? o->data + names->sh_offset + s->sh_name : "?", (unsigned long long)s->sh_size,
                  (unsigned long long)s->sh_addralign);
  }
  for (uint32_t i = 1; i < o->symbols_n; i++)
    if (ELF64_ST_BIND(o->symbols[i].st_info) == STB_GLOBAL)
      tg_str_printf(out, "symbol %s: %llu bytes\n", tg_object_symbol(o, i), (unsigned long long)o->symbols[i].st_size);
}

const char *tg_llvm_summary(tg_job *j, const tg_target *t, const tg_object *object, const tg_code_info *info) {
  tg_str out = tg_str_new(&j->env);
  tg_object_view o;
  tg_str_printf(
      &out, "%s: %zu bytes, %u phases, %u loops of phases, %u buffers, %u parameters, %llu bytes shared by phases\n",
      t->name, object->bytes, info->phases, info->loops, info->buffers, info->params, (unsigned long long)info->shared);
  if (t->arch == TG_ARCH_NVPTX) tg_str_puts(&out, "PTX, for the driver: --stage asm\n");
  else if (tg_object_open(&o, object->data, object->bytes)) {
    put_sections(&o, &out);
    for (uint32_t p = 0; p < 2 * info->phases; p++) put_amd(j, t, &o, kernel_name(j, p / 2, p % 2), false, &out);
  }
  for (uint32_t p = 0; p < info->phases && info->launch && !info->loops; p++)
    put_launch(j, info, p, kernel_name(j, p, false), &out);
  return out.data;
}
