# SPDX-License-Identifier: MIT
"""Runs PyTorch or ONNX Runtime for `tg bench attention`, which starts this program and talks to it over its standard input and output.

usage: peers.py torch|onnxruntime DESCRIPTOR

DESCRIPTOR is that of shared memory which holds Q, K, V, with GRADIENTS 1 dO, and room for O or for dQ, dK, dV in f32, dense [batch][heads][tokens][head], one behind the other. A line in, a line out:
  open BATCH HEADS KV_HEADS QUERIES KEYS HEAD CAUSAL TYPE THREADS COPIES GRADIENTS BYTES   entries NAME|NAME.. or none REASON
  use I                                                                          ok, or none REASON
  run N     (N times, over each copy of K and V)                                 seconds
  result    (O, or gradients, of one run to the shared memory, as f32)                          ok
  close                                                                          ok
One thread: seconds of this process; more: of the clock."""
import mmap
import sys
import time

try:
    import numpy as np
except ImportError as missing:
    print("none", missing, flush=True)
    sys.exit()

TYPES = {"f32": (np.float32, 4), "f16": (np.float16, 2), "bf16": (np.uint16, 2)}


class Case:
    def __init__(self, words, memory):
        self.b, self.h, self.kv, self.q, self.k, self.d, self.causal = map(int, words[:7])
        if self.causal and self.q == 1:   # the one query sees all keys; is_causal would have it see the first alone
            self.causal = 0
        if self.causal and self.q != self.k:
            raise ValueError("its causal masks see the first key in the first row, not the last in the last")
        self.type, self.threads, self.copies, self.gradients, total = words[7], *map(int, words[8:12])
        shared = np.frombuffer(memory, dtype=np.uint8, count=total)
        kind, size = TYPES[self.type]
        at, self.tensors = 0, []
        for heads, tokens in ((self.h, self.q), (self.kv, self.k), (self.kv, self.k), (self.h, self.q))[:3 + self.gradients]:
            n = self.b * heads * tokens * self.d
            self.tensors.append(shared[at:at + n * size].view(kind).reshape(self.b, heads, tokens, self.d))
            at += n * size
        self.out = shared[at:].view(np.float32)
        if not self.gradients:
            self.out = self.out.reshape(self.b, self.h, self.q, self.d)


class Torch:
    def __init__(self):
        import torch
        self.torch = torch
        self.about = torch.__version__
        torch.set_grad_enabled(False)

    def open(self, case):
        torch = self.torch
        torch.set_num_threads(case.threads)
        kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[case.type]
        tensor = lambda x: torch.from_numpy(np.array(x)).view(kind)
        self.case, group = case, case.h // case.kv
        q = tensor(case.tensors[0])
        copies = [(tensor(case.tensors[1]), tensor(case.tensors[2])) for _ in range(case.copies)]
        sdpa, causal = torch.nn.functional.scaled_dot_product_attention, bool(case.causal)
        entries = {}
        if group == 1:
            entries["scaled_dot_product_attention"] = lambda i: sdpa(q, *copies[i], is_causal=causal)
        elif case.q == 1:   # queries that share a head of K and V are rows
            rows = q.reshape(case.b, case.kv, group, case.d)
            entries["scaled_dot_product_attention, heads as rows"] = lambda i: sdpa(rows, *copies[i])
        if group > 1:
            entries["scaled_dot_product_attention, enable_gqa"] = lambda i: sdpa(q, *copies[i], is_causal=causal, enable_gqa=True)
        return {name: self.backward(run, q, copies) for name, run in entries.items()} if case.gradients else entries

    # a run is the gradients alone, of an O that is computed once
    def backward(self, run, q, copies):
        inputs = (q, *copies[0])
        for x in inputs:
            x.requires_grad_()
        with self.torch.enable_grad():
            o = run(0)
        d_o = self.torch.from_numpy(np.array(self.case.tensors[3])).view(o.dtype).reshape(o.shape)
        return lambda i: self.torch.autograd.grad(o, inputs, d_o, retain_graph=True)

    def result(self, o):
        if self.case.gradients:
            return np.concatenate([x.float().numpy().ravel() for x in o])
        return o.float().numpy().reshape(self.case.out.shape)


