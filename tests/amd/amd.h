/* SPDX-License-Identifier: MIT
 * An interpreter of AMD's machine code: runs the code objects that tg emits for RDNA3, RDNA4 and CDNA, on this CPU, from
 * their bytes, with none of tg's own code and none of LLVM's.
 *
 *   ops.def, decode.c   words to instructions: one that the table does not have is refused with its place and bits
 *   run.c               a dispatch: waves of a group, who runs next, barriers, s_waitcnt
 *   scalar.c, vector.c  arithmetic; lanes.c: lanes that read each other's registers; number.c: small floats, division
 *   matrix.c            WMMA and MFMA
 *   memory.c            buffers, LOCAL: bounds, alignment, races, what nobody wrote; count.c: wavefronts, sectors
 *   object.c            an ELF object as LLVM writes it: code and kernel descriptors
 *
 * What a run reports, with the place of the instruction, the group and the wave: an access outside of memory or of LOCAL,
 * or one that is not aligned to its element; a register that is used while a load into it is in
 * flight; a race (two waves access one place, one of them writing, with no barrier between the ends of both accesses);
 * bits that nobody wrote (of registers or of LOCAL) where they reach an address, memory, a branch or EXEC; registers
 * beyond those that the descriptor asks for; waves that wait at a barrier which others never reach. */
#ifndef TG_TEST_AMD_H
#define TG_TEST_AMD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AMD_LANES = 64, AMD_MESSAGE = 512 };
typedef enum { AMD_RDNA3, AMD_RDNA4, AMD_GFX90A, AMD_GFX942, AMD_FAMILIES } amd_family;
/* False: no interpreter of that processor ("gfx1100"). */
bool amd_family_of(const char *processor, amd_family *f);

/* ---- decoded instructions ---- */

typedef enum { AMD_SOP2, AMD_SOP1, AMD_SOPK, AMD_SOPC, AMD_SOPP, AMD_SMEM, AMD_VOP1, AMD_VOP2, AMD_VOPC, AMD_COMPARE, AMD_VOP3,
               AMD_VOP3B, AMD_VOP3P, AMD_MFMA, AMD_VOPD, AMD_DS, AMD_GLOBAL, AMD_MUBUF, AMD_FORMATS } amd_format;
#define DO(name) AMD_##name,
typedef enum {
#include "operations.def"
  AMD_OPERATIONS
} amd_operation;
#undef DO

typedef struct { amd_operation operation; const char *name; amd_format format; const char *types; int16_t number[AMD_FAMILIES]; } amd_row;

/* Codes of operands, as in the formats: scalar registers, constants, 256 + a vector register, 512 + an accumulation one. */
enum { AMD_VCC = 106, AMD_NULL = 124, AMD_M0 = 125, AMD_EXEC = 126, AMD_SCC = 253, AMD_LITERAL = 255, AMD_V0 = 256, AMD_A0 = 512 };
/* take: SDWA: byte (0 to 3), word (4, 5), or all (6) of the register; sign: extended by its sign. */
typedef struct { uint16_t code; char type; uint8_t high, negate, negate_high, absolute, take, sign; } amd_operand;
typedef enum { DPP_NONE, DPP_16, DPP_8 } amd_dpp;

typedef struct amd_instruction {
  const amd_row *row;
  uint16_t operation;                   /* amd_operation */
  uint8_t words, results, sources, relation, clamp, scale, dpp, dpp_inactive, dpp_bound, dpp_rows, dpp_banks, keep;
  uint32_t dpp_control, literal;
  amd_operand result[2], source[4];
  int64_t offset;                       /* of memory, branches: bytes; s_waitcnt: its bits */
  uint32_t bytes, offset2;              /* memory: of an element; the second place */
  char kind;                            /* memory: as in ops.def */
  bool two, returns;
  uint8_t high_sources, low_sources;    /* VOP3P: op_sel_hi, op_sel */
  struct amd_instruction *second;       /* of a dual-issue pair */
  char name[40];
} amd_instruction;

/* Decodes one instruction of `words` 32-bit words. False: message says what is not known. */
bool amd_decode(amd_family f, const uint32_t *word, uint32_t words, amd_instruction *i, amd_instruction *second, char message[AMD_MESSAGE]);

/* ---- a dispatch ---- */

typedef enum { AMD_READ, AMD_WRITE, AMD_FETCH } amd_access;

typedef struct {
  uint64_t instructions, lanes, matrix; /* of waves; lanes that were on; matrix instructions */
  uint64_t local, wavefronts, wavefronts_fewest, global, sectors, sectors_fewest;   /* of 32 banks; of 64 bytes */
} amd_count;

typedef struct {
  const char *processor;
  uint64_t code, arguments;             /* addresses of the first instruction, of the kernel's arguments */
  uint32_t rsrc1, rsrc2, rsrc3;         /* COMPUTE_PGM_RSRC1 to 3, as the descriptor has them */
  uint16_t properties;                  /* kernel_code_properties of the descriptor: which user registers, wave32 */
  uint32_t groups[3], threads[3];       /* of the grid; of a group */
  uint32_t local;                       /* bytes of LOCAL that the launch gives */
  uint64_t seed;                        /* of the order of waves, and of groups where `drawn` */
  bool drawn;
  uint64_t limit;                       /* the most instructions of waves; 0: no limit */
  /* Memory of the device: bytes at an address are copied from or to data. False: there is no such memory, or it may not be
   * accessed so. */
  bool (*access)(void *user, uint64_t address, void *data, uint32_t bytes, amd_access how);
  void *user;
  /* results */
  amd_count count;
  char message[AMD_MESSAGE];            /* the first fault */
} amd_dispatch;
/* Runs all groups. False: message says what is wrong. */
bool amd_run(amd_dispatch *d);

/* ---- object.c: an ELF object, relocatable or linked ---- */

typedef struct { char name[96]; uint64_t entry; uint32_t local, scratch, arguments, rsrc1, rsrc2, rsrc3; uint16_t properties; } amd_kernel;
typedef struct { uint8_t *image; uint64_t bytes, base; amd_kernel kernel[64]; uint32_t kernels; char message[AMD_MESSAGE]; } amd_object;
/* Copies all that is to be loaded, as at address `base`, and applies its relocations. False: message says what is wrong. */
bool amd_object_load(amd_object *o, const void *elf, size_t bytes, uint64_t base);
void amd_object_free(amd_object *o);
const amd_kernel *amd_object_find(const amd_object *o, const char *name);
#endif
