/* SPDX-License-Identifier: MIT
 * The interpreter of AMD's machine code by itself: single instructions of RDNA3, with what they must compute, and small
 * programs with the fault that must be reported. Words are put together here from the formats and numbers of AMD's
 * "RDNA3 Instruction Set Architecture" (chapters 15, "Microcode Formats", and 16, "Instructions"), values worked out by
 * hand from what that says of each: so a wrong number in ops.def is seen, which came from another source. */
#include "../test.h"
#include "amd.h"

enum { LANES = 32, WORDS = 96 };
static const uint64_t code_at = (uint64_t)1 << 40, out_at = (uint64_t)2 << 40, arguments_at = (uint64_t)3 << 40;

typedef struct {
  uint32_t word[WORDS], n, out[LANES];
  uint64_t arguments[2];
  amd_dispatch d;
} bench;

static bool inside(uint64_t address, uint32_t bytes, uint64_t base, uint64_t size) {
  return address >= base && address - base <= size && bytes <= size - (address - base);
}

static bool access(void *user, uint64_t address, void *data, uint32_t bytes, amd_access how) {
  bench *b = user;
  if (how == AMD_WRITE)
    return inside(address, bytes, out_at, sizeof b->out) && memcpy((uint8_t *)b->out + (address - out_at), data, bytes);
  if (inside(address, bytes, code_at, 4 * b->n)) return memcpy(data, (uint8_t *)b->word + (address - code_at), bytes);
  if (inside(address, bytes, arguments_at, sizeof b->arguments))
    return memcpy(data, (uint8_t *)b->arguments + (address - arguments_at), bytes);
  return inside(address, bytes, out_at, sizeof b->out) && memcpy(data, (uint8_t *)b->out + (address - out_at), bytes);
}

static void emit(bench *b, uint32_t w) { b->word[b->n++] = w; }
static void put(bench *b, uint32_t n, const uint32_t *w) {
  for (uint32_t k = 0; k < n; k++) emit(b, w[k]);
}

/* ---- the formats; sources are v1, v2, v3 or s20, s21, results v10 or s22 ---- */

#define SOP1(op, d, s) (0xbe800000u | (uint32_t)(d) << 16 | (uint32_t)(op) << 8 | (uint32_t)(s))
#define SOP2(op) (0x80000000u | (uint32_t)(op) << 23 | 22u << 16 | 21u << 8 | 20u)
#define SOPP(op, v) (0xbf800000u | (uint32_t)(op) << 16 | (uint32_t)(v))
#define VOP1_OF(op, d, s) (0x7e000000u | (uint32_t)(d) << 17 | (uint32_t)(op) << 9 | (uint32_t)(s))
#define VOP1(op)                                                                                                       \
  { VOP1_OF(op, 10, 257) }
#define VOP2(op)                                                                                                       \
  { (uint32_t)(op) << 25 | 10u << 17 | 2u << 9 | 257u }
#define VOP3(op)                                                                                                       \
  { 0xd4000000u | (uint32_t)(op) << 16 | 10u, 257u | 258u << 9 | 259u << 18 }
#define VOP3P(op)                                                                                                      \
  { 0xcc004000u | (uint32_t)(op) << 16 | 10u, 257u | 258u << 9 | 259u << 18 | 3u << 27 }
enum { S_MOV_B32 = 0, V_MOV_B32 = 1, LITERAL = 255, S_WAITCNT = 9, S_ENDPGM = 48, S_BARRIER = 61, NO_LGKM = 0xfc07 };

#define WAIT_SCALAR SOPP(S_WAITCNT, NO_LGKM)                                       /* lgkmcnt(0) */
#define LOAD_ADDRESS 0xf4000000u | 1u << 18 | 4u << 6, 124u << 25                  /* s_load_b64 s[4:5], s[0:1], 0 */
#define LANE_BYTES (24u << 25 | 0u << 17 | 0u << 9 | 130u)                         /* v_lshlrev_b32 v0, 2, v0 */
#define STORE(v) 0xdc000000u | 26u << 18 | 2u << 16, (uint32_t)(v) << 8 | 4u << 16 /* global_store_b32 v0, v, s[4:5]   \
                                                                                    */