class OnnxRuntime:
    def __init__(self):
        import onnx
        import onnxruntime
        self.onnx, self.ort = onnx, onnxruntime
        self.about = onnxruntime.__version__

    def session(self, node, inputs, case, opsets, ir):
        h = self.onnx.helper
        kind = {"f32": self.onnx.TensorProto.FLOAT, "f16": self.onnx.TensorProto.FLOAT16}[case.type]
        infos = [h.make_tensor_value_info(x, kind, list(shape)) for x, shape in inputs]
        out = h.make_tensor_value_info("y", kind, None)
        model = h.make_model(h.make_graph([node], "g", infos, [out]), opset_imports=[h.make_opsetid(*o) for o in opsets])
        model.ir_version = ir
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = case.threads, 1, 4
        return self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def open(self, case):
        if case.type == "bf16":
            raise ValueError("no attention in bf16 on CPUs")
        self.case, make = case, self.onnx.helper.make_node
        names, entries, failed = ("q", "k", "v"), {}, []

        def add(name, node, q, copies, opsets, ir):
            try:
                s = self.session(node, [(n, x.shape) for n, x in zip(names, (q,) + copies[0])], case, opsets, ir)
                feeds = [dict(zip(names, (q,) + c)) for c in copies]
                s.run(None, feeds[0])
                entries[name] = lambda i: s.run(None, feeds[i])[0]
            except Exception as e:
                failed.append("%s: %s" % (name, str(e).replace("\n", " ")[:200]))

        q, k, v = case.tensors
        q, copies = np.array(q), [(np.array(k), np.array(v)) for _ in range(case.copies)]
        add("ai.onnx Attention-23", make("Attention", names, ["y"], is_causal=case.causal), q, copies, [("", 23)], 10)
        if case.kv == case.h:
            tokens = lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1))
            copies = [(tokens(k), tokens(v)) for _ in range(case.copies)]
            add("com.microsoft MultiHeadAttention",
                make("MultiHeadAttention", names, ["y"], domain="com.microsoft", num_heads=case.h, unidirectional=case.causal),
                tokens(q), copies, [("", 17), ("com.microsoft", 1)], 9)
        if not entries:
            raise ValueError("; ".join(failed))
        return entries

    def result(self, o):
        c = self.case
        if o.ndim == 3:
            o = o.reshape(c.b, c.q, c.h, c.d).transpose(0, 2, 1, 3)
        return o.astype(np.float32)


def answer(peer, words, memory, state):
    if words[0] == "open":
        state["case"] = Case(words[1:], memory)
        state["entries"] = list(peer.open(state["case"]).items())
        return "entries " + "|".join(name for name, _ in state["entries"])
    if words[0] == "use":
        state["run"] = state["entries"][int(words[1])][1]
        state["run"](0)
        return "ok"
    if words[0] == "run":
        run, copies = state["run"], range(state["case"].copies)
        clock = time.process_time if state["case"].threads == 1 else time.perf_counter
        start = clock()
        for _ in range(int(words[1])):
            for i in copies:
                run(i)
        return "%.9g" % (clock() - start)
    if words[0] == "result":
        state["case"].out[...] = peer.result(state["run"](0))
        return "ok"
    state.clear()   # close
    return "ok"


def main():
    out, descriptor, state = sys.stdout, int(sys.argv[2]), {}
    sys.stdout = sys.stderr   # what a library prints is no answer
    try:
        peer = {"torch": Torch, "onnxruntime": OnnxRuntime}[sys.argv[1]]()
        print("ready", peer.about, file=out, flush=True)
    except Exception as e:
        print("none", str(e).replace("\n", " ")[:200], file=out, flush=True)
        return
    memory = None
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "open":
                memory = mmap.mmap(descriptor, int(words[-1]))
            text = answer(peer, words, memory, state)
        except Exception as e:
            text = "none " + (str(e) or type(e).__name__).replace("\n", " ")[:400]
        print(text, file=out, flush=True)


main()
