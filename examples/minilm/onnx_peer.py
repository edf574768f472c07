# SPDX-License-Identifier: MIT
"""The encoder as a model of ONNX in the form that is fastest in ONNX Runtime: its own fused operators (attention over
one product for Q, K and V, layer normalisation with the residual, gelu with the bias) instead of the standard's small
ones. Needs the packages onnx and onnxruntime."""
import numpy
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

FUSED = "com.microsoft"


class Graph:
    """Nodes and weights of one model; each method adds a node and gives the name of its result."""

    def __init__(self):
        self.nodes, self.weights = [], {}

    def weight(self, name, tensor):
        self.weights[name] = numpy_helper.from_array(numpy.ascontiguousarray(tensor.numpy()), name)
        return name

    def add(self, op, inputs, domain="", outputs=1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0]


def layer(g, t, n, x, lengths, heads):
    p = f"encoder.layer.{n}."
    parts = [p + "attention.self." + part for part in ("query", "key", "value")]
    weight = g.weight(p + "qkv", torch.cat([t[part + ".weight"] for part in parts]).T)
    bias = g.weight(p + "qkv.bias", torch.cat([t[part + ".bias"] for part in parts]))
    a = g.add("Attention", [x, weight, bias, lengths], FUSED, num_heads=heads)

    def product(name, of):
        return g.add("MatMul", [of, g.weight(name + ".weight", t[name + ".weight"].T)])

    def normed(name, of, beside, bias_name):
        return g.add("SkipLayerNormalization",
                     [of, beside, g.weight(name + ".weight", t[name + ".weight"]),
                      g.weight(name + ".bias", t[name + ".bias"]), g.weight(bias_name, t[bias_name])],
                     FUSED, epsilon=1e-12)

    x = normed(p + "attention.output.LayerNorm", product(p + "attention.output.dense", a), x,
               p + "attention.output.dense.bias")
    wide = p + "intermediate.dense"
    h = g.add("BiasGelu", [product(wide, x), g.weight(wide + ".bias", t[wide + ".bias"])], FUSED)
    return normed(p + "output.LayerNorm", product(p + "output.dense", h), x, p + "output.dense.bias")


def model(t, heads):
    g, e, n = Graph(), "embeddings.", 0
    g.nodes.append(helper.make_node(
        "EmbedLayerNormalization",
        ["ids", "", g.weight("words", t[e + "word_embeddings.weight"] + t[e + "token_type_embeddings.weight"][0]),
         g.weight("positions", t[e + "position_embeddings.weight"]), "",
         g.weight("gamma", t[e + "LayerNorm.weight"]), g.weight("beta", t[e + "LayerNorm.bias"]), "mask"],
        ["x", "lengths"], domain=FUSED, epsilon=1e-12))
    x = "x"
    while f"encoder.layer.{n}.output.dense.weight" in t:
        x, n = layer(g, t, n, x, "lengths", heads), n + 1
    g.nodes.append(helper.make_node("Identity", [x], ["y"]))
    ids = [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "tokens"]) for name in ("ids", "mask")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "tokens", "width"])
    graph = helper.make_graph(g.nodes, "encoder", ids, [y], list(g.weights.values()))
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14),
                                                                  helper.make_opsetid(FUSED, 1)])


def session(tensors, heads, threads):
    """The version, and a function of ids and mask ([sentences][tokens]) that gives [sentences][width]."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    runs = onnxruntime.InferenceSession(model(tensors, heads).SerializeToString(), options, ["CPUExecutionProvider"])

    def run(ids, mask):
        feeds = {"ids": ids.to(torch.int32).numpy(), "mask": mask.to(torch.int32).numpy()}
        x, there = runs.run(["y"], feeds)[0], mask.numpy()[:, :, None].astype(numpy.float32)
        x = (x * there).sum(1) / there.sum(1)
        return torch.from_numpy(x / numpy.linalg.norm(x, axis=1, keepdims=True))

    return onnxruntime.__version__, run