#define LOCAL_STORE(v) 0xd8000000u | 13u << 18, 0u | (uint32_t)(v) << 8            /* ds_store_b32 v0, v */
#define LOCAL_LOAD(d, v) 0xd8000000u | 54u << 18, (uint32_t)(v) | (uint32_t)(d) << 24 /* ds_load_b32 d, v */
#define MOVE_V(v, source) VOP1_OF(V_MOV_B32, v, source)
#define END SOPP(S_ENDPGM, 0)

static bool run(bench *b, uint32_t waves) {
  b->arguments[0] = out_at;
  memset(b->out, 0xdd, sizeof b->out);
  b->d = (amd_dispatch){.processor = "gfx1100",
                        .code = code_at,
                        .arguments = arguments_at,
                        .rsrc1 = 0x3fu | 0xf0u << 12,
                        .rsrc2 = 2u << 1,
                        .properties = 1u << 3 | 1u << 10,
                        .groups = {1, 1, 1},
                        .threads = {LANES * waves, 1, 1},
                        .local = 512,
                        .seed = 1,
                        .limit = 10000,
                        .access = access,
                        .user = b};
  return amd_run(&b->d);
}

/* ---- values: floats as their bits ---- */

#define NAN_F 0x7fc00000u
#define NEG_ZERO 0x80000000u

