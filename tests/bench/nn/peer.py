# SPDX-License-Identifier: MIT
"""Runs PyTorch for `tg bench nn`, which starts this program and talks to it over its standard input and output.

The first line out: ready VERSION, or none REASON. Then a line in, a line out:
  OPERATION ROWS COLUMNS THREADS N     seconds of N runs, or none REASON
One thread: seconds of this process; more: of the clock. Operands are f32, made anew when the case changes. Rotary embedding
has heads of 128 elements, or one of all columns where 128 does not divide them."""
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print("none", missing, flush=True)
    sys.exit()


def rotary(x, cosine, sine):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


def make(operation, rows, columns):
    x, weight, bias = torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)
    if operation == "rotary":
        head = 128 if columns % 128 == 0 else columns
        x = x.view(rows, columns // head, head)
        angle = torch.rand(rows, 1, head // 2)
        cosine, sine = torch.cos(angle), torch.sin(angle)
        return lambda: rotary(x, cosine, sine)
    if operation == "cross_entropy":
        target = torch.randint(0, columns, (rows,))
        return lambda: F.cross_entropy(x, target, reduction="none")
    gate = torch.randn(rows, columns) if operation == "swiglu" else None
    return {
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "layernorm": lambda: F.layer_norm(x, (columns,), weight, bias),
        "rmsnorm": lambda: F.rms_norm(x, (columns,), weight, 1e-5),
        "gelu": lambda: F.gelu(x),
        "silu": lambda: F.silu(x),
        "swiglu": lambda: F.silu(x) * gate,
    }[operation]


print("ready", torch.__version__, flush=True)
torch.set_grad_enabled(False)
case, run = None, None
for line in sys.stdin:
    operation, *numbers = line.split()
    rows, columns, threads, repeat = map(int, numbers)
    try:
        if case != (operation, rows, columns, threads):
            torch.set_num_threads(threads)
            case, run = (operation, rows, columns, threads), make(operation, rows, columns)
            run()
        clock = time.process_time if threads == 1 else time.perf_counter
        start = clock()
        for _ in range(repeat):
            run()
        print(repr(clock() - start), flush=True)
    except Exception as why:
        print("none", str(why).replace("\n", " "), flush=True)
