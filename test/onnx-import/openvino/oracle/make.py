"""Makes models of OpenVINO's operations with its own Python package, runs them, and packs both for oracle.test.ts.

    python -m venv venv && venv/bin/pip install openvino numpy
    venv/bin/python make.py <folder>             every model, into folders below it
    venv/bin/python make.py <folder> --pack      the selection of them, as oracle.json.gz beside this file

Run with 2026.4.1 of openvino. Inputs are random with a fixed seed.
"""

import base64
import gzip
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset2 as o2
from openvino import (
    opset1 as o1,
    opset3 as o3,
    opset4 as o4,
    opset5 as o5,
    opset6 as o6,
    opset7 as o7,
    opset8 as o8,
    opset9 as o9,
    opset10 as o10,
    opset11 as o11,
    opset12 as o12,
    opset13 as o13,
    opset14 as o14,
    opset15 as o15,
)

ROOT = sys.argv[1]
core = ov.Core()
rng = np.random.default_rng(7)
T = {
    "f32": np.float32,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "i8": np.int8,
    "bool": bool,
    "f16": np.float16,
    "u16": np.uint16,
    "i16": np.int16,
    "u32": np.uint32,
    "f64": np.float64,
    "u64": np.uint64,
}
OT = {name: ov.Type(np.dtype(of)) for name, of in T.items()}
from openvino.utils.node_factory import NodeFactory


def NF(o, t, ins, attrs):
    return NodeFactory(o).create(t, ins, attrs)


def ip4(a, sizes, mode, axes=(2, 3), scales=None, **attrs):
    """Interpolate by sizes, or by scales where they are given; `attrs` differ from the usual ones."""
    ports = [a, C(list(sizes), "i64"), C(list(scales or [1.0] * len(sizes)), "f32")]
    usual = {
        "mode": mode,
        "shape_calculation_mode": "scales" if scales else "sizes",
        "pads_begin": [0],
        "pads_end": [0],
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "floor",
        "antialias": False,
        "cube_coeff": -0.75,
    }
    return NF("opset4", "Interpolate", ports + ([C(list(axes), "i64")] if axes else []), {**usual, **attrs})


def o1r(a, ax, m):
    return NF("opset1", "Reverse", [a, ax], {"mode": m})


stats = {"made": 0, "failed": 0}


def data(shape, t, lo=-3, hi=3):
    if t == "bool":
        return rng.random(shape) < 0.5
    if t[0] in "fb":
        return (rng.random(shape) * (hi - lo) + lo).astype(T[t])
    if t[0] == "u":
        lo = max(lo, 0)
    return rng.integers(int(lo), int(hi) + 1, shape).astype(T[t])


def P(shape, t="f32", name=None):
    p = o1.parameter(shape, OT[t])
    if name:
        p.set_friendly_name(name)
    return p


def C(v, t=None):
    a = np.array(v, dtype=T[t] if t else None)
    return o1.constant(a)