static const struct {
  const char *name;
  uint32_t word[2];
  uint32_t v[3], want;
} vectors[] = {
    {"v_add_f32", VOP2(3), {0x3fc00000u, 0x40100000u}, 0x40700000u},
    {"v_sub_f32", VOP2(4), {0x3fc00000u, 0x40100000u}, 0xbf400000u},
    {"v_subrev_f32", VOP2(5), {0x3fc00000u, 0x40100000u}, 0x3f400000u},
    {"v_mul_f32", VOP2(8), {0xbfc00000u, 0x00000000u}, NEG_ZERO},
    {"v_mul_f32, subnormal", VOP2(8), {0x00800000u, 0x3f000000u}, 0x00400000u},
    {"v_mul_i32_i24", VOP2(9), {0x01ffffffu, 5}, (uint32_t)-5},
    {"v_mul_u32_u24", VOP2(11), {0xff000003u, 5}, 15},
    {"v_min_f32, a NaN", VOP2(15), {NAN_F, 0x40000000u}, 0x40000000u},
    {"v_max_f32", VOP2(16), {0xc0400000u, 0x40000000u}, 0x40000000u},
    {"v_min_i32", VOP2(17), {(uint32_t)-3, 2}, (uint32_t)-3},
    {"v_max_i32", VOP2(18), {(uint32_t)-3, 2}, 2},
    {"v_min_u32", VOP2(19), {(uint32_t)-3, 2}, 2},
    {"v_max_u32", VOP2(20), {(uint32_t)-3, 2}, (uint32_t)-3},
    {"v_lshlrev_b32, 33 is 1", VOP2(24), {33, 0x40000001u}, 0x80000002u},
    {"v_lshrrev_b32", VOP2(25), {4, 0x80000010u}, 0x08000001u},
    {"v_ashrrev_i32", VOP2(26), {4, 0x80000010u}, 0xf8000001u},
    {"v_and_b32", VOP2(27), {0xff00ff00u, 0x0ff00ff0u}, 0x0f000f00u},
    {"v_or_b32", VOP2(28), {0xff00ff00u, 0x0ff00ff0u}, 0xfff0fff0u},
    {"v_xor_b32", VOP2(29), {0xff00ff00u, 0x0ff00ff0u}, 0xf0f0f0f0u},
    {"v_add_nc_u32 wraps", VOP2(37), {0xffffffffu, 2}, 1},
    {"v_sub_nc_u32", VOP2(38), {1, 2}, 0xffffffffu},
    {"v_subrev_nc_u32", VOP2(39), {1, 2}, 1},
    {"v_cvt_f32_i32", VOP1(5), {(uint32_t)-16777217}, 0xcb800000u},
    {"v_cvt_f32_u32", VOP1(6), {0xffffffffu}, 0x4f800000u},
    {"v_cvt_u32_f32 clamps", VOP1(7), {0xbf800000u}, 0},
    {"v_cvt_u32_f32, too large", VOP1(7), {0x4f9502f9u}, 0xffffffffu},
    {"v_cvt_u32_f32, a NaN", VOP1(7), {NAN_F}, 0},
    {"v_cvt_i32_f32, towards 0", VOP1(8), {0xc039999au}, (uint32_t)-2},
    {"v_cvt_i32_f32, too small", VOP1(8), {0xcf32d05eu}, 0x80000000u},
    {"v_cvt_f32_f16, subnormal", VOP1(11), {1}, 0x33800000u},
    {"v_cvt_f32_ubyte0", VOP1(17), {0x12345678u}, 0x42f00000u},
    {"v_cvt_f32_ubyte1", VOP1(18), {0x12345678u}, 0x42ac0000u},
    {"v_cvt_f32_ubyte2", VOP1(19), {0x12345678u}, 0x42500000u},
    {"v_cvt_f32_ubyte3", VOP1(20), {0x12345678u}, 0x41900000u},
    {"v_trunc_f32", VOP1(33), {0xc0200000u}, 0xc0000000u},
    {"v_ceil_f32", VOP1(34), {0xbf000000u}, NEG_ZERO},
    {"v_rndne_f32", VOP1(35), {0x40200000u}, 0x40000000u},
    {"v_floor_f32", VOP1(36), {0xc0200000u}, 0xc0400000u},
    {"v_not_b32", VOP1(55), {0x0f0f0f0fu}, 0xf0f0f0f0u},
    {"v_bfrev_b32", VOP1(56), {1}, 0x80000000u},
    {"v_clz_i32_u32", VOP1(57), {0x00010000u}, 15},
    {"v_clz_i32_u32 of 0", VOP1(57), {0}, 0xffffffffu},
    {"v_bfe_u32", VOP3(0x210), {0x12345678u, 8, 12}, 0x456},
    {"v_bfe_u32, no bits", VOP3(0x210), {0x12345678u, 8, 0}, 0},
    {"v_bfe_i32", VOP3(0x211), {0x00000f00u, 8, 4}, 0xffffffffu},
    {"v_bfi_b32", VOP3(0x212), {0x0000ffffu, 0x12345678u, 0xabcdef01u}, 0xabcd5678u},
    {"v_fma_f32 rounds once", VOP3(0x213), {0x4b800000u, 0x3f800000u, 0x3f000000u}, 0x4b800000u},
    {"v_fma_f32, exact product", VOP3(0x213), {0x3f800001u, 0x3f800001u, 0xbf800002u}, 0x28800000u},
    {"v_alignbit_b32", VOP3(0x216), {0x11223344u, 0x55667788u, 8}, 0x44556677u},
    {"v_lshl_add_u32", VOP3(0x246), {3, 4, 5}, 53},
    {"v_add_lshl_u32", VOP3(0x247), {3, 4, 5}, 224},
    {"v_add3_u32", VOP3(0x255), {0xffffffffu, 4, 5}, 8},
    {"v_lshl_or_b32", VOP3(0x256), {3, 4, 0x101}, 0x131},
    {"v_and_or_b32", VOP3(0x257), {0xff, 0x123, 0x1000}, 0x1023},
    {"v_or3_b32", VOP3(0x258), {1, 2, 4}, 7},
    {"v_perm_b32", VOP3(0x244), {0x11223344u, 0x55667788u, 0x0c000705u}, 0x00881133u},
    {"v_mul_lo_u32", VOP3(0x32c), {0x10001u, 0x10001u}, 0x20001u},
    {"v_mul_hi_u32", VOP3(0x32d), {0xffffffffu, 0xffffffffu}, 0xfffffffeu},
    {"v_mul_hi_i32", VOP3(0x32e), {0xffffffffu, 5}, 0xffffffffu},
    {"v_ldexp_f32", VOP3(0x31c), {0x3fc00000u, (uint32_t)-1}, 0x3f400000u},
    {"v_pk_fma_f16", VOP3P(14), {0x3c004000u, 0x40003c00u, 0x3c003c00u}, 0x42004200u},
    {"v_pk_mul_f16", VOP3P(16), {0x3c004000u, 0x40004000u}, 0x40004400u},
    {"v_pk_add_f16", VOP3P(15), {0x3c004000u, 0x40003c00u}, 0x42004200u},
};

