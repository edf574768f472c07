/* SPDX-License-Identifier: MIT
 * Calls of attention as procedures (ahead/procedure.h): the division of attention/divide.c, and the pieces of
 * attention/run.c and attention/backward_run.c, with the same bits. c: the call's words (ahead/attention.c); s: those
 * of one of its sequences; o, v: operands and values of a kernel. A piece gets the number x of its round, the
 * workspace of its thread, and the thread's number j. Pieces of packed sequences are counted before a call, in a table
 * with a row for each sequence: runs, merges and sums of those before it; of others each has as many as the longest. */
#include "ahead/attention.h"
#include "ahead/procedure.h"

const char tg_attention_division[] = TG_PROCEDURE(
  most_parts(heads, keys) {
    pieces = up(PIECES, heads);
    least = BACKWARD ? 1 : up(keys, SPLIT);
    return max(1, min(max(least, min(pieces, up(keys, LEAST))), MOST_PARTS));
  }

  divide(s, queries, keys) {
    one = queries == 1 && CAUSAL != TOP_LEFT && !(WINDOW && !CAUSAL) && !BACKWARD;
    skipped = one && WINDOW && !DROPOUT ? max(0, keys - WINDOW) : 0;
    keys = keys - skipped;
    by_head = one && HEADS_ARE_ROWS && !(QUERY_STARTS && LSE);
    heads = by_head || BACKWARD ? KV_HEADS : HEADS;
    rows = by_head ? HEADS / KV_HEADS : queries;
    block = LISTS && keys < BLOCK ? min(MOST_ROWS, FEW) : MOST_ROWS;
    blocks = up(rows, block);
    s[S_QUERIES] = queries; s[S_KEYS] = keys; s[S_SKIPPED] = skipped; s[S_HEADS_ARE_ROWS] = by_head;
    s[S_HEADS] = heads; s[S_ROWS] = rows; s[S_BLOCK] = block; s[S_BLOCKS] = blocks;
    s[S_LACKING] = CAUSAL && !LISTS && !BACKWARD && !by_head ? blocks * block - rows : 0;
    s[S_MOST] = 1; s[S_PARTS] = 1; s[S_PART] = keys; s[S_FLOATS] = 0;
    if (BACKWARD || MERGES)
      if (BACKWARD || rows <= FEW) {
        most = most_parts(heads, keys);
        part = max(1, up(up(keys, most), BLOCK)) * BLOCK;
        s[S_MOST] = most; s[S_PART] = part; s[S_PARTS] = max(1, up(keys, part));
        s[S_FLOATS] = most > 1 ? most * rows * FLOATS_OF_ROW : 0;
      }
  }

  queries_of(c, i) {
    return QUERY_STARTS ? i32(c[T_QUERY_STARTS], i + 1) - i32(c[T_QUERY_STARTS], i) : c[C_QUERIES];
  }

  room_of(c, i) { return KEY_STARTS ? i32(c[T_KEY_STARTS], i + 1) - i32(c[T_KEY_STARTS], i) : c[C_KEYS]; }

  keys_of(c, i) { return LENGTHS ? i32(c[T_LENGTHS], i) : room_of(c, i); }

  sequence(c, s, i) {
    divide(s, queries_of(c, i), keys_of(c, i));
    s[S_INDEX] = i; s[S_ROOM] = room_of(c, i);
    s[S_FIRST_QUERY] = QUERY_STARTS ? i32(c[T_QUERY_STARTS], i) : 0;
    s[S_FIRST_KEY] = KEY_STARTS ? i32(c[T_KEY_STARTS], i) : 0;
    first = c[C_FIRSTS] + 8 * F_WORDS * i;
    s[S_SUMS] = c[C_SUMS] + 4 * (STARTS ? first[F_FLOATS] : i * c[C_FLOATS]);
  }

  piece(c, s, x, of, each) {
    if (!STARTS) { sequence(c, s, x / each); return x % each; }
    low = 0; behind = c[C_BATCH]; first = c[C_FIRSTS];
    for (; behind - low > 1;) {
      middle = (low + behind) / 2;
      if (first[F_WORDS * middle + of] <= x) low = middle; else behind = middle;
    }
    sequence(c, s, low);
    return x - first[F_WORDS * low + of];
  }

  most_floats(c) {
    tokens = QUERY_STARTS ? c[C_QUERY_TOKENS] : c[C_BATCH] * c[C_QUERIES];
    rows = BACKWARD ? tokens : MERGES ? min(tokens, c[C_BATCH] * min(c[C_QUERIES], FEW)) : 0;
    most = most_parts(BACKWARD ? KV_HEADS : HEADS, c[C_KEYS]);
    if (HEADS_ARE_ROWS) most = max(most, most_parts(KV_HEADS, c[C_KEYS]));
    return most > 1 ? most * rows * (BACKWARD ? KV_HEADS : HEADS) * FLOATS_OF_ROW : 0;
  }

  needs(c, threads) {
    s = room(S_WORDS);
    divide(s, c[C_QUERIES], c[C_KEYS]);
    heads = s[S_HEADS]; batch = c[C_BATCH]; rows = s[S_ROWS];
    blocks = LENGTHS && LISTS ? up(s[S_ROWS], min(MOST_ROWS, FEW)) : s[S_BLOCKS];
    parts = LENGTHS ? s[S_MOST] : s[S_PARTS];
    c[C_RUNS_OF] = heads * parts * (BACKWARD ? 1 : blocks);
    c[C_MERGES_OF] = parts < 2 ? 0 : BACKWARD ? HEADS * blocks : heads;
    c[C_FLOATS] = heads * s[S_FLOATS];
    c[C_APPENDS] = APPEND ? batch * KV_HEADS : 0;
    c[C_RUNS] = batch * c[C_RUNS_OF]; c[C_MERGES] = batch * c[C_MERGES_OF];
    bytes = up(threads * side(), 64) * 64;
    c[C_SUMS] = bytes;
    bytes += 4 * (STARTS ? most_floats(c) : batch * c[C_FLOATS]);
    if (STARTS) {
      c[C_FIRSTS] = up(bytes, 8) * 8;
      bytes = c[C_FIRSTS] + 8 * F_WORDS * batch;
      if (HEADS_ARE_ROWS) rows = max(rows, HEADS / KV_HEADS);
    }
    c[C_TABLES] = 0; c[C_FINDS] = 0;
    if (LISTS)
      if (rows > FEW && c[C_KEYS]) {
        c[C_TABLES] = (LENGTHS || STARTS || BY_BATCH ? batch : 1) * (BY_HEAD ? HEADS : 1);
        c[C_STATE_ROWS] = up(rows, MOST_ROWS); c[C_STATE_KEYS] = up(c[C_KEYS], BLOCK);
        c[C_FINDS] = c[C_TABLES] * c[C_STATE_ROWS];
        c[C_STATES] = bytes;
        c[C_LISTS] = up(bytes + c[C_FINDS] * c[C_STATE_KEYS], 64) * 64;
        bytes = c[C_LISTS] + 8 * c[C_STATE_KEYS] * threads;
      }
    if (BACKWARD) {
      c[C_OWN] = up(bytes, 64) * 64;
      c[C_OWN_BYTES] = up(4 * OWN_FLOATS * min(max(s[S_PART], LEAST), c[C_KEYS]), 64) * 64;
      bytes = c[C_OWN] + c[C_OWN_BYTES] * threads;
    }
    return bytes ? bytes + 64 : 0;
  }

  place(c, memory) {
    c[C_MEMORY] = memory; c[C_SUMS] += memory; c[C_STATES] += memory; c[C_LISTS] += memory; c[C_OWN] += memory;
    if (STARTS) {
      s = room(S_WORDS); c[C_FIRSTS] += memory; runs = 0; merges = 0; floats = 0;
      for (i = 0; i < c[C_BATCH]; i += 1) {
        first = c[C_FIRSTS] + 8 * F_WORDS * i;
        first[F_RUNS] = runs; first[F_MERGES] = merges; first[F_FLOATS] = floats;
        sequence(c, s, i);
        runs += s[S_HEADS] * s[S_PARTS] * (BACKWARD ? 1 : s[S_BLOCKS]);
        if (s[S_PARTS] > 1 && s[S_ROWS]) merges += BACKWARD ? HEADS * s[S_BLOCKS] : s[S_HEADS];
        floats += s[S_HEADS] * s[S_FLOATS];
      }
      c[C_RUNS] = runs; c[C_MERGES] = merges;
    }
  }

  element(c, t, i, j, k, l) {
    return c[t] + c[t + 5] * (i * c[t + 1] + j * c[t + 2] + k * c[t + 3] + l * c[t + 4]);
  }

  key_at(c, t, i, head, key) {
    if (PAGE) return element(c, t, i32(c[T_TABLE], i * c[C_TABLE_STEP] + key / PAGE), head, key % PAGE, 0);
    return element(c, t, i, head, key, 0);
  });

