# SPDX-License-Identifier: MIT
"""The encoder's layers in PyTorch and ONNX Runtime, from the same file: compares the embeddings of minilm --out, and
times both, each as one padded batch, in batches of 8 of about the same length, and sentence by sentence.

  python reference.py MODEL EMBEDDINGS IDS [--time]     IDS: the file that minilm --ids writes
"""
import json
import struct
import sys
import time

import torch
import torch.nn.functional as F

HEADS = 12


def read(path):
    """The tensors of a safetensors file, by name."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(data[8 + length + start:8 + length + end]), dtype=torch.float32)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def linear(t, name, x):
    return F.linear(x, t[name + ".weight"], t[name + ".bias"])


def norm(t, name, x):
    return F.layer_norm(x, x.shape[-1:], t[name + ".weight"], t[name + ".bias"], 1e-12)


def encode(t, ids, mask):
    """[sentences][tokens] numbers and which of them are there, to [sentences][width]."""
    batch, tokens = ids.shape
    e = "embeddings."
    x = t[e + "word_embeddings.weight"][ids] + t[e + "position_embeddings.weight"][:tokens]
    x = norm(t, e + "LayerNorm", x + t[e + "token_type_embeddings.weight"][0])
    seen = None if mask.all() else mask[:, None, None, :]
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in t:
        p = f"encoder.layer.{layer}."
        q, k, v = (linear(t, p + "attention.self." + n, x).view(batch, tokens, HEADS, -1).transpose(1, 2)
                   for n in ("query", "key", "value"))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(x.shape)
        x = norm(t, p + "attention.output.LayerNorm", x + linear(t, p + "attention.output.dense", a))
        h = F.gelu(linear(t, p + "intermediate.dense", x))
        x = norm(t, p + "output.LayerNorm", x + linear(t, p + "output.dense", h))
        layer += 1
    there = mask[:, :, None].to(x.dtype)
    return F.normalize((x * there).sum(1) / there.sum(1), dim=1)


def batches(sentences, most=32):
    """Padded batches of at most `most` sentences, the shortest first, so that little is padded."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    for at in range(0, len(order), most):
        some = order[at:at + most]
        longest = max(len(sentences[i]) for i in some)
        ids = torch.zeros(len(some), longest, dtype=torch.int64)
        mask = torch.zeros(len(some), longest, dtype=torch.bool)
        for row, i in enumerate(some):
            ids[row, :len(sentences[i])] = torch.tensor(sentences[i])
            mask[row, :len(sentences[i])] = True
        yield some, ids, mask


def time_of(run, parts):
    """Seconds for all batches: the best of at least 3 runs, for at least a second."""
    best, begin, runs = float("inf"), time.perf_counter(), 0
    while runs < 3 or time.perf_counter() - begin < 1:
        start = time.perf_counter()
        for _, ids, mask in parts:
            run(ids, mask)
        best, runs = min(best, time.perf_counter() - start), runs + 1
    return best


def report(name, run, sentences):
    """Times each form, and prints the fastest."""
    forms = sorted({1, 8, len(sentences)})
    times = {size: time_of(run, list(batches(sentences, size))) for size in forms}
    size = min(times, key=times.get)
    tokens = sum(len(s) for s in sentences)
    print(f"{name}: {times[size] * 1e3:.3f} ms, {len(sentences) / times[size]:.0f} sentences a second, "
          f"{tokens / times[size]:.0f} tokens a second (batches of {size}; "
          + ", ".join(f"of {s}: {t * 1e3:.1f} ms" for s, t in times.items()) + ")")


def compare(name, got, want):
    """The least cosine between rows of the two, printed; true: it is 1 to 1e-5."""
    cosine = F.cosine_similarity(got.double(), want, dim=1).min().item()
    error = (got.double() - want).abs().max().item()
    print(f"{len(got)} sentences, {name} against PyTorch in float64: least cosine 1 - {1 - cosine:.1e}, "
          f"largest error {error:.1e}")
    return 1 - cosine < 1e-5


def gathered(run, parts, want):
    """The embeddings of all batches, in the sentences' order."""
    all_rows = torch.empty(want.shape)
    for some, ids, mask in parts:
        all_rows[some] = run(ids, mask)
    return all_rows


def main():
    model, embeddings, ids_file = sys.argv[1:4]
    with open(ids_file, encoding="ascii") as file:
        sentences = [[int(word) for word in line.split()] for line in file]
    with open(embeddings, "rb") as file:
        got = torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(len(sentences), -1)
    tensors = read(model + "/model.safetensors")
    parts = list(batches(sentences))
    threads, ok = torch.get_num_threads(), True
    with torch.inference_mode():
        exact = {name: tensor.double() for name, tensor in tensors.items()}
        want = torch.empty(got.shape, dtype=torch.float64)
        for some, ids, mask in parts:
            want[some] = encode(exact, ids, mask)
        ok &= compare("tg", got, want)
        if "--time" in sys.argv:
            report(f"PyTorch {torch.__version__}, {threads} threads", lambda ids, mask: encode(tensors, ids, mask),
                   sentences)
    if "--time" in sys.argv:
        try:
            import onnx_peer
        except ImportError as missing:
            print(f"ONNX Runtime: not compared: {missing}")
            return 0 if ok else 1
        version, run = onnx_peer.session(tensors, HEADS, threads)
        ok &= compare("ONNX Runtime", gathered(run, parts, want), want)
        report(f"ONNX Runtime {version}, {threads} threads", run, sentences)
    return 0 if ok else 1


sys.exit(main())