static const struct {
  const char *name;
  uint32_t word, s[2], want;
} scalars[] = {
    {"s_add_u32", SOP2(0), {0xffffffffu, 2}, 1},
    {"s_sub_u32", SOP2(1), {1, 2}, 0xffffffffu},
    {"s_add_i32", SOP2(2), {3, 4}, 7},
    {"s_sub_i32", SOP2(3), {3, 4}, 0xffffffffu},
    {"s_lshl_b32, 33 is 1", SOP2(8), {0x40000001u, 33}, 0x80000002u},
    {"s_lshr_b32", SOP2(10), {0x80000010u, 4}, 0x08000001u},
    {"s_ashr_i32", SOP2(12), {0x80000010u, 4}, 0xf8000001u},
    {"s_min_i32", SOP2(18), {(uint32_t)-3, 2}, (uint32_t)-3},
    {"s_min_u32", SOP2(19), {(uint32_t)-3, 2}, 2},
    {"s_max_i32", SOP2(20), {(uint32_t)-3, 2}, 2},
    {"s_max_u32", SOP2(21), {(uint32_t)-3, 2}, (uint32_t)-3},
    {"s_and_b32", SOP2(22), {0xff00ff00u, 0x0ff00ff0u}, 0x0f000f00u},
    {"s_or_b32", SOP2(24), {0xff00ff00u, 0x0ff00ff0u}, 0xfff0fff0u},
    {"s_xor_b32", SOP2(26), {0xff00ff00u, 0x0ff00ff0u}, 0xf0f0f0f0u},
    {"s_bfe_u32", SOP2(38), {0x12345678u, 12u << 16 | 8}, 0x456},
    {"s_bfe_i32", SOP2(39), {0x00000f00u, 4u << 16 | 8}, 0xffffffffu},
    {"s_bfm_b32", SOP2(42), {4, 8}, 0xf00},
    {"s_mul_i32", SOP2(44), {0x10001u, 0x10001u}, 0x20001u},
    {"s_mul_hi_u32", SOP2(45), {0xffffffffu, 0xffffffffu}, 0xfffffffeu},
    {"s_mul_hi_i32", SOP2(46), {0xffffffffu, 5}, 0xffffffffu},
};

static void literal(bench *b, uint32_t move, uint32_t v) { emit(b, move), emit(b, v); }

static void store(bench *b, uint32_t v) {
  const uint32_t w[] = {LOAD_ADDRESS, LANE_BYTES, WAIT_SCALAR, STORE(v), END};
  put(b, sizeof w / sizeof *w, w);
}

static void check_values(void) {
  static bench b;
  for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) {
    b.n = 0;
    for (uint32_t s = 0; s < 3; s++) literal(&b, MOVE_V(1 + s, LITERAL), vectors[k].v[s]);
    put(&b, vectors[k].word[1] ? 2 : 1, vectors[k].word);
    store(&b, 10);
    bool ok = run(&b, 1);
    CHECK(ok, "%s: %s", vectors[k].name, b.d.message);
    for (uint32_t l = 0; ok && l < LANES; l++)
      CHECK(b.out[l] == vectors[k].want, "%s, lane %u: %08x, not %08x", vectors[k].name, l, b.out[l], vectors[k].want);
  }
  for (size_t k = 0; k < sizeof scalars / sizeof *scalars; k++) {
    b.n = 0;
    for (uint32_t s = 0; s < 2; s++) literal(&b, SOP1(S_MOV_B32, 20 + s, LITERAL), scalars[k].s[s]);
    emit(&b, scalars[k].word), emit(&b, MOVE_V(10, 22));
    store(&b, 10);
    bool ok = run(&b, 1);
    CHECK(ok, "%s: %s", scalars[k].name, b.d.message);
    CHECK(!ok || b.out[5] == scalars[k].want, "%s: %08x, not %08x", scalars[k].name, b.out[5], scalars[k].want);
  }
}

/* ---- faults ---- */

/* v_lshlrev_b32 v11, 8, v10; v_readfirstlane_b32 s20, v11; s_bitcmp1_b32 s20, bit; s_cbranch_scc1 to the next. Nobody
 * wrote v10. */
#define TEST_OF_SHIFTED(bit)                                                                                        \
  (24u << 25 | 11u << 17 | 10u << 9 | 136u), (0x7E000000u | 20u << 17 | 2u << 9 | 267u),                            \
      (0xBF0D0000u | (128u + (bit)) << 8 | 20u), 0xBFA20000u