/* Whether lists of a call, and numbers that depend on them, are right. */
const char tg_attention_checks[] = TG_PROCEDURE(
  starts_fit(c, starts, tokens, least, most) {
    for (i = 0; i < c[C_BATCH]; i += 1) {
      n = i32(starts, i + 1) - i32(starts, i);
      if (i32(starts, i) < 0 || n < 0 || n > most || (n && n < least)) return 0;
    }
    return i32(starts, c[C_BATCH]) <= tokens;
  }

  query_starts_fit(c) {
    if (QUERY_STARTS) return starts_fit(c, c[T_QUERY_STARTS], c[C_QUERY_TOKENS], LEAST_QUERIES, c[C_QUERIES]);
    return 1;
  }

  key_starts_fit(c) {
    if (KEY_STARTS) return starts_fit(c, c[T_KEY_STARTS], c[C_KEY_TOKENS], LEAST_KEYS, c[C_KEYS]);
    return 1;
  }

  lengths_fit(c) {
    for (i = 0; i < c[C_BATCH]; i += 1)
      if (i32(c[T_LENGTHS], i) < 0 || i32(c[T_LENGTHS], i) > room_of(c, i)) return 0;
    return 1;
  }

  tables_fit(c) {
    if (c[C_TABLE_STEP] < up(c[C_KEYS], PAGE)) return 0;
    for (i = 0; i < c[C_BATCH]; i += 1) {
      pages = up(keys_of(c, i), PAGE);
      for (k = 0; k < pages; k += 1) {
        page = i32(c[T_TABLE], i * c[C_TABLE_STEP] + k);
        if (page < 0 || page >= c[C_PAGES]) return 0;
      }
    }
    return 1;
  }

  queries_fit(c) {
    for (i = 0; i < c[C_BATCH]; i += 1)
      if (queries_of(c, i) > keys_of(c, i)) return 0;
    return 1;
  }

  angles_fit(c) { return c[C_POSITIONS] >= (CAUSAL == TOP_LEFT ? max(c[C_KEYS], c[C_QUERIES]) : c[C_KEYS]); });

