"""Bytecode of small functions with what Python answers: the reference of bytecode.test.ts.

    for python in python3.6 python3.7 python3.8 python3.9 python3.10 python3.11; do $python bytecode.py; done > all
    gzip -9n < all > bytecode.jsonl.gz

Functions with an `x` take a tensor; their answers are in bytecode.test.ts.
"""

import json
import math
import sys

K = 7
torch = F = None


def arithmetic(a, b):
    return [a + b, a - b, a * b, a / b, a // b, a % b, a**2, -a, +b, not a]


def in_place(a, b):
    c, d, e, f, g = a, a, a, a, a
    a += b
    b -= 5
    c *= 3
    d /= 2
    e //= 2
    f %= 3
    g **= 2
    return [a, b, c, d, e, f, g]


def compare(a, b):
    return [a < b, a <= b, a == b, a != b, a > b, a >= b, a is None, b is not None, a in [1, 2], b not in (1, 2)]


def chain(a, b, c):
    return [a < b < c, a <= b <= c, 1 < a + b < 9]


def choose(a, b):
    if a is None:
        return "none"
    if b is not None and a > b:
        return "more"
    elif a == b or not a:
        return "equal"
    c = a and b
    d = b or a
    return [c, d, "small" if a < 3 else "large"]


def loops(n):
    seen = []
    for i in range(n):
        if i == 1:
            continue
        if i == 6:
            break
        for j in range(2, 0, -1):
            if j > i:
                continue
            seen.append([i, j])
    else:
        seen.append("all")
    while n > 0:
        n -= 2
        if n == 2:
            break
        seen.append(n)
    return [seen, n]


def comprehend(n, k):
    inner = [i * k for i in range(n) if i % 2]
    pairs = [[i, j] for i in range(2) for j in range(i, 2)]
    add = lambda a, b=3: a + b * k
    return [inner, pairs, add(1), add(1, 2), add(b=1, a=5), sum([i for i in range(n)])]


def unpack(pair):
    a, (b, c) = pair
    a, b = b, a
    d, e, f = c, a, b
    d, e, f = f, d, e
    return [a, b, c, d, e, f]


def items(values):
    values[0] += 5
    values[-1] = values[1] * 2
    named = {"a": 1, "b": values}
    named["a"] *= 3
    named["c"] = 4
    found = 0
    for key in named:
        if key in ("a", "c"):
            found += named[key]
    return [values, named["a"], found, "b" in named, "z" not in named, named.get("q", 8), len(named)]


def stars(args):
    many = lambda a, b=2, *rest: [a, b, len(rest), list(rest)]
    names = lambda a, **more: [a, len(more), more.get("c", 0)]
    return [many(*args), many(1, b=5), many(*[1], **{"b": 4}), [*args, 9], (*args, 5), names(1, b=2, c=3), names(a=4)]


def texts(a):
    return [f"{a} of {a + 1}", f"<{a}>", "plain"]


def builtin(values):
    return [
        len(values),
        sum(values),
        sum(values, 10),
        max(values),
        min(3, 2),
        abs(-3),
        int(2.7),
        float(2),
        bool(0),
        [list(pair) for pair in enumerate(values)],
        [list(pair) for pair in zip(values, [7, 8])],
        list(reversed(values)),
        list(tuple(values)),
        isinstance(values, list),
        isinstance(2, (tuple, int)),
        isinstance(2.5, int),
        isinstance("a", str),
        list(range(3)),
        list(range(1, 8, 3)),
        list(range(3, 0, -2)),
    ]


def numbers(a):
    return [math.sqrt(a), math.floor(2.5), math.ceil(a), math.exp(0), math.log(1), math.pi, K]


def slices(values):
    return [values[1:3], values[::2], values[-1], values[:-1], values[1:][0], values[:], values[2:9]]


def lists(values):
    values.append(4)
    values.extend([5, 6])
    values.insert(1, 9)
    last = values.pop()
    first = values.pop(0)
    values += [7]
    other = values.copy()
    values.reverse()
    other.clear()
    return [values, last, first, other]


def nothing(a):
    pass


def none(a, b=3):
    inner = lambda c=4: [a, c]
    named = {"a": None}
    return [a or b, a and b, a is None, b is None, inner(), inner(None), named.get("a", 5), a is b is None]


def defaults(a, b=10, *rest, c=20, **more):
    return [a, b, list(rest), c, len(more)]


def wide_source():
    """More than 255 constants, so that arguments are extended."""
    lines = "".join("    total += %d\n" % (1000 + i) for i in range(300))
    source = "def wide(a):\n    total = 0\n%s    if a > 5:\n        total -= 1\n    return total\n" % lines
    space = {}
    exec(source, space)
    return space["wide"]


def subscripts(x):
    return [x[0], x[:, 1], x[..., -1], x[None], x[1:, ::2], x[0, 1], x[:, None, 2], x[torch.tensor([1, 0])], x[:, torch.tensor([2, 0])]]


def writes(x):
    y = x.clone()
    y[0] = 5
    y[:, 1] += 2
    y[1, 2] = x[0, 0]
    y[:, torch.tensor([0])] = 8.5
    return y


def members(x):
    n, m = x.size()
    return [x.view(m, n), x.reshape(-1), x.t(), x.T, x.permute(1, 0), x.transpose(0, 1) * n, x.sum(dim=1), x.mean(), x.to(torch.int64), x.float(), x.data, x.new_zeros(2, n) + x.size(1) + x.shape[0] + x.ndim]


def operators(x):
    y = x.clone()
    y += x
    y *= 2
    y //= 3
    return [x + 1, 2 - x, -x, x @ x.t(), ~(x > 0), (x > 0) & (x < 3), (x > 3) | (x < 0), (x > 0) ^ (x < 3), x**2, x / 2, y, x == 2, x != 2, x % 2]


def functions(x):
    return [
        F.relu(x),
        F.relu6(x * 3),
        F.leaky_relu(x, 0.5),
        F.elu(x, alpha=2.0),
        F.hardtanh(x, -0.5, 2.5),
        F.threshold(x, 2, 7),
        F.softmax(x, dim=1),
        F.softmax(x),
        F.log_softmax(x, 0),
        F.logsigmoid(x),
        F.dropout(x, 0.5, False),
        F.normalize(x),
        F.max_pool1d(x, 2, 1),
        F.max_pool1d(x.view(1, 2, 3), 3),
        F.avg_pool1d(x.view(1, 2, 3), 3),
        F.avg_pool1d(x.view(1, 2, 3), 2, 1, 1, False, False),
        F.adaptive_avg_pool1d(x.view(1, 2, 3), 1),
        F.adaptive_max_pool2d(x.view(1, 1, 2, 3), (None, 1)),
        F.interpolate(x.view(1, 1, 2, 3), scale_factor=2),
        F.interpolate(x.view(1, 1, 2, 3), (2, 5), mode="bilinear", align_corners=True),
        F.interpolate(x.view(1, 2, 3), size=1, mode="area"),
        F.interpolate(x.view(1, 2, 3), scale_factor=0.5, recompute_scale_factor=True),
        F.embedding(torch.tensor([1]), x),
        F.linear(x, torch.ones(1, 3)),
        torch.cat([x, x], dim=1),
        torch.zeros(2, 1) + torch.ones((2, 1)),
        torch.einsum("ij,kj->ik", x, x),
        torch.einsum("ij,kj->ik", [x, x]),
        torch.max(x, 1).values,
        torch.max(x, 1).indices,
    ]


def iterates(x):
    total = 0
    for i, row in enumerate(x):
        total = total + row * (i + 1)
    return [total, torch.stack(list(reversed([row for row in x])))]


CALLS = [
    (arithmetic, (7, 2), {}),
    (arithmetic, (-7.5, 2), {}),
    (in_place, (7, 3), {}),
    (compare, (1, 2), {}),
    (compare, (2, 2), {}),
    (compare, (3, 2.5), {}),
    (compare, (3, 5), {}),
    (chain, (1, 2, 3), {}),
    (chain, (3, 2, 3), {}),
    (chain, (5, 5, 5), {}),
    (chain, (1, 4, 2), {}),
    (choose, (None, 1), {}),
    (choose, (4, 2), {}),
    (choose, (4, 4), {}),
    (choose, (0, 4), {}),
    (choose, (2, 4), {}),
    (choose, (4, 8), {}),
    (loops, (3,), {}),
    (loops, (9,), {}),
    (loops, (0,), {}),
    (comprehend, (6, 5), {}),
    (unpack, ((1, (2, 3)),), {}),
    (items, ([1, 2, 3],), {}),
    (stars, ([1, 2],), {}),
    (stars, ([1, 2, 3, 4],), {}),
    (texts, (3,), {}),
    (builtin, ([3, 1, 2],), {}),
    (numbers, (2.25,), {}),
    (slices, ([1, 2, 3, 4],), {}),
    (lists, ([1, 2, 3],), {}),
    (nothing, (1,), {}),
    (none, (None,), {}),
    (none, (None, None), {}),
    (none, (2,), {"b": None}),
    (defaults, (1,), {}),
    (defaults, (1,), {"b": None, "c": None}),
    (defaults, (1, 2), {}),
    (defaults, (1, 2, 3, 4), {"c": 5}),
    (defaults, (), {"a": 3, "b": 4, "d": 6}),
    (wide_source(), (9,), {}),
    (wide_source(), (2,), {}),
] + [(each, None, None) for each in (subscripts, writes, members, operators, functions, iterates)]


def plain(value):
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if value is Ellipsis:
        return {"global": "builtins.Ellipsis"}
    if isinstance(value, float):
        return {"float": value}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tuple):
        return {"tuple": [plain(each) for each in value]}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {"code": [plain(each) for each in fields(value)]}


def fields(code):
    """In the order that types.CodeType takes, without file and lines."""
    version = sys.version_info
    lines = code.co_linetable if version >= (3, 10) else code.co_lnotab
    return (
        [code.co_argcount]
        + ([code.co_posonlyargcount] if version >= (3, 8) else [])
        + [code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags, code.co_code, code.co_consts]
        + [code.co_names, code.co_varnames, "", code.co_name]
        + ([code.co_qualname] if version >= (3, 11) else [])
        + [0, lines]
        + ([b""] if version >= (3, 11) else [])
        + [code.co_freevars, code.co_cellvars]
    )


for function, args, named in CALLS:
    case = {"python": "%d.%d" % sys.version_info[:2], "name": function.__name__, "code": plain(function.__code__)}
    if args is not None:
        case["args"], case["named"] = plain(args), named
        case["defaults"], case["named_defaults"] = function.__defaults__ or (), function.__kwdefaults__ or {}
        copies = json.loads(json.dumps(args))
        case["answer"] = function(*copies, **named)
    print(json.dumps(case))