/* v_fma_mixlo_f16 v10, 1.0, 1.0, 1.0, which keeps the upper half of v10; v_and_b32 v11, 0xffff, v10. */
#define LOW_HALF 0xcc21000au, (242u | 242u << 9 | 242u << 18)
#define LOW_OF_SUM (27u << 25 | 11u << 17 | 10u << 9 | LITERAL), 0xffffu

/* v0: the lane; what the message must say, or NULL: nothing is wrong. */
static const struct {
  const char *name;
  uint32_t waves;
  const char *message;
  uint32_t word[24];
} programs[] = {
    {"a store", 1, NULL, {MOVE_V(10, 129), LOAD_ADDRESS, LANE_BYTES, WAIT_SCALAR, STORE(10), END}},
    {"no wait for the address", 1, "in flight", {MOVE_V(10, 129), LOAD_ADDRESS, LANE_BYTES, STORE(10), END}},
    {"a register that nobody wrote", 1, "nobody wrote", {LOAD_ADDRESS, LANE_BYTES, WAIT_SCALAR, STORE(10), END}},
    {"a store behind the buffer",
     2,
     "where no memory is",
     {MOVE_V(10, 129), LOAD_ADDRESS, LANE_BYTES, WAIT_SCALAR, STORE(10), END}},
    {"LOCAL and back",
     1,
     NULL,
     {MOVE_V(10, 129), LOAD_ADDRESS, LANE_BYTES, LOCAL_STORE(10), WAIT_SCALAR, LOCAL_LOAD(11, 0), WAIT_SCALAR,
      STORE(11), END}},
    {"no wait for LOCAL",
     1,
     "in flight",
     {MOVE_V(10, 129), LOAD_ADDRESS, LANE_BYTES, LOCAL_STORE(10), WAIT_SCALAR, LOCAL_LOAD(11, 0), STORE(11), END}},
    {"LOCAL that nobody wrote",
     1,
     "nobody wrote",
     {LOAD_ADDRESS, LANE_BYTES, LOCAL_LOAD(11, 0), WAIT_SCALAR, STORE(11), END}},
    {"two waves write one place of LOCAL",
     2,
     "race",
     {MOVE_V(10, 129), (27u << 25 | 0u << 17 | 0u << 9 | 159u) /* v_and_b32 v0, 31, v0 */, LANE_BYTES, LOCAL_STORE(10),
      WAIT_SCALAR, END}},
    {"with a barrier between they do not",
     2,
     NULL,
     {MOVE_V(10, 129), LANE_BYTES, LOCAL_STORE(10), WAIT_SCALAR, SOPP(S_BARRIER, 0), LOCAL_LOAD(11, 0), WAIT_SCALAR,
      END}},
    {"a test of a bit that is written, beside others that are not", 1, NULL, {TEST_OF_SHIFTED(7), END}},
    {"a test of a bit that nobody wrote", 1, "a branch by SCC", {TEST_OF_SHIFTED(8), END}},
    {"a half that is written, beside one that is not",
     1,
     NULL,
     {LOW_HALF, LOW_OF_SUM, LOAD_ADDRESS, LANE_BYTES, WAIT_SCALAR, STORE(11), END}},
    {"the half beside it", 1, "nobody wrote (ffff0000)", {LOW_HALF, LOAD_ADDRESS, LANE_BYTES, WAIT_SCALAR, STORE(10), END}},
    {"no such instruction", 1, "unknown instruction", {0xbfff0000u, END}},
    {"LOCAL beyond its end",
     1,
     "of LOCAL, which has 512",
     {MOVE_V(10, 129), (24u << 25 | 0u << 17 | 0u << 9 | 136u) /* v_lshlrev_b32 v0, 8, v0 */, LOCAL_STORE(10),
      WAIT_SCALAR, END}},
};

static void check_programs(void) {
  static bench b;
  for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
    b.n = 0;
    put(&b, 24, programs[k].word);
    bool ok = run(&b, programs[k].waves);
    if (!programs[k].message)
      CHECK(ok, "%s: %s", programs[k].name, b.d.message);
    else
      CHECK(!ok && strstr(b.d.message, programs[k].message), "%s: %s", programs[k].name,
            ok ? "nothing reported" : b.d.message);
  }
}

int main(void) {
  check_values();
  check_programs();
  return TEST_END();
}