const char tg_attention_gathering[] = TG_PROCEDURE(
  gather(c, s, head, block, part, o, v) {
    group = HEADS / KV_HEADS; by_head = s[S_HEADS_ARE_ROWS]; i = s[S_INDEX];
    from = max(0, block * s[S_BLOCK] - s[S_LACKING]);
    kv_head = by_head ? head : head / group;
    q_head = by_head ? head * group + from : head;
    query = by_head ? 0 : from;
    key = s[S_SKIPPED] + part * s[S_PART];
    first_query = s[S_FIRST_QUERY]; first_key = s[S_FIRST_KEY];
    v[V_ROWS] = min(s[S_ROWS], (block + 1) * s[S_BLOCK] - s[S_LACKING]) - from;
    v[V_KEYS] = max(0, min(s[S_KEYS] - part * s[S_PART], s[S_PART]));
    o[O_Q] = element(c, T_Q, i, q_head, first_query + query, 0); v[V_LDQ] = by_head ? c[T_Q + 2] : c[T_Q + 3];
    o[O_O] = element(c, T_O, i, q_head, first_query + query, 0); v[V_LDO] = by_head ? max(1, c[T_O + 2]) : c[T_O + 3];
    o[O_K] = PAGE ? element(c, T_K, 0, kv_head, 0, 0) : element(c, T_K, i, kv_head, first_key + key, 0);
    o[O_V] = PAGE ? element(c, T_V, 0, kv_head, 0, 0) : element(c, T_V, i, kv_head, first_key + key, 0);
    v[V_LDK] = c[T_K + 3]; v[V_LDV] = c[T_V + 3];
    stands = CAUSAL == BOTTOM_RIGHT ? s[S_SKIPPED] + s[S_KEYS] - s[S_QUERIES] : 0;
    v[V_AT] = by_head ? s[S_KEYS] : stands + query - key;
    v[V_WINDOW] = by_head ? 2147483648 : WINDOW;
    v[V_QUERY0] = query; v[V_KEY0] = key; v[V_BATCH] = i; v[V_HEAD] = q_head;
    o[O_SCALE] = c[C_SCALE]; o[O_CAP] = c[C_CAP]; o[O_CHANGE] = c[C_CHANGE];
    o[O_SLOPE] = c[T_SLOPE] + 4 * q_head;
    o[O_SINK] = c[T_SINK] + 4 * q_head; v[V_SINK_STEP] = by_head;
    if (PAGE) {
      o[O_TABLE] = c[T_TABLE] + 4 * (i * c[C_TABLE_STEP] + key / PAGE);
      v[V_PAGES] = c[C_PAGES]; v[V_PAGE_AT] = key % PAGE / PAGE_UNIT;
      v[V_TABLE_N] = max(1, up(key % PAGE + v[V_KEYS], PAGE));
      v[V_K_PAGE] = c[T_K + 1]; v[V_V_PAGE] = c[T_V + 1];
    }
    if (KV_BITS) {
      scaled = PAGE ? 0 : first_key + key; page = PAGE ? 0 : i;
      o[O_K_SCALE] = element(c, T_K_SCALE, page, kv_head, scaled, 0);
      o[O_V_SCALE] = element(c, T_V_SCALE, page, kv_head, scaled, 0);
      v[V_LDKS] = c[T_K_SCALE + 3]; v[V_LDVS] = c[T_V_SCALE + 3];
      v[V_KS_PAGE] = c[T_K_SCALE + 1]; v[V_VS_PAGE] = c[T_V_SCALE + 1];
    }
    if (BLOCK_ROWS) {
      o[O_BLOCKS] = element(c, T_BLOCKS, i, q_head, 0, 0);
      v[V_BLOCKS_M] = up(c[C_QUERIES], BLOCK_ROWS); v[V_BLOCKS_N] = up(c[C_KEYS], BLOCK_KEYS);
      v[V_BLOCKS_Q] = c[T_BLOCKS + 3]; v[V_BLOCKS_K] = c[T_BLOCKS + 4];
    }
    if (ROTARY) {
      o[O_COS] = c[T_COS]; o[O_SIN] = c[T_SIN];
      v[V_POSITIONS] = max(1, c[C_POSITIONS]); v[V_TURN_K] = key; v[V_TURN_STEP] = !by_head;
      v[V_TURN_Q] = (CAUSAL == TOP_LEFT ? 0 : s[S_SKIPPED] + s[S_KEYS] - s[S_QUERIES]) + query;
    }
    o[O_PHILOX] = c + 8 * C_PHILOX; v[V_STREAM] = i * HEADS + q_head;
    for (a = MASK ? 0 : 1; a <= ARGUMENTS; a += 1) {
      t = T_MASK + OF_TENSOR * a; through = c[t + 6];
      o[O_MASK + a] = element(c, t, i, q_head, query + through * first_query, key + through * first_key);
      v[V_STEPS + 2 * a] = c[t + 3]; v[V_STEPS + 2 * a + 1] = c[t + 4];
    }
  }

  lse_at(c, s, head, query) {
    q_head = s[S_HEADS_ARE_ROWS] ? head * (HEADS / KV_HEADS) : head;
    if (QUERY_STARTS) return c[T_LSE] + 4 * (q_head * c[C_QUERY_TOKENS] + s[S_FIRST_QUERY] + query);
    return c[T_LSE] + 4 * ((s[S_INDEX] * HEADS + q_head) * c[C_QUERIES] + query);
  });

