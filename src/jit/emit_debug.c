/* SPDX-License-Identifier: MIT
 * Line tables for debuggers, which refer to the author's text. */
#include "jit/emit.h"

void tg_emit_debug_module(tg_emitter *e) {
  const char *file = "kernel";
  for (uint32_t i = 0; i < e->j->pos.n; i++)
    if (e->j->pos.data[i].file) file = e->j->pos.data[i].file;
  e->di = LLVMCreateDIBuilder(e->m);
  e->di_file = LLVMDIBuilderCreateFile(e->di, file, strlen(file), ".", 1);
  LLVMDIBuilderCreateCompileUnit(e->di, LLVMDWARFSourceLanguageC99, e->di_file, "tg", 2, 1, "", 0, 0, "", 0,
                                 LLVMDWARFEmissionLineTablesOnly, 0, 0, 0, "", 0, "", 0);
  LLVMAddModuleFlag(e->m, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
                    LLVMValueAsMetadata(LLVMConstInt(e->integer[32], LLVMDebugMetadataVersion(), 0)));
}

void tg_emit_debug_function(tg_emitter *e, LLVMValueRef fn, const char *name) {
  LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(e->di, e->di_file, NULL, 0, 0);
  e->di_function =
      LLVMDIBuilderCreateFunction(e->di, e->di_file, name, strlen(name), "", 0, e->di_file, 1, type, 0, 1, 1, 0, 1);
  LLVMSetSubprogram(fn, e->di_function);
  LLVMSetCurrentDebugLocation2(e->b, LLVMDIBuilderCreateDebugLocation(e->c, 0, 0, e->di_function, NULL));
}

void tg_emit_debug_statement(tg_emitter *e, const tg_uop *u) {
  tg_pos p = tg_get_pos(e->j, u);
  if (p.line > 0)
    LLVMSetCurrentDebugLocation2(e->b, LLVMDIBuilderCreateDebugLocation(e->c, (unsigned)p.line,
                                                                        (unsigned)(p.column > 0 ? p.column : 0),
                                                                        e->di_function, NULL));
}