def case(name, build, ins, batch2=True, tol=None, lo=-3, hi=3, values=None, dynamic=None, keepbatch=False):
    """ins: list of (shape, dtype); build(params)->list of outputs"""
    d = os.path.join(ROOT, name)
    try:
        ps = [P(list(s), t, f"in{i}") for i, (s, t) in enumerate(ins)]
        if dynamic:
            ps = [P(list(s), t, f"in{i}") for i, (s, t) in enumerate([(dynamic[i], t) for i, (_, t) in enumerate(ins)])]
        outs = build(*ps)
        if not isinstance(outs, (list, tuple)):
            outs = [outs]
        flat = []
        for o in outs:
            if isinstance(o, ov.Node):
                flat += [o.output(i) for i in range(o.get_output_size())]
            else:
                flat.append(o)
        m = ov.Model([o1.result(o) for o in flat], ps, name)
        shutil.rmtree(d, ignore_errors=True)
        os.makedirs(d)
        ov.serialize(m, d + "/model.xml", d + "/model.bin")
        runs = []
        for ri in range(2 if batch2 else 1):
            vals = []
            for i, (s, t) in enumerate(ins):
                s2 = list(s)
                if ri == 1 and not (dynamic):
                    if len(s2) == 0:
                        raise Exception("skip")
                    s2[0] = s2[0] * 2 + 1 if s2[0] == 1 else s2[0] * 2
                elif ri == 1:
                    s2 = [x if y != -1 else x + 1 for x, y in zip(s2, dynamic[i])]
                v = values(i, s2, t) if values else None
                if v is None:
                    v = data(s2, t, lo, hi)
                vals.append(v)
            try:
                m2 = core.read_model(d + "/model.xml")
                if ri == 1 and not dynamic:
                    m2.reshape({k: list(v.shape) for k, v in enumerate(vals)})
                c = core.compile_model(m2, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
                r = c(vals)
                res = [np.array(r[k]) for k in range(len(flat))]
            except Exception:
                if ri == 0:
                    raise
                continue
            run = {"inputs": [], "outputs": []}
            for i, v in enumerate(vals):
                if v.dtype == np.float16:
                    v = v.astype(np.float32)
                np.save(f"{d}/in{ri}_{i}.npy", v)
                run["inputs"].append(f"in{ri}_{i}.npy")
            for i, v in enumerate(res):
                if v.dtype == np.float16:
                    v = v.astype(np.float32)
                np.save(f"{d}/out{ri}_{i}.npy", v)
                run["outputs"].append(f"out{ri}_{i}.npy")
            runs.append(run)
        meta = {"runs": runs, "inputNames": [f"in{i}" for i in range(len(ins))], "dynamic": bool(dynamic)}
        if tol:
            meta["tol"] = tol
        json.dump(meta, open(d + "/case.json", "w"))
        stats["made"] += 1
    except Exception as e:
        shutil.rmtree(d, ignore_errors=True)
        stats["failed"] += 1
        print("GEN FAIL", name, str(e).strip().split("\n")[-1][:200])


F = "f32"
# elementwise binary
for op in "add subtract multiply divide maximum minimum squared_difference mod floor_mod power equal not_equal less less_equal greater greater_equal".split():
    for t in ("f32", "i32", "i64", "u8", "i8"):
        f = getattr(o1, op)
        lo, hi = (1, 9) if op in ("power",) else (-7, 7)
        if op in ("divide", "mod", "floor_mod"):
            vals = lambda i, s, t: (
                None
                if i == 0
                else np.where(data(s, t, -5, 5) == 0, T[t](3), data(s, t, 1, 5)).astype(T[t])
                * (1 if t[0] == "u" else (-1 if rng.random() < 0.5 else 1))
            )
            vals2 = lambda i, s, t, vals=vals: None if i == 0 else np.array(vals(i, s, t), T[t])
            case(
                f"el_{op}_{t}", lambda a, b, f=f: f(a, b), [((2, 3, 4), t), ((2, 3, 4), t)], values=vals2, lo=-20, hi=20
            )
        else:
            case(
                f"el_{op}_{t}",
                lambda a, b, f=f: f(a, b),
                [((2, 3, 4), t), ((2, 3, 4), t)],
                lo=lo,
                hi=hi if op != "power" else 3,
            )
    f = getattr(o1, op)
    case(f"elb_{op}", lambda a, f=f: f(a, C(np.array([[1.5], [2.5], [-0.5]], np.float32))), [((1, 3, 4), F)])
case("el_addov_u8", lambda a: o1.add(a, C([200], "u8")), [((2, 3), "u8")], lo=0, hi=255)
case("el_addov_i8", lambda a: o1.add(a, C([100], "i8")), [((2, 3), "i8")], lo=-128, hi=127)
case("el_mulov_i8", lambda a: o1.multiply(a, C([100], "i8")), [((2, 3), "i8")], lo=-128, hi=127)
for op in "logical_and logical_or logical_xor".split():
    case(f"el_{op}", lambda a, b, op=op: getattr(o1, op)(a, b), [((2, 3), "bool"), ((2, 3), "bool")])
case("el_not", lambda a: o1.logical_not(a), [((2, 3), "bool")])
for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    for t in ("bool", "i32"):
        case(f"el_{op}_{t}", lambda a, b, op=op: getattr(o13, op)(a, b), [((2, 3), t), ((2, 3), t)])
case("el_bitnot_bool", lambda a: o13.bitwise_not(a), [((2, 3), "bool")])
case("el_select", lambda c, a, b: o1.select(c, a, b), [((2, 3), "bool"), ((2, 3), F), ((2, 3), F)])
case("el_select_b", lambda c, a: o1.select(c, a, C(2.0, "f32")), [((2, 1), "bool"), ((2, 3), F)])
UN = "abs acos asin atan ceiling cos cosh erf exp floor log negative relu sigmoid sign sin sinh sqrt tan tanh".split()
for op in UN:
    for t in ("f32", "i32"):
        lo, hi = {"acos": (-1, 1), "asin": (-1, 1), "log": (0.1, 5), "sqrt": (0, 9)}.get(op, (-3, 3))
        if t == "i32" and op not in ("abs", "negative", "relu", "sign", "floor", "ceiling"):
            continue
        case(f"un_{op}_{t}", lambda a, op=op: getattr(o1, op)(a), [((2, 3, 5), t)], lo=lo, hi=hi)
for op in "acosh asinh atanh".split():
    lo, hi = {"acosh": (1, 5), "atanh": (-0.9, 0.9)}.get(op, (-3, 3))
    case(f"un_{op}", lambda a, op=op: getattr(o4, op)(a), [((2, 3, 5), F)], lo=lo, hi=hi)
case("un_softplus", lambda a: o4.softplus(a), [((2, 30), F)], lo=-40, hi=40)
case("un_mish", lambda a: o4.mish(a), [((2, 30), F)], lo=-30, hi=30)
case("un_hswish", lambda a: o4.hswish(a), [((2, 30), F)], lo=-6, hi=6)
case("un_hsigmoid", lambda a: o5.hsigmoid(a), [((2, 30), F)], lo=-6, hi=6)
case("un_swish", lambda a: o4.swish(a), [((2, 30), F)], lo=-6, hi=6)
case("un_swishb", lambda a: o4.swish(a, C(1.7, "f32")), [((2, 30), F)], lo=-6, hi=6)
for m in ("erf", "tanh"):
    case(f"un_gelu_{m}", lambda a, m=m: o7.gelu(a, m), [((2, 30), F)], lo=-6, hi=6)
case("un_softsign", lambda a: o9.softsign(a), [((2, 30), F)])
case("un_elu", lambda a: o1.elu(a, 0.7), [((2, 30), F)])
case("un_selu", lambda a: o1.selu(a, C(1.5, "f32"), C(1.2, "f32")), [((2, 30), F)])
case("un_hardsig", lambda a: o1.hard_sigmoid(a, C(0.3, "f32"), C(0.4, "f32")), [((2, 30), F)])
case("un_prelu1", lambda a: o1.prelu(a, C([0.3], "f32")), [((2, 3, 4), F)])
case("un_preluC", lambda a: o1.prelu(a, C([0.3, 0.1, -0.5], "f32")), [((2, 3, 4, 4), F)])
case("un_preluC2", lambda a: o1.prelu(a, C([0.3, 0.1, -0.5, 0.2], "f32")), [((2, 4, 4, 4), F)])
case("un_preluLast", lambda a: o1.prelu(a, C([0.3, 0.1, -0.5, 0.2], "f32")), [((2, 3, 5, 4), F)])
case("un_prelu4", lambda a: o1.prelu(a, C(np.array([0.3, 0.1, -0.5]).reshape(1, 3, 1, 1), "f32")), [((2, 3, 4, 4), F)])
for t in ("f32", "i32", "u8", "i8", "i64"):
    case(f"un_clamp_{t}", lambda a: o1.clamp(a, -1.5, 2.5), [((2, 30), t)], lo=-5, hi=5)
for m in ("half_to_even", "half_away_from_zero"):
    case(
        f"un_round_{m}",
        lambda a, m=m: o5.round(a, m),
        [((2, 9), F)],
        values=lambda i, s, t: (rng.integers(-9, 9, s) / 2).astype(np.float32),
    )
case(
    "un_isnan",
    lambda a: o10.is_nan(a),
    [((2, 3), F)],
    values=lambda i, s, t: np.where(data(s, F) > 1, np.nan, data(s, F)).astype(np.float32),
)
case(
    "un_isinf",
    lambda a: o10.is_inf(a),
    [((2, 3), F)],
    values=lambda i, s, t: np.where(data(s, F) > 1, np.inf, -np.inf).astype(np.float32),
)
case(
    "un_isinfn",
    lambda a: o10.is_inf(a, {"detect_positive": False}),
    [((2, 3), F)],
    values=lambda i, s, t: np.where(data(s, F) > 1, np.inf, -np.inf).astype(np.float32),
)
case(
    "un_isfinite",
    lambda a: o10.is_finite(a),
    [((2, 3), F)],
    values=lambda i, s, t: np.where(data(s, F) > 1, np.inf, 1).astype(np.float32),
)
for a in (0, 1, 2, -1, -2):
    case(f"sm_{a}", lambda x, a=a: o8.softmax(x, a), [((2, 3, 4), F)])
    case(f"lsm_{a}", lambda x, a=a: o5.log_softmax(x, a), [((2, 3, 4), F)])
for s in ("f32", "i32", "u8", "i8", "bool", "i64"):
    for d in ("f32", "i32", "u8", "i8", "bool", "i64", "f16", "f64"):
        case(
            f"cv_{s}_{d}",
            lambda a, d=d: o1.convert(a, d if d != "bool" else "boolean"),
            [((2, 30), s)],
            lo=0 if d[0] == "u" else -5,
            hi=5,
        )
case("cv_like", lambda a, b: o1.convert_like(a, b), [((2, 3), F), ((2, 3), "i32")])
# shape
case("sh_reshape0", lambda a: o1.reshape(a, C([0, -1], "i64"), True), [((1, 3, 4, 5), F)])
case("sh_reshape1", lambda a: o1.reshape(a, C([1, 60], "i64"), False), [((1, 3, 4, 5), F)])
case("sh_reshape2", lambda a: o1.reshape(a, C([2, 6, 10], "i64"), False), [((2, 3, 4, 5), F)])
case(
    "sh_reshape3",
    lambda a: o1.reshape(o1.reshape(a, C([-1, 5], "i64"), False), C([1, 3, 4, 5], "i64"), False),
    [((1, 3, 4, 5), F)],
)
case(
    "sh_reshape4",
    lambda a: o1.reshape(o1.transpose(a, C([1, 0, 2], "i64")), C([3, 1, 2, 2], "i64"), False),
    [((1, 3, 4), F)],
)
case(
    "sh_reshape5",
    lambda a: o1.reshape(
        a, o1.concat([o1.gather(o3.shape_of(a), C([0], "i64"), C(0, "i64")), C([-1], "i64")], 0), False
    ),
    [((1, 3, 4, 5), F)],
)
case(
    "sh_reshape5d",
    lambda a: o1.reshape(
        a, o1.concat([o1.gather(o3.shape_of(a), C([0], "i64"), C(0, "i64")), C([-1], "i64")], 0), False
    ),
    [((1, 3, 4, 5), F)],
    dynamic=[[-1, 3, 4, 5]],
)
case("sh_squeeze", lambda a: o1.squeeze(a, C([1, 3], "i64")), [((2, 1, 4, 1), F)])
case("sh_squeezen", lambda a: o1.squeeze(a, C([-1], "i64")), [((2, 1, 4, 1), F)])
case("sh_squeezeall", lambda a: o1.squeeze(a), [((2, 1, 4, 1), F)])
case("sh_squeeze0", lambda a: o1.squeeze(a, C([0], "i64")), [((1, 3, 4), F)])
case("sh_unsqueeze", lambda a: o1.unsqueeze(a, C([0, -1], "i64")), [((2, 3), F)])
case("sh_transpose", lambda a: o1.transpose(a, C([0, 2, 3, 1], "i64")), [((2, 3, 4, 5), F)])
case("sh_transposee", lambda a: o1.transpose(a, C(np.array([], np.int64))), [((2, 3, 4, 5), F)])
for ax in (0, 1, -1):
    case(f"sh_concat{ax}", lambda a, b, ax=ax: o1.concat([a, b], ax), [((2, 3, 4), F), ((2, 3, 4), F)])
case("sh_concatc", lambda a: o1.concat([a, C(np.ones((1, 2, 4)), "f32")], 1), [((1, 3, 4), F)])
case("sh_split", lambda a: o1.split(a, C(1, "i64"), 3), [((2, 6, 4), F)])
case("sh_split0", lambda a: o1.split(a, C(0, "i64"), 2), [((2, 6, 4), F)])
case("sh_vsplit", lambda a: o1.variadic_split(a, C(1, "i64"), C([1, 2, 3], "i64")), [((2, 6, 4), F)])
case("sh_vsplitm", lambda a: o1.variadic_split(a, C(-2, "i64"), C([1, -1, 3], "i64")), [((2, 6, 4), F)])
case("sh_vsplit1", lambda a: o1.variadic_split(a, C(-2, "i64"), C([-1], "i64")), [((2, 6, 4), F)])
case("sh_tile", lambda a: o1.tile(a, C([1, 2, 3], "i64")), [((2, 3, 4), F)])
case("sh_tiles", lambda a: o1.tile(a, C([3], "i64")), [((2, 3, 4), F)])
case("sh_tilel", lambda a: o1.tile(a, C([2, 1, 2, 3], "i64")), [((2, 3, 4), F)])
case("sh_bc_numpy", lambda a: o3.broadcast(a, C([2, 3, 4], "i64")), [((2, 1, 4), F)])
case("sh_bc_numpy1", lambda a: o3.broadcast(a, C([1, 3, 4], "i64")), [((1, 1, 4), F)])
case("sh_bc_expl", lambda a: o3.broadcast(a, C([2, 3, 4], "i64"), C([0, 2], "i64"), "explicit"), [((2, 4), F)])
case("sh_bc_expl1", lambda a: o3.broadcast(a, C([2, 3, 4], "i64"), C([1], "i64"), "explicit"), [((3,), F)])
case("sh_bc_bidi", lambda a: o3.broadcast(a, C([3, 1], "i64"), broadcast_spec="bidirectional"), [((2, 1, 4), F)])
for m in ("constant", "edge", "reflect", "symmetric"):
    case(
        f"sh_pad_{m}",
        lambda a, m=m: o1.pad(
            a, C([0, 0, 1, 2], "i64"), C([0, 0, 2, 1], "i64"), m, *([C(1.5, "f32")] if m == "constant" else [])
        ),
        [((1, 2, 4, 5), F)],
    )
    case(
        f"sh_pad12_{m}",
        lambda a, m=m: o12.pad(
            a, C([0, 0, -1, 2], "i64"), C([0, 0, 1, -1], "i64"), m, *([C(1.5, "f32")] if m == "constant" else [])
        ),
        [((1, 2, 4, 5), F)],
    )
case("sh_pad_i32", lambda a: o1.pad(a, C([0, 1], "i64"), C([0, 2], "i64"), "constant", C(7, "i32")), [((2, 3), "i32")])
case("sh_pad_def", lambda a: o1.pad(a, C([0, 1], "i64"), C([0, 2], "i64"), "constant"), [((2, 3), F)])
case("sh_shapeof", lambda a: o3.shape_of(a, "i32"), [((2, 3), F)])
case("sh_shapeofd", lambda a: o3.shape_of(a, "i64"), [((2, 3), F)], dynamic=[[-1, -1]])
case("sh_range", lambda a: o1.add(a, o4.range(C(0, "i32"), C(6, "i32"), C(2, "i32"), "f32")), [((2, 3), F)])
for m in ("blocks_first", "depth_first"):
    case(f"sh_d2s_{m}", lambda a, m=m: o1.depth_to_space(a, m, 2), [((1, 8, 2, 3), F)])
    case(f"sh_s2d_{m}", lambda a, m=m: o1.space_to_depth(a, m, 2), [((1, 3, 4, 6), F)])
for ax, g in ((1, 2), (1, 3), (-1, 2), (2, 2)):
    case(f"sh_shuf_{ax}_{g}", lambda a, ax=ax, g=g: o3.shuffle_channels(a, ax, g), [((1, 6, 4, 6), F)])
case(
    "sh_s2b",
    lambda a: o2.space_to_batch(a, C([1, 1, 2, 3], "i64"), C([0, 0, 1, 0], "i64"), C([0, 0, 1, 2], "i64")),
    [((1, 2, 4, 4), F)],
)
case(
    "sh_b2s",
    lambda a: o2.batch_to_space(a, C([1, 1, 2, 3], "i64"), C([0, 0, 1, 0], "i64"), C([0, 0, 0, 2], "i64")),
    [((6, 2, 4, 4), F)],
)
case("sh_eye", lambda a: o1.add(a, o9.eye(C(3, "i64"), C(4, "i64"), C(1, "i64"), "f32")), [((3, 4), F)])
case("sh_eyen", lambda a: o1.add(a, o9.eye(C(3, "i64"), C(4, "i64"), C(-1, "i64"), "f32")), [((3, 4), F)])
# slicing
SS = lambda a, b, e, s=None, **k: o1.strided_slice(
    a,
    C(b, "i64"),
    C(e, "i64"),
    C(s if s else [1] * len(b), "i64"),
    k.get("bm", [0] * len(b)),
    k.get("em", [0] * len(b)),
    k.get("na", []),
    k.get("sh", []),
    k.get("el", []),
)
case("sl_1", lambda a: SS(a, [0, 1, 0], [0, 3, 2], bm=[1, 0, 0], em=[1, 0, 0]), [((2, 4, 5), F)])
case("sl_2", lambda a: SS(a, [0, -3, 4], [0, -1, 0], [1, 1, -2], bm=[1, 0, 0], em=[1, 0, 1]), [((2, 4, 5), F)])
case("sl_3", lambda a: SS(a, [0, 1, 0], [0, 2, 0], bm=[1, 0, 1], em=[1, 0, 1], sh=[0, 1, 0]), [((2, 4, 5), F)])
case("sl_4", lambda a: SS(a, [0, -1, 0], [0, 0, 0], bm=[1, 0, 1], em=[1, 0, 1], sh=[0, 1, 0]), [((2, 4, 5), F)])
case("sl_5", lambda a: SS(a, [0, 0, 1], [0, 0, 3], bm=[1, 1, 0], em=[1, 1, 0], na=[0, 1, 0]), [((2, 4, 5), F)])
case("sl_6", lambda a: SS(a, [0, 1], [0, 3], bm=[0, 0], em=[0, 0], el=[1, 0]), [((2, 4, 5), F)])
case(
    "sl_7",
    lambda a: SS(a, [0, 1, 0], [0, 3, 0], bm=[1, 0, 0], em=[1, 0, 0], el=[0, 0, 0], na=[0, 0, 1]),
    [((2, 4, 5), F)],
)
case(
    "sl_8",
    lambda a: SS(a, [0, 0, 1], [0, 0, 3], bm=[0, 0, 0], em=[0, 0, 0], el=[1, 0, 0], na=[0, 1, 0]),
    [((2, 4, 5), F)],
)
case("sl_9", lambda a: SS(a, [0, 5, 3], [0, -100, 0], [1, -1, -1], bm=[1, 0, 0], em=[1, 0, 0]), [((2, 4, 5), F)])
case("sl_10", lambda a: SS(a, [0], [1]), [((1, 4, 5), F)])
case("sl_11", lambda a: SS(a, [0], [1], sh=[1]), [((2, 4, 5), F)])
case("sl_12", lambda a: SS(a, [0, 0], [0, 100], [1, 2], bm=[1, 1], em=[1, 0]), [((2, 4, 5), F)])
case(
    "slice8",
    lambda a: o8.slice(a, C([1, 0], "i64"), C([3, 5], "i64"), C([1, 2], "i64"), C([1, 2], "i64")),
    [((2, 4, 5), F)],
)
case(
    "slice8n", lambda a: o8.slice(a, C([-1], "i64"), C([-100], "i64"), C([-1], "i64"), C([-1], "i64")), [((2, 4, 5), F)]
)
case("slice8d", lambda a: o8.slice(a, C([0, 1, 0], "i64"), C([9, 3, 5], "i64"), C([1, 1, 2], "i64")), [((2, 4, 5), F)])
case("ga_0", lambda a: o8.gather(a, C([0, 2, -1], "i64"), C(1, "i64")), [((2, 4, 5), F)])
case("ga_1", lambda a: o1.gather(a, C(2, "i64"), C(1, "i64")), [((2, 4, 5), F)])
case("ga_2", lambda a: o8.gather(a, C([[0, 1], [1, 2]], "i32"), C(-1, "i64")), [((2, 4, 5), F)])
case("ga_7b", lambda a, i: o8.gather(a, i, C(1, "i64"), 1), [((2, 4, 5), F), ((2, 3), "i32")], lo=0, hi=3)
case("ga_7b2", lambda a, i: o8.gather(a, i, C(2, "i64"), 1), [((2, 4, 5), F), ((2, 3), "i32")], lo=0, hi=3)
case("ga_7b3", lambda a, i: o8.gather(a, i, C(2, "i64"), -1), [((2, 4, 5, 2), F), ((2, 3), "i32")], lo=0, hi=3)
case("ga_u8", lambda a: o8.gather(a, C([0, 2], "u8"), C(1, "i64")), [((2, 4, 5), F)])
case("ga_el", lambda a, i: o6.gather_elements(a, i, 1), [((2, 4, 5), F), ((2, 3, 5), "i32")], lo=0, hi=3)
case("ga_nd", lambda a, i: o8.gather_nd(a, i, 0), [((2, 4, 5), F), ((2, 2), "i32")], lo=0, hi=1)
case("ga_nd1", lambda a, i: o8.gather_nd(a, i, 1), [((2, 4, 5), F), ((2, 3, 1), "i32")], lo=0, hi=3)
case("ga_nd2", lambda a, i: o8.gather_nd(a, i, 2), [((2, 4, 5), F), ((2, 4, 1), "i32")], lo=0, hi=3)
case("ga_nd5", lambda a, i: o5.gather_nd(a, i, 2), [((2, 4, 5), F), ((2, 4, 1), "i32")], lo=0, hi=3)
case("sc_up", lambda a, u: o3.scatter_update(a, C([0, 2], "i64"), u, C(1, "i64")), [((2, 4, 5), F), ((2, 2, 5), F)])
case(
    "sc_up2",
    lambda a, u: o3.scatter_update(a, C([[0, 2], [3, 1]], "i64"), u, C(1, "i64")),
    [((2, 4, 5), F), ((2, 2, 2, 5), F)],
)
case(
    "sc_el3",
    lambda a, u: o3.scatter_elements_update(a, C([[[0, 2, 1]]] * 2, "i64"), u, C(2, "i64")),
    [((2, 4, 5), F), ((2, 1, 3), F)],
    batch2=False,
)
for r in ("none", "sum", "prod", "mean", "min", "max"):
    for iv in (True, False):
        case(
            f"sc_el12_{r}_{iv}",
            lambda a, u, r=r, iv=iv: o12.scatter_elements_update(a, C([[[0, 2, 2]]] * 2, "i64"), u, C(2, "i64"), r, iv),
            [((2, 4, 5), F), ((2, 1, 3), F)],
            batch2=False,
        )
case(
    "sc_nd",
    lambda a, u: o4.scatter_nd_update(a, C([[0, 1], [1, 3]], "i64"), u),
    [((2, 4, 5), F), ((2, 5), F)],
    batch2=False,
)
for r in ("none", "sum", "sub", "prod", "min", "max"):
    case(
        f"sc_nd15_{r}",
        lambda a, u, r=r: o15.scatter_nd_update(a, C([[0, 1], [1, 3]], "i64"), u, r),
        [((2, 4, 5), F), ((2, 5), F)],
        batch2=False,
    )
case("rv_i", lambda a: o1r(a, C([1, 2], "i64"), "index"), [((2, 4, 5), F)])
case("rv_m", lambda a: o1r(a, C([False, True, False]), "mask"), [((2, 4, 5), F)])
case("rs_1", lambda a: o1.reverse_sequence(a, C([2, 4], "i64"), 0, 1), [((2, 4, 5), F)], batch2=False)
case("rs_2", lambda a: o1.reverse_sequence(a, C([2, 4], "i64"), 0, 2), [((2, 3, 4), F)], batch2=False)
case("rs_3", lambda a: o1.reverse_sequence(a, C([2, 4], "i64"), 1, 0), [((4, 2, 4), F)], batch2=False)
case("roll", lambda a: o7.roll(a, C([1, -2], "i64"), C([1, 2], "i64")), [((2, 4, 5), F)])
case("rolls", lambda a: o7.roll(a, C(7, "i64"), C([-1], "i64")), [((2, 4, 5), F)])
case("emb_ps", lambda i: o3.embedding_bag_packed_sum(C(rng.random((7, 3)), "f32"), i), [((2, 3), "i32")], lo=0, hi=6)
for t in ("i16", "u16", "u32"):
    for op in ("add", "multiply", "subtract", "maximum", "divide"):
        case(
            f"el16_{op}_{t}", lambda a, b, op=op: getattr(o1, op)(a, b), [((2, 3, 4), t), ((2, 3, 4), t)], lo=1, hi=300
        )
# reductions
for op in "reduce_sum reduce_mean reduce_max reduce_min reduce_prod".split():
    for t in ("f32", "i32"):
        for k in (True, False):
            case(f"rd_{op}_{t}_{k}", lambda a, op=op, k=k: getattr(o1, op)(a, C([1, -1], "i64"), k), [((2, 3, 4), t)])
for op in ("reduce_l1", "reduce_l2"):
    case(f"rd_{op}", lambda a, op=op: getattr(o4, op)(a, C([1, 2], "i64"), False), [((2, 3, 4), F)])
case("rd_all", lambda a: o1.reduce_sum(a, C([0, 1, 2], "i64"), False), [((2, 3, 4), F)])
case("rd_scalar", lambda a: o1.reduce_sum(a, C(1, "i64"), False), [((2, 3, 4), F)])
for op in ("reduce_logical_and", "reduce_logical_or"):
    case(f"rd_{op}", lambda a, op=op: getattr(o1, op)(a, C([1], "i64"), False), [((2, 2, 4), "bool")])
for m in ("max", "min"):
    for s in ("value", "index"):
        case(f"topk_{m}_{s}", lambda a, m=m, s=s: o11.topk(a, C(3, "i64"), 1, m, s), [((2, 6, 4), F)])
        case(
            f"topki_{m}_{s}",
            lambda a, m=m, s=s: o11.topk(a, C(4, "i64"), -1, m, s, "i64", True),
            [((2, 8), "i32")],
            lo=0,
            hi=3,
        )
        case(f"topk1_{m}_{s}", lambda a, m=m, s=s: o1.topk(a, C(3, "i64"), 1, m, s), [((2, 6, 4), F)])
case("onehot", lambda i: o1.one_hot(i, C(4, "i64"), C(2.0, "f32"), C(-1.0, "f32"), 1), [((2, 3), "i32")], lo=-2, hi=5)
case("onehotl", lambda i: o1.one_hot(i, C(4, "i64"), C(2.0, "f32"), C(-1.0, "f32"), -1), [((2, 3), "i64")], lo=0, hi=3)
case(
    "nonzero",
    lambda a: o3.non_zero(a, "i32"),
    [((2, 3), F)],
    values=lambda i, s, t: np.array([[1, 0, 2], [0, 0, 3]], np.float32),
    batch2=False,
)
for e in (True, False):
    for r in (True, False):
        case(f"cumsum_{e}_{r}", lambda a, e=e, r=r: o3.cum_sum(a, C(1, "i64"), e, r), [((2, 5, 2), F)])
case("mm_1", lambda a: o1.matmul(a, C(rng.random((4, 5)), "f32"), False, False), [((2, 4), F)])
case("mm_2", lambda a: o1.matmul(a, C(rng.random((5, 4)), "f32"), False, True), [((2, 3, 4), F)])
case("mm_3", lambda a, b: o1.matmul(a, b, True, True), [((2, 4, 3), F), ((2, 5, 4), F)])
case("mm_4", lambda a: o1.matmul(a, C(rng.random((4,)), "f32"), False, False), [((2, 3, 4), F)])
case("mm_5", lambda a: o1.matmul(a, C(rng.random((4,)), "f32"), False, True), [((2, 3, 4), F)])
case("mm_6", lambda a: o1.matmul(C(rng.random((3,)), "f32"), a, False, False), [((2, 3, 4), F)])
case("mm_7", lambda a: o1.matmul(C(rng.random((3,)), "f32"), a, True, False), [((2, 3, 4), F)])
case("ein", lambda a: o7.einsum([a, C(rng.random((4, 5)), "f32")], "abc,cd->abd"), [((2, 3, 4), F)])
for w in (True, False):
    case(
        f"bucket_{w}",
        lambda a, w=w: o3.bucketize(a, C([-1.0, 0.0, 1.5], "f32"), "i32", w),
        [((2, 9), F)],
        values=lambda i, s, t: (rng.integers(-6, 6, s) / 2).astype(np.float32),
    )

W = lambda *s: C((rng.random(s) - 0.5).astype(np.float32))
for st in (1, 2, 3):
    for dl in (1, 2):
        for pad, ap in (
            ((0, 0), "explicit"),
            ((1, 2), "explicit"),
            ((0, 0), "same_upper"),
            ((0, 0), "same_lower"),
            ((0, 0), "valid"),
        ):
            case(
                f"conv2_{st}_{dl}_{pad[1]}_{ap}",
                lambda a, st=st, dl=dl, pad=pad, ap=ap: o1.convolution(
                    a, W(4, 3, 3, 2), [st, st], list(pad), list(pad[::-1]), [dl, dl], ap
                ),
                [((1, 3, 11, 12), F)],
            )
            case(
                f"gconv2_{st}_{dl}_{pad[1]}_{ap}",
                lambda a, st=st, dl=dl, pad=pad, ap=ap: o1.group_convolution(
                    a, W(3, 2, 2, 3, 2), [st, st], list(pad), list(pad[::-1]), [dl, dl], ap
                ),
                [((1, 6, 11, 12), F)],
            )
case("conv1", lambda a: o1.convolution(a, W(4, 3, 3), [2], [1], [1], [1]), [((2, 3, 11), F)])
case(
    "conv3",
    lambda a: o1.convolution(a, W(4, 3, 3, 2, 2), [2, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 1]),
    [((1, 3, 7, 6, 5), F)],
)
case(
    "conv_st4k2",
    lambda a: o1.convolution(a, W(4, 3, 2, 2), [4, 4], [0, 0], [0, 0], [1, 1], "same_upper"),
    [((1, 3, 11, 13), F)],
)
case(
    "conv_dynw",
    lambda a, w: o1.convolution(a, w, [1, 1], [0, 0], [0, 0], [1, 1]),
    [((1, 3, 6, 6), F), ((4, 3, 3, 3), F)],
    batch2=False,
)
for st in (1, 2, 3):
    for dl in (1, 2):
        for op in (0, 1):
            if op >= st:
                continue
            for pad, ap in (
                ((0, 0), "explicit"),
                ((1, 0), "explicit"),
                ((0, 0), "same_upper"),
                ((0, 0), "same_lower"),
                ((0, 0), "valid"),
            ):
                case(
                    f"deconv_{st}_{dl}_{op}_{pad[0]}_{ap}",
                    lambda a, st=st, dl=dl, pad=pad, ap=ap, op=op: o1.convolution_backprop_data(
                        a,
                        W(3, 4, 3, 2),
                        [st, st],
                        pads_begin=list(pad),
                        pads_end=list(pad[::-1]),
                        dilations=[dl, dl],
                        auto_pad=ap,
                        output_padding=[op, op],
                    ),
                    [((1, 3, 5, 6), F)],
                )
                case(
                    f"gdeconv_{st}_{dl}_{op}_{pad[0]}_{ap}",
                    lambda a, st=st, dl=dl, pad=pad, ap=ap, op=op: o1.group_convolution_backprop_data(
                        a,
                        W(3, 2, 4, 3, 2),
                        [st, st],
                        pads_begin=list(pad),
                        pads_end=list(pad[::-1]),
                        dilations=[dl, dl],
                        auto_pad=ap,
                        output_padding=[op, op],
                    ),
                    [((1, 6, 5, 6), F)],
                )
for osz in ((9, 11), (10, 12), (11, 13), (12, 12)):
    for ap in ("explicit", "same_upper", "same_lower", "valid"):
        case(
            f"deconvo_{osz[0]}_{osz[1]}_{ap}",
            lambda a, ap=ap, osz=osz: o1.convolution_backprop_data(
                a, W(3, 4, 3, 3), [2, 2], C(list(osz), "i64"), [1, 1], [1, 1], [1, 1], ap
            ),
            [((1, 3, 5, 6), F)],
        )
        case(
            f"deconvop_{osz[0]}_{osz[1]}_{ap}",
            lambda a, ap=ap, osz=osz: o1.convolution_backprop_data(
                a, W(3, 4, 3, 3), [2, 2], C(list(osz), "i64"), [1, 1], [1, 1], [1, 1], ap, [1, 1]
            ),
            [((1, 3, 5, 6), F)],
        )
for k, st, pb, pe in (
    ((2, 2), (2, 2), (0, 0), (0, 0)),
    ((3, 3), (2, 2), (0, 0), (0, 0)),
    ((3, 3), (2, 2), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (1, 0), (0, 1)),
    ((2, 3), (3, 2), (1, 1), (0, 1)),
    ((3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 2), (3, 3), (0, 0), (0, 0)),
    ((3, 3), (2, 2), (2, 2), (2, 2)),
    ((2, 2), (3, 3), (1, 1), (1, 1)),
):
    for rt in ("floor", "ceil"):
        for ap in ("explicit", "same_upper", "same_lower", "valid"):
            for hw in ((8, 9), (7, 7), (6, 10)):
                nm = f"{k[0]}{k[1]}_{st[0]}{st[1]}_{pb[0]}{pb[1]}{pe[0]}{pe[1]}_{rt}_{ap}_{hw[0]}{hw[1]}"
                if ap != "explicit" and pb != (0, 0):
                    continue
                case(
                    "maxp_" + nm,
                    lambda a, k=k, st=st, pb=pb, pe=pe, rt=rt, ap=ap: o1.max_pool(
                        a, list(st), list(pb), list(pe), list(k), rt, ap
                    ),
                    [((1, 2) + hw, F)],
                    batch2=False,
                )
                for ex in (True, False):
                    case(
                        f"avgp{ex}_" + nm,
                        lambda a, k=k, st=st, pb=pb, pe=pe, rt=rt, ap=ap, ex=ex: o1.avg_pool(
                            a, list(st), list(pb), list(pe), list(k), ex, rt, ap
                        ),
                        [((1, 2) + hw, F)],
                        batch2=False,
                    )
for rt in ("floor", "ceil", "ceil_torch"):
    for hw in ((8, 9), (7, 7)):
        for st in ((2, 2), (3, 3)):
            case(
                f"maxp14_{rt}_{hw[0]}_{st[0]}",
                lambda a, rt=rt, st=st: o14.max_pool(a, list(st), [1, 1], [1, 1], [1, 1], [3, 3], rt).output(0),
                [((1, 2) + hw, F)],
            )
            for ex in (True, False):
                case(
                    f"avgp14_{ex}_{rt}_{hw[0]}_{st[0]}",
                    lambda a, rt=rt, st=st, ex=ex: o14.avg_pool(a, list(st), [1, 1], [1, 1], [3, 3], ex, rt),
                    [((1, 2) + hw, F)],
                )
for ax in (0, 2, 1):
    case(
        f"maxp8i_{ax}",
        lambda a, ax=ax: o8.max_pool(
            a, [2, 2], [1, 1], [0, 0], [1, 1], [2, 2], "floor", index_element_type="i32", axis=ax
        ),
        [((1, 3, 6, 7), F)],
    )
case("maxp8d", lambda a: o8.max_pool(a, [1, 1], [2, 1], [0, 0], [0, 0], [2, 2]).output(0), [((1, 3, 6, 7), F)])
case("maxp1d", lambda a: o1.max_pool(a, [2], [0], [0], [3]), [((2, 3, 9), F)])
case("avgp3d", lambda a: o1.avg_pool(a, [2, 2, 2], [0, 0, 0], [0, 0, 0], [2, 2, 2], True), [((1, 2, 6, 6, 6), F)])
case("maxp_u8", lambda a: o1.max_pool(a, [2, 2], [0, 0], [0, 0], [2, 2]), [((1, 2, 6, 6), "u8")])
for s in ((1, 1), (3, 4), (2, 7), (8, 9)):
    case(f"adavg_{s[0]}{s[1]}", lambda a, s=s: o8.adaptive_avg_pool(a, C(list(s), "i64")), [((1, 2, 8, 9), F)])
    case(
        f"admax_{s[0]}{s[1]}", lambda a, s=s: o8.adaptive_max_pool(a, C(list(s), "i64")).output(0), [((1, 2, 8, 9), F)]
    )
BN = [[1.0, 2, 0.5], [0.1, 0.2, 0.3], [0, 0.5, -0.5], [1.0, 2, 0.3]]
for nm, op, shape in (("bn5", o5, (2, 3, 4, 4)), ("bn1", o1, (2, 3, 4, 4)), ("bn5_2d", o5, (2, 3))):
    case(
        nm,
        lambda a, op=op: op.batch_norm_inference(a, *[C(v, "f32") for v in BN], 1e-3),
        [(shape, F)],
    )
for nv in (True, False):
    for ac in (True, False):
        case(f"mvn2_{nv}_{ac}", lambda a, nv=nv, ac=ac: o2.mvn(a, ac, nv, 0.1), [((2, 3, 4, 5), F)])
    for em in ("inside_sqrt", "outside_sqrt"):
        for ax in ([2, 3], [1, 2, 3], [-1]):
            case(
                f"mvn6_{nv}_{em}_{len(ax)}",
                lambda a, nv=nv, em=em, ax=ax: o6.mvn(a, C(ax, "i64"), nv, 0.1, em),
                [((2, 3, 4, 5), F)],
            )
for em in ("add", "max"):
    for ax in ([1], [1, 2, 3], [2]):
        case(
            f"nl2_{em}_{len(ax)}{ax[0]}",
            lambda a, em=em, ax=ax: o1.normalize_l2(a, C(ax, "i64"), 0.7, em),
            [((2, 3, 4, 5), F)],
        )
for sz in (3, 5, 4):
    case(f"lrn_c{sz}", lambda a, sz=sz: o1.lrn(a, C([1], "i64"), 0.3, 0.75, 1.2, sz), [((2, 6, 4, 5), F)])
    case(f"lrn_hw{sz}", lambda a, sz=sz: o1.lrn(a, C([2, 3], "i64"), 0.3, 0.75, 1.2, sz), [((2, 6, 5, 5), F)])
case(
    "gn",
    lambda a: o12.group_normalization(a, C([1.0, 2, 0.5, 3], "f32"), C([0.1, 0.2, 0.3, 0.4], "f32"), 2, 1e-3),
    [((2, 4, 4, 4), F)],
)
case("grn", lambda a: o1.grn(a, 0.7), [((2, 4, 4, 4), F)])
for c in (True, False):
    case(f"sdpa_{c}", lambda q, k, v, c=c: o13.scaled_dot_product_attention(q, k, v, causal=c), [((2, 3, 4, 8), F)] * 3)
case(
    "sdpa_m",
    lambda q, k, v, m: o13.scaled_dot_product_attention(q, k, v, m),
    [((2, 3, 4, 8), F)] * 3 + [((2, 1, 4, 4), F)],
)
case(
    "sdpa_mb",
    lambda q, k, v, m: o13.scaled_dot_product_attention(q, k, v, m, C(0.3, "f32")),
    [((2, 3, 4, 8), F)] * 3 + [((2, 1, 4, 4), "bool")],
)
# fake quantize
def fq(a, low, high, levels, out_low=None, out_high=None):
    out = (low, high) if out_low is None else (out_low, out_high)
    return o1.fake_quantize(a, *[C(v, "f32") for v in (low, high, *out)], levels)


column = lambda *v: np.array(v).reshape(1, 3, 1, 1)
for i, args in enumerate(
    (
        (-2.0, 2.0, 255),
        (0.0, 2.5, 256),
        (-1.0, 2.0, 256, 0.0, 255.0),
        (column(-1, -2, -0.5), column(1, 2, 0.5), 16),
        (-1.0, 1.0, 2, 1.0, -1.0),
    )
):
    case(f"fq{i + 1}", lambda a, args=args: fq(a, *args), [((2, 3, 4, 4), F)])


def int8net(a):
    q = fq(a, -2.0, 2.0, 256)
    w8 = C(rng.integers(-127, 128, (4, 3, 3, 3)), "i8")
    w = o1.multiply(
        o1.subtract(o1.convert(w8, "f32"), C(np.zeros((4, 1, 1, 1)), "f32")),
        C((rng.random((4, 1, 1, 1)) * 0.01 + 0.001), "f32"),
    )
    y = o1.convolution(q, w, [1, 1], [1, 1], [1, 1], [1, 1])
    y = o1.relu(o1.add(y, W(1, 4, 1, 1)))
    return fq(y, 0.0, 6.0, 256)


case("int8net", int8net, [((1, 3, 8, 8), F)], tol=1e-2)


def wcomp(bits):
    def f(a):
        t = {
            "u8": ov.Type.u8,
            "i8": ov.Type.i8,
            "u4": ov.Type.u4,
            "i4": ov.Type.i4,
            "f16": ov.Type.f16,
            "bf16": ov.Type.bf16,
        }[bits]
        if bits in ("f16", "bf16"):
            w = ov.op.Constant(t, ov.Shape([6, 16]), rng.random(96).tolist())
            x = o1.convert(w, "f32")
        else:
            lo, hi = {"u8": (0, 255), "i8": (-128, 127), "u4": (0, 15), "i4": (-8, 7)}[bits]
            w = ov.op.Constant(t, ov.Shape([6, 16]), rng.integers(lo, hi + 1, 96).tolist())
            z = ov.op.Constant(t, ov.Shape([6, 1]), rng.integers(max(lo, 0), hi + 1, 6).tolist())
            x = o1.multiply(
                o1.subtract(o1.convert(w, "f32"), o1.convert(z, "f32")), C(rng.random((6, 1)) * 0.1 + 0.01, "f32")
            )
        return o1.matmul(a, x, False, True)

    return f


for b in ("u8", "i8", "u4", "i4", "f16", "bf16"):
    case(f"wc_{b}", wcomp(b), [((2, 16), F)])
# interpolate
IMAGE = [((1, 2, 6, 5), F)]
for m in ("nearest", "linear", "linear_onnx", "cubic"):
    for ct in ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"):
        by = {"coordinate_transformation_mode": ct}
        for sz in ((7, 9), (3, 4), (1, 5), (12, 10)):
            for nm in (
                ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
                if m == "nearest"
                else ("round_prefer_floor",)
            ):
                case(
                    f"ip4_{m}_{ct}_{sz[0]}{sz[1]}_{nm}",
                    lambda a, m=m, by=by, sz=sz, nm=nm: ip4(a, sz, m, nearest_mode=nm, **by),
                    IMAGE,
                    batch2=False,
                )
        for sc in ((2.0, 1.5), (0.5, 0.7)):
            case(
                f"ip4s_{m}_{ct}_{sc[0]}",
                lambda a, m=m, by=by, sc=sc: ip4(a, [1, 1], m, scales=sc, cube_coeff=-0.6, **by),
                IMAGE,
                batch2=False,
            )
    case(f"ip4aa_{m}", lambda a, m=m: ip4(a, [3, 2], m, antialias=True), [((1, 2, 8, 7), F)])
    pads = {"pads_begin": [0, 0, 1, 0], "pads_end": [0, 0, 0, 2]}
    case(f"ip4pad_{m}", lambda a, m=m: ip4(a, [9, 8], m, **pads), IMAGE)
    full = {"scales": [1.0, 1.0, 1.5, 1.6], "shape_calculation_mode": "sizes"}
    case(f"ip4full_{m}", lambda a, m=m: ip4(a, [1, 2, 9, 8], m, None, **full), IMAGE)
    case(
        f"ip11_{m}",
        lambda a, m=m: o11.interpolate(
            a, C([9, 8], "i64"), m, "sizes", [0], [0], "half_pixel", "floor", False, -0.75, C([2, 3], "i64")
        ),
        [((1, 2, 6, 5), F)],
    )
    case(
        f"ip11s_{m}",
        lambda a, m=m: o11.interpolate(
            a, C([2.0, 2.0], "f32"), m, "scales", [0], [0], "half_pixel", "floor", False, -0.75, C([2, 3], "i64")
        ),
        [((1, 2, 6, 5), F)],
    )
    case(f"ip4_3d_{m}", lambda a, m=m: ip4(a, [9], m, [2]), [((1, 2, 6), F)])
    case(f"ip4_5d_{m}", lambda a, m=m: ip4(a, [9, 7, 4], m, [2, 3, 4]), [((1, 2, 6, 5, 4), F)])
    case(f"ip4_nhwc_{m}", lambda a, m=m: ip4(a, [9, 7], m, [1, 2]), [((1, 6, 5, 2), F)])
for m in ("nearest", "linear", "cubic"):
    for ac in (True, False):
        for sz in ((9, 8), (3, 4)):
            case(
                f"ip0_{m}_{ac}_{sz[0]}",
                lambda a, m=m, ac=ac, sz=sz: o1.interpolate(
                    a,
                    C(list(sz), "i64"),
                    {
                        "axes": np.array([2, 3]),
                        "mode": m,
                        "align_corners": ac,
                        "antialias": False,
                        "pads_begin": np.array([0]),
                        "pads_end": np.array([0]),
                    },
                ),
                [((1, 2, 6, 5), F)],
            )


def W2(*s):
    return C(((rng.random(s) - 0.5) * 1.2).astype(np.float32))


def sequence(name, op, gates, d="forward", lengths=(5, 5), bias=None, more=(), **k):
    """A recurrent operation with a state of 4 numbers for each direction."""
    nd = 2 if d == "bidirectional" else 1

    def build(x, *states):
        weights = W2(nd, 4 * gates, 3), W2(nd, 4 * gates, 4), W2(nd, bias or 4 * gates)
        return op(x, *states, C(list(lengths), "i64"), *weights, 4, d, *more, **k)

    states = 2 if gates == 4 else 1
    case(name, build, [((2, 5, 3), F)] + [((2, nd, 4), F)] * states, batch2=False)


for d in ("forward", "reverse", "bidirectional"):
    for sl in ((5, 5), (3, 5)):
        nm = f"{d}_{sl[0]}"
        sequence(f"lstmseq_{nm}", o5.lstm_sequence, 4, d, sl)
        sequence(f"gruseq_{nm}", o5.gru_sequence, 3, d, sl)
        sequence(f"gruseqlbr_{nm}", o5.gru_sequence, 3, d, sl, bias=16, linear_before_reset=True)
        sequence(f"rnnseq_{nm}", o5.rnn_sequence, 1, d, sl)
case(
    "lstmseq_const",
    lambda x: o5.lstm_sequence(
        x,
        C(np.zeros((1, 1, 4)), "f32"),
        C(np.ones((1, 1, 4)), "f32"),
        C([5], "i64"),
        W2(1, 16, 3),
        W2(1, 16, 4),
        W2(1, 16),
        4,
        "forward",
    ).output(0),
    [((1, 5, 3), F)],
)
sequence("lstmseq_clip", o5.lstm_sequence, 4, more=(None, None, None, 0.3))
sequence("gruseq_clip", o5.gru_sequence, 3, more=(None, None, None, 0.3))
sequence("rnnseq_relu", o5.rnn_sequence, 1, more=(["relu"],))
sequence("gruseq_acts", o5.gru_sequence, 3, more=(["sigmoid", "relu"],))
case(
    "lstmcell",
    lambda x, h, c: o4.lstm_cell(x, h, c, W2(16, 3), W2(16, 4), W2(16), 4),
    [((2, 3), F), ((2, 4), F), ((2, 4), F)],
)
case(
    "lstmcellacts",
    lambda x, h, c: o4.lstm_cell(x, h, c, W2(16, 3), W2(16, 4), W2(16), 4, ["sigmoid", "relu", "tanh"]),
    [((2, 3), F), ((2, 4), F), ((2, 4), F)],
)
case(
    "lstmcell1",
    lambda x, h, c: o1.lstm_cell(x, h, c, W2(16, 3), W2(16, 4), W2(16), 4),
    [((2, 3), F), ((2, 4), F), ((2, 4), F)],
)
case("grucell", lambda x, h: o3.gru_cell(x, h, W2(12, 3), W2(12, 4), W2(12), 4), [((2, 3), F), ((2, 4), F)])
case(
    "grucelllbr",
    lambda x, h: o3.gru_cell(x, h, W2(12, 3), W2(12, 4), W2(16), 4, linear_before_reset=True),
    [((2, 3), F), ((2, 4), F)],
)
case(
    "rnncell",
    lambda x, h: o3.rnn_cell(x, h, W2(4, 3), W2(4, 4), W2(4), 4, ["tanh"], [], []),
    [((2, 3), F), ((2, 4), F)],
)


def ti(rev=False, inv=True, axis=1, dyn=False):
    def f(x, h):
        xs = [2, 5, 3]
        xs[axis] = 1
        xi = P(xs)
        hi = P([2, 4])
        ps = [xi, hi]
        sq = o1.squeeze(xi, C([axis], "i64")) if xs[axis] == 1 else xi
        cell = (
            o4.lstm_cell(sq, hi, hi, W2(16, 3), W2(16, 4), W2(16), 4)
            if False
            else o1.tanh(o1.add(o1.matmul(sq, W2(3, 4), False, False), o1.matmul(hi, W2(4, 4), False, False)))
        )
        ho = o1.result(cell)
        yo = o1.result(o1.unsqueeze(cell, C([axis], "i64")))
        body = ov.Model([ho, yo], ps)
        t = o1.tensor_iterator()
        t.set_function(body)
        if rev:
            t.set_sliced_input(xi, x.output(0), -1, -1, 1, 0, axis)
        else:
            t.set_sliced_input(xi, x.output(0), 0, 1, 1, -1, axis)
        t.set_merged_input(hi, h.output(0), ho.output(0))
        a = t.get_iter_value(ho.output(0), -1)
        b = t.get_concatenated_slices(yo.output(0), *((-1, -1, 1, 0, axis) if rev else (0, 1, 1, -1, axis)))
        return [a, b]

    return f


case("ti_fwd", ti(), [((2, 5, 3), F), ((2, 4), F)], batch2=False)
case("ti_rev", ti(True), [((2, 5, 3), F), ((2, 4), F)], batch2=False)


def lp(trip, condval=None, useiter=True):
    def f(x, h):
        it = P([1], "i64")
        hi = P([2, 4])
        xi = P([2, 4])
        nh = o1.add(hi, o1.multiply(xi, o1.convert(it, "f32")))
        cond = o1.less(it, C([condval], "i64")) if condval is not None else C([True])
        rh = o1.result(nh)
        rc = o1.result(cond)
        ry = o1.result(o1.unsqueeze(nh, C([1], "i64")))
        body = ov.Model([rc, rh, ry], [it, hi, xi])
        l = o5.loop(C(trip, "i64"), C(True))
        l.set_function(body)
        l.set_special_body_ports([0, 0])
        l.set_invariant_input(xi, x.output(0))
        l.set_merged_input(hi, h.output(0), rh.output(0))
        a = l.get_iter_value(rh.output(0), -1)
        b = l.get_concatenated_slices(ry.output(0), 0, 1, 1, -1, 1)
        return [a, b]

    return f


case("loop_4", lp(4), [((2, 4), F), ((2, 4), F)], batch2=False)
case("loop_cond", lp(10, 3), [((2, 4), F), ((2, 4), F)], batch2=False)
case("loop_inf", lp(-1, 3), [((2, 4), F), ((2, 4), F)], batch2=False)


def iff(c, x, y):
    a = P([2, 4])
    b = P([2, 4])
    r1 = o1.result(o1.subtract(a, b))
    tb = ov.Model([r1], [a, b])
    a2 = P([2, 4])
    b2 = P([2, 4])
    r2 = o1.result(o1.multiply(a2, b2))
    eb = ov.Model([r2], [a2, b2])
    i = o8.if_op(c.output(0))
    i.set_then_body(tb)
    i.set_else_body(eb)
    i.set_input(x.output(0), a, a2)
    i.set_input(y.output(0), b, b2)
    return [i.set_output(r1, r2)]


case("if_1", iff, [((), "bool"), ((2, 4), F), ((2, 4), F)], batch2=False)
case(
    "if_2",
    iff,
    [((), "bool"), ((2, 4), F), ((2, 4), F)],
    batch2=False,
    values=lambda i, s, t: np.array(True) if t == "bool" else None,
)


# whole nets with a free batch
def net1(a):
    x = o1.relu(o1.convolution(a, W2(4, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1]))
    x = o1.max_pool(x, [2, 2], [0, 0], [0, 0], [2, 2])
    x = o1.reshape(x, C([1, -1], "i64"), False)
    return o1.softmax(o1.matmul(x, W2(16, 5), False, False), 1)


case("net_free", net1, [((1, 3, 8, 8), F)])
case("net_axis0", lambda a: o1.reduce_sum(a, C([0], "i64"), True), [((1, 3), F)], batch2=False)
case("net_softmax0", lambda a: o8.softmax(a, 0), [((1, 3), F)], batch2=False)


def net2(a):
    b = o1.reshape(a, C([3, 4], "i64"), False)
    return o1.matmul(b, W2(4, 2), False, False)


case("net_merge", net2, [((1, 3, 4), F)], batch2=False)

HW = lambda: (C([3, 4], "i64"), C([96, 128], "i64"))
PBA = dict(
    min_size=[16.0, 30.0],
    max_size=[38.4],
    aspect_ratio=[2.0, 3.0],
    flip=True,
    clip=False,
    step=16.0,
    offset=0.5,
    variance=[0.1, 0.1, 0.2, 0.2],
)


def pbc(nm, o="opset1", **k):
    at = dict(PBA, **k)
    case(
        nm,
        lambda a, at=at, o=o: o1.add(
            a,
            NF(
                o,
                "PriorBox",
                list(HW()),
                {kk: (np.array(v, np.float32) if isinstance(v, list) else v) for kk, v in at.items()},
            ),
        ),
        [((1, 1), F)],
        batch2=False,
    )


pbc("pb_1")
pbc("pb_2", clip=True)
pbc("pb_3", step=0.0)
pbc("pb_4", flip=False, max_size=[])
pbc("pb_5", variance=[])
pbc("pb_8", "opset8", min_max_aspect_ratios_order=False, max_size=[38.4, 50.0])
pbc("pb_8b", "opset8", min_max_aspect_ratios_order=True, max_size=[38.4, 50.0])
pbc("pb_dens", fixed_size=[16.0], density=[2.0], fixed_ratio=[1.0, 2.0], min_size=[], max_size=[])
pbc("pb_var1", variance=[0.3])
for st in (0.0, 16.0):
    for cl in (True, False):
        case(
            f"pbclu_{st}_{cl}",
            lambda a, st=st, cl=cl: o1.add(
                a,
                NF(
                    "opset1",
                    "PriorBoxClustered",
                    list(HW()),
                    {
                        "width": np.array([10.0, 20.0], np.float32),
                        "height": np.array([15.0, 33.0], np.float32),
                        "clip": cl,
                        "step": st,
                        "step_w": 0.0,
                        "step_h": 0.0,
                        "offset": 0.5,
                        "variance": np.array([0.1, 0.1, 0.2, 0.2], np.float32),
                    },
                ),
            ),
            [((1, 1), F)],
            batch2=False,
        )


def pri(n):
    c = rng.random((n, 2)) * 0.8 + 0.1
    s = rng.random((n, 2)) * 0.2 + 0.05
    b = np.concatenate([c - s, c + s], 1).reshape(1, 1, -1)
    v = np.tile([0.1, 0.1, 0.2, 0.2], n).reshape(1, 1, -1)
    return C(np.concatenate([b, v], 1), "f32")


def do(nm, o="opset1", ncls=3, n=40, shared=True, values=None, **k):
    at = dict(
        background_label_id=0,
        top_k=30,
        variance_encoded_in_target=False,
        keep_top_k=np.array([20]),
        code_type="caffe.PriorBoxParameter.CENTER_SIZE",
        share_location=shared,
        nms_threshold=0.45,
        confidence_threshold=0.3,
        clip_after_nms=False,
        clip_before_nms=False,
        decrease_label_id=False,
        normalized=True,
        input_height=1,
        input_width=1,
        objectness_score=0.0,
    )
    if o == "opset1":
        at["num_classes"] = ncls
    at.update(k)
    pb = pri(n)
    case(
        nm,
        lambda l, c, at=at: NF(o, "DetectionOutput", [l, c, pb], at),
        [((1, n * 4 * (1 if shared else ncls)), F), ((1, n * ncls), F)],
        batch2=False,
        values=lambda i, s, t: data(s, F, -1, 1) if i == 0 else data(s, F, 0, 1),
    )


do("do_1")
do("do_2", keep_top_k=np.array([200]), confidence_threshold=0.8)
do("do_3", shared=False)
do("do_4", code_type="caffe.PriorBoxParameter.CORNER")
do("do_5", top_k=-1, keep_top_k=np.array([-1]))
do("do_6", top_k=-1, keep_top_k=np.array([5]))
do("do_7", background_label_id=-1)
do("do_8", "opset8")
do("do_9", variance_encoded_in_target=True)
do("do_10", top_k=10, keep_top_k=np.array([-1]))
do("do_11", clip_after_nms=True)
do("do_12", confidence_threshold=2.0)
do("do_13", background_label_id=2)
for o in ("opset1", "opset3", "opset4", "opset5", "opset9"):
    for enc in ("corner", "center"):
        for srt in (True, False):
            at = {"box_encoding": enc, "sort_result_descending": srt}
            if o != "opset1":
                at["output_type"] = "i32"
            case(
                f"nms_{o}_{enc}_{srt}",
                lambda b, s, o=o, at=at: NF(
                    o, "NonMaxSuppression", [b, s, C(4, "i64"), C(0.4, "f32"), C(0.2, "f32")], at
                ),
                [((1, 12, 4), F), ((1, 2, 12), F)],
                batch2=False,
                values=lambda i, s, t: (
                    np.concatenate([data(s[:2] + [2], F, 0, 1), data(s[:2] + [2], F, 1, 2)], -1)
                    if i == 0
                    else data(s, F, 0, 1)
                ),
            )
    case(
        f"nms2_{o}",
        lambda b, s, o=o: NF(
            o,
            "NonMaxSuppression",
            [b, s, C(4, "i64"), C(0.4, "f32"), C(0.2, "f32")],
            {
                "box_encoding": "corner",
                "sort_result_descending": False,
                **({"output_type": "i64"} if o != "opset1" else {}),
            },
        ),
        [((2, 12, 4), F), ((2, 2, 12), F)],
        batch2=False,
        values=lambda i, s, t: (
            np.concatenate([data(s[:2] + [2], F, 0, 1), data(s[:2] + [2], F, 1, 2)], -1) if i == 0 else data(s, F, 0, 1)
        ),
    )
ROI = np.array([[0, 1, 1, 8, 9], [0, 2, 3, 10, 6], [0, 0, 0, 3, 3]], np.float32)
for m in ("max", "bilinear"):
    case(
        f"roip_{m}",
        lambda a, m=m: NF(
            "opset2",
            "ROIPooling",
            [a, C(ROI)],
            {"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.5 if m == "max" else 0.05, "method": m},
        ),
        [((1, 2, 7, 8), F)],
        batch2=False,
    )
for m in ("avg", "max"):
    for sr in (0, 2):
        case(
            f"roia3_{m}_{sr}",
            lambda a, m=m, sr=sr: NF(
                "opset3",
                "ROIAlign",
                [a, C(ROI[:, 1:]), C([0, 0, 0], "i64")],
                {"pooled_h": 3, "pooled_w": 2, "sampling_ratio": sr, "spatial_scale": 0.5, "mode": m},
            ),
            [((1, 2, 7, 8), F)],
            batch2=False,
        )
        for am in ("asymmetric", "half_pixel_for_nn", "half_pixel"):
            case(
                f"roia9_{m}_{sr}_{am}",
                lambda a, m=m, sr=sr, am=am: NF(
                    "opset9",
                    "ROIAlign",
                    [a, C(ROI[:, 1:]), C([0, 0, 0], "i64")],
                    {
                        "pooled_h": 3,
                        "pooled_w": 2,
                        "sampling_ratio": sr,
                        "spatial_scale": 0.5,
                        "mode": m,
                        "aligned_mode": am,
                    },
                ),
                [((1, 2, 7, 8), F)],
                batch2=False,
            )
case(
    "yolo_soft",
    lambda a: NF(
        "opset1",
        "RegionYolo",
        [a],
        {
            "anchors": np.array([1.0, 2, 3, 4], np.float32),
            "axis": 1,
            "coords": 4,
            "classes": 3,
            "end_axis": 3,
            "num": 2,
            "do_softmax": True,
            "mask": np.array([0]),
        },
    ),
    [((1, 16, 4, 5), F)],
)
case(
    "yolo_sig",
    lambda a: NF(
        "opset1",
        "RegionYolo",
        [a],
        {
            "anchors": np.array([1.0, 2, 3, 4], np.float32),
            "axis": 1,
            "coords": 4,
            "classes": 3,
            "end_axis": 3,
            "num": 6,
            "do_softmax": False,
            "mask": np.array([0, 1]),
        },
    ),
    [((1, 16, 4, 5), F)],
)
case("reorg", lambda a: o2.reorg_yolo(a, [2]), [((1, 8, 4, 6), F)])
case("reorg1", lambda a: o2.reorg_yolo(a, [2]), [((1, 4, 4, 6), F)])
for mg in (True, False):
    case(
        f"ctc_{mg}",
        lambda a, mg=mg: NF(
            "opset1",
            "CTCGreedyDecoder",
            [a, C(np.array([[1, 1], [1, 1], [1, 1], [1, 1], [1, 0]]), "f32")],
            {"ctc_merge_repeated": mg},
        ),
        [((5, 2, 3), F)],
        batch2=False,
    )
    case(
        f"ctcs_{mg}",
        lambda a, mg=mg: NF(
            "opset6",
            "CTCGreedyDecoderSeqLen",
            [a, C([6, 4], "i32"), C([1], "i32")],
            {"merge_repeated": mg, "classes_index_type": "i32", "sequence_length_type": "i32"},
        ),
        [((2, 6, 3), F)],
        batch2=False,
    )


def packed(name):
    """One model as JSON, without notes of its maker."""
    folder = Path(ROOT) / name
    xml = re.sub(r">\s+<", "><", (folder / "model.xml").read_text())
    xml = re.sub(r"<rt_info.*?</rt_info>|<rt_info />", "", xml, flags=re.S)

    def tensor(file):
        array = np.load(folder / file)
        return {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "data": base64.b64encode(array.tobytes()).decode(),
        }

    runs = json.loads((folder / "case.json").read_text())["runs"]
    count = 2 if name.startswith(("net", "sh_resh", "lstm")) else 1
    return {
        "name": name,
        "xml": xml,
        "bin": base64.b64encode((folder / "model.bin").read_bytes()).decode(),
        "runs": [
            {side: [tensor(file) for file in run[side]] for side in ("inputs", "outputs")} for run in runs[:count]
        ],
    }


def selected():
    """One model of those whose names differ in numbers and truth values only."""
    seen = set()
    for folder in sorted(Path(ROOT).iterdir()):
        name = folder.name
        # Halves are not rounded at import, and sums of a quantized convolution may round to the next step.
        if name.startswith(("cv_f32_f16", "int8net")) or (
            name.startswith(("maxp_", "avgp")) and "explicit" not in name
        ):
            continue
        if sum(file.stat().st_size for file in folder.iterdir() if file.name != "model.xml") > 9000:
            continue
        key = re.sub(r"[0-9.]+|True|False", "#", name)
        if key not in seen:
            seen.add(key)
            yield name


print(stats)
if "--pack" in sys.argv:
    text = json.dumps([packed(name) for name in selected()]).encode()
    (Path(__file__).parent / "oracle.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