const char tg_attention_forward[] = TG_PROCEDURE(
  append(c, x, own, j) {
    s = room(S_WORDS); head = x % KV_HEADS;
    sequence(c, s, x / KV_HEADS);
    for (i = 0; i < s[S_QUERIES]; i += 1) {
      key = s[S_FIRST_KEY] + s[S_SKIPPED] + s[S_KEYS] - s[S_QUERIES] + i; query = s[S_FIRST_QUERY] + i;
      copy(key_at(c, T_K, s[S_INDEX], head, key), element(c, T_NEW, s[S_INDEX], head, query, 0), K_BYTES);
      copy(key_at(c, T_V, s[S_INDEX], head, key), element(c, T_V_NEW, s[S_INDEX], head, query, 0), V_BYTES);
    }
  }

  states_of(c, s, head, block) {
    table = BY_HEAD ? head : 0;
    if (LENGTHS || STARTS || BY_BATCH) table += s[S_INDEX] * (BY_HEAD ? HEADS : 1);
    return c[C_STATES] + (table * c[C_STATE_ROWS] + block) * c[C_STATE_KEYS];
  }

  state_of(v, mask, from) {
    rows = v[V_ROWS]; last = min(from + BLOCK, v[V_KEYS]) - 1; at = v[V_AT]; query = v[V_QUERY0];
    whole = last == from + BLOCK - 1; some = 1; seen = 0; all = 0;
    if (CAUSAL) { whole = whole && last <= at; some = from <= at + rows - 1; }
    if (WINDOW) { whole = whole && at + rows - 1 - from < WINDOW; some = some && at - last < WINDOW; }
    if (WINDOW && !CAUSAL) { whole = whole && last - at < WINDOW; some = some && from - (at + rows - 1) < WINDOW; }
    if (!some) return UNSEEN;
    for (i = query / BLOCK_ROWS; i <= (query + rows - 1) / BLOCK_ROWS; i += 1)
      for (k = from / BLOCK_KEYS; k <= last / BLOCK_KEYS; k += 1) {
        all += 1;
        if (u8(mask, i * v[V_BLOCKS_Q] + k * v[V_BLOCKS_K])) seen += 1;
      }
    return !seen ? UNSEEN : whole && seen == all ? AS_A_WHOLE : IN_PART;
  }

  find(c, x, own, j) {
    s = room(S_WORDS); o = room(O_WORDS); v = room(V_WORDS);
    rows = c[C_STATE_ROWS]; block = x % rows; head = BY_HEAD ? x / rows % HEADS : 0;
    sequence(c, s, x / rows / (BY_HEAD ? HEADS : 1));
    if (block >= s[S_BLOCKS] || s[S_ROWS] <= FEW || s[S_KEYS] < BLOCK) return;
    gather(c, s, head, block, 0, o, v);
    state = states_of(c, s, head, block);
    o[O_STATES] = state;
    if (STATES) launch_states(o, v, own);
    if (BLOCK_ROWS)
      for (k = 0; k * BLOCK < v[V_KEYS]; k += 1) {
        of_blocks = state_of(v, o[O_BLOCKS], k * BLOCK);
        if (STATES) of_blocks = min(of_blocks, u8(state, k));
        u8(state, k) = of_blocks;
      }
  }

  list_blocks(c, s, head, block, j, o, v) {
    state = states_of(c, s, head, block); full = 0; cut = 0;
    whole = c[C_LISTS] + 8 * j * c[C_STATE_KEYS]; part = whole + 4 * c[C_STATE_KEYS];
    for (k = 0; k < up(v[V_KEYS], BLOCK); k += 1) {
      if (u8(state, k) == AS_A_WHOLE) { i32(whole, full) = k; full += 1; }
      if (u8(state, k) == IN_PART) { i32(part, cut) = k; cut += 1; }
    }
    o[O_FULL] = whole; o[O_CUT] = part; v[V_FULL_N] = full; v[V_CUT_N] = cut;
  }

  run(c, x, own, j) {
    s = room(S_WORDS); o = room(O_WORDS); v = room(V_WORDS);
    x = piece(c, s, x, F_RUNS, c[C_RUNS_OF]); parts = s[S_PARTS]; part = x % parts;
    head = x / parts / s[S_BLOCKS]; block = s[S_BLOCKS] - 1 - x / parts % s[S_BLOCKS];
    if (head >= s[S_HEADS]) return;
    gather(c, s, head, block, part, o, v);
    rows = v[V_ROWS];
    if (LISTS) if (c[C_TABLES] && rows > FEW) list_blocks(c, s, head, block, j, o, v);
    if (MERGES)
      if (parts > 1) {
        mine = s[S_SUMS] + 4 * head * s[S_FLOATS];
        m = mine + 4 * parts * s[S_ROWS] * VALUE_HEAD; l = m + 4 * parts * s[S_ROWS];
        o[O_O] = mine + 4 * part * rows * VALUE_HEAD; o[O_M] = m + 4 * part * rows; o[O_L] = l + 4 * part * rows;
        launch_partial(o, v, own, rows);
        return;
      }
    if (LSE) o[O_LSE] = lse_at(c, s, head, max(0, block * s[S_BLOCK] - s[S_LACKING]));
    if (v[V_KEYS]) { launch_whole(o, v, own, rows); return; }
    for (i = 0; i < rows; i += 1) {
      zero(o[O_O] + i * v[V_LDO] * O_BYTES, VALUE_HEAD * O_BYTES);
      if (LSE) { i32(o[O_LSE], i) = MINUS_INFINITY; if (SINKS) i32(o[O_LSE], i) = i32(o[O_SINK], i * v[V_SINK_STEP]); }
    }
  }

  merge(c, x, own, j) {
    s = room(S_WORDS); o = room(O_WORDS); v = room(V_WORDS); head = piece(c, s, x, F_MERGES, c[C_MERGES_OF]);
    if (s[S_PARTS] < 2) return;
    gather(c, s, head, 0, 0, o, v);
    o[O_Q] = s[S_SUMS] + 4 * head * s[S_FLOATS];
    o[O_M] = o[O_Q] + 4 * s[S_PARTS] * s[S_ROWS] * VALUE_HEAD; o[O_L] = o[O_M] + 4 * s[S_PARTS] * s[S_ROWS];
    if (LSE) o[O_LSE] = lse_at(c, s, head, 0);
    v[V_PARTS] = s[S_PARTS];
    launch_merge(o, v, own);
  });

const char tg_attention_gradients[] = TG_PROCEDURE(
  of_query(c, s, t, head, query) { return element(c, t, s[S_INDEX], head, s[S_FIRST_QUERY] + query, 0); }
  of_key(c, s, t, head, key) { return element(c, t, s[S_INDEX], head, s[S_FIRST_KEY] + key, 0); }

  parts_at(s, head, block) { return s[S_SUMS] + 4 * (head * s[S_ROWS] + block * s[S_BLOCK]) * s[S_PARTS] * HEAD; }

  zero_keys(c, s, head, key, behind) {
    for (; key < behind; key += 1) {
      zero(of_key(c, s, T_DK, head, key), HEAD * K_SIZE);
      zero(of_key(c, s, T_DV, head, key), VALUE_HEAD * V_SIZE);
    }
  }

  of_block(c, s, head, block, part, dk, dv, own) {
    o = room(O_WORDS); v = room(V_WORDS); query = block * s[S_BLOCK];
    gather(c, s, head, block, part, o, v);
    o[O_DO] = of_query(c, s, T_DO, head, query); v[V_LDDO] = c[T_DO + 3];
    o[O_LSE] = lse_at(c, s, head, query);
    o[O_DK] = dk; v[V_LDDK] = K_APART ? HEAD : c[T_DK + 3];
    o[O_DV] = dv; v[V_LDDV] = V_APART ? VALUE_HEAD : c[T_DV + 3];
    o[O_DQ] = of_query(c, s, T_DQ, head, query); v[V_LDDQ] = c[T_DQ + 3];
    if (s[S_PARTS] > 1) {
      o[O_DQ] = parts_at(s, head, block) + 4 * part * v[V_ROWS] * HEAD;
      launch_partial(o, v, own, v[V_ROWS]);
    } else launch_whole(o, v, own, v[V_ROWS]);
  }

  run(c, x, own, j) {
    s = room(S_WORDS); o = room(O_WORDS); v = room(V_WORDS);
    x = piece(c, s, x, F_RUNS, c[C_RUNS_OF]); head = x % KV_HEADS; part = x / KV_HEADS;
    if (part >= s[S_PARTS]) return;
    key = part * s[S_PART]; n = min(s[S_PART], s[S_KEYS] - key); group = HEADS / KV_HEADS;
    sums = c[C_OWN] + j * c[C_OWN_BYTES];
    dk = K_APART ? sums : of_key(c, s, T_DK, head, key);
    if (K_APART) sums += 4 * n * HEAD;
    dv = V_APART ? sums : of_key(c, s, T_DV, head, key);
    for (i = 0; i < n; i += 1) {
      zero(dk + 4 * i * (K_APART ? HEAD : c[T_DK + 3]), 4 * HEAD);
      zero(dv + 4 * i * (V_APART ? VALUE_HEAD : c[T_DV + 3]), 4 * VALUE_HEAD);
    }
    if (part == s[S_PARTS] - 1) zero_keys(c, s, head, s[S_KEYS], s[S_ROOM]);
    for (h = head * group; h < (head + 1) * group; h += 1) {
      if (n > 0) for (b = 0; b < s[S_BLOCKS]; b += 1) of_block(c, s, h, b, part, dk, dv, own);
      if (n <= 0) for (q = 0; q < s[S_ROWS]; q += 1) zero(of_query(c, s, T_DQ, h, q), HEAD * Q_SIZE);
    }
    v[V_PARTS] = 1; v[V_ROWS] = n;
    if (n <= 0) return;
    if (K_APART) {
      o[O_Q] = dk; o[O_DQ] = of_key(c, s, T_DK, head, key); v[V_LDDQ] = c[T_DK + 3];
      launch_sum_dk(o, v, own);
    }
    if (V_APART) {
      o[O_Q] = dv; o[O_DQ] = of_key(c, s, T_DV, head, key); v[V_LDDQ] = c[T_DV + 3];
      launch_sum_dv(o, v, own);
    }
  }

  merge(c, x, own, j) {
    s = room(S_WORDS); o = room(O_WORDS); v = room(V_WORDS);
    x = piece(c, s, x, F_MERGES, c[C_MERGES_OF]); head = x / s[S_BLOCKS]; block = x % s[S_BLOCKS];
    if (s[S_PARTS] < 2) return;
    o[O_Q] = parts_at(s, head, block); o[O_DQ] = of_query(c, s, T_DQ, head, block * s[S_BLOCK]);
    v[V_ROWS] = min(s[S_BLOCK], s[S_ROWS] - block * s[S_BLOCK]);
    v[V_PARTS] = s[S_PARTS]; v[V_LDDQ] = c[T_DQ + 3];
    launch_sum_dq(o, v, own);
  });
