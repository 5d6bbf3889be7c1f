"""Makes nodes of ai.onnx.ml with what onnx.reference answers: the reference of evaluator.test.ts.

    python reference.py reference.json.gz

Needs onnx and numpy. Where onnx.reference cannot be right, evaluator.test.ts says why.
"""

import base64
import gzip
import io
import json
import sys

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

ML = "ai.onnx.ml"
TYPES = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("float64"): TensorProto.DOUBLE, np.dtype("int64"): TensorProto.INT64}
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


def f32(values):
    return [float(v) for v in np.asarray(values, dtype=np.float32).ravel()]


def trees(rng, kind, ids, modes, count=3):
    """Full trees of depth 2 over 3 columns; each leaf has a weight for some of the ids."""
    a = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                               "missing_value_tracks_true")}
    leaf = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        for node in range(7):
            inner = node < 3
            a["treeids"].append(tree)
            a["nodeids"].append(node)
            a["featureids"].append(int(rng.integers(3)) if inner else 0)
            a["values"].append(float(np.float32(rng.integers(-4, 5) / 2)) if inner else 0.0)
            a["modes"].append(str(rng.choice(modes)) if inner else "LEAF")
            a["truenodeids"].append(2 * node + 1 if inner else 0)
            a["falsenodeids"].append(2 * node + 2 if inner else 0)
            a["missing_value_tracks_true"].append(int(rng.integers(2)))
            for i in () if inner else ids:
                leaf["treeids"].append(tree)
                leaf["nodeids"].append(node)
                leaf["ids"].append(i)
                leaf["weights"].append(float(np.float32(rng.normal())))
    return {**{f"nodes_{k}": v for k, v in a.items()}, **{f"{kind}_{k}": v for k, v in leaf.items()}}


def table(rng, rows=12, columns=3, missing=False):
    x = np.round(rng.normal(size=(rows, columns)) * 4) / 4
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x.astype(np.float32)


def cases(rng):
    number = {"classlabels_int64s": [7, 9]}
    for transform in TRANSFORMS:
        for modes in (["BRANCH_LEQ"], ["BRANCH_LT"], ["BRANCH_GTE", "BRANCH_GT"], ["BRANCH_EQ", "BRANCH_NEQ"]):
            x = table(rng, missing=True)
            yield "TreeEnsembleClassifier", {**trees(rng, "class", [0, 1, 2], modes), "classlabels_strings": ["a", "b", "c"],
                                             "post_transform": transform}, [x]
        x = table(rng)
        yield "TreeEnsembleClassifier", {**trees(rng, "class", [0], ["BRANCH_LEQ"]), **number, "post_transform": transform}, [x]
        yield "TreeEnsembleClassifier", {**trees(rng, "class", [0], ["BRANCH_LEQ"]), **number, "base_values": [0.25],
                                         "post_transform": transform}, [x]
        yield "TreeEnsembleClassifier", {**trees(rng, "class", [0, 1], ["BRANCH_LEQ"]), **number, "base_values": [0.25, -0.5],
                                         "post_transform": transform}, [x]
        yield "LinearClassifier", {"coefficients": f32(rng.normal(size=9)), "intercepts": f32(rng.normal(size=3)),
                                   "classlabels_ints": [3, 5, 8], "post_transform": transform}, [x]
        yield "LinearClassifier", {"coefficients": f32(rng.normal(size=3)), "intercepts": f32(rng.normal(size=1)),
                                   "classlabels_strings": ["n", "y"], "post_transform": transform}, [x]
    positive = trees(rng, "class", [0], ["BRANCH_LEQ"])
    positive["class_weights"] = [abs(w) / 4 for w in positive["class_weights"]]
    yield "TreeEnsembleClassifier", {**positive, **number, "post_transform": "NONE"}, [table(rng)]
    yield "TreeEnsembleClassifier", {**positive, **number, "post_transform": "LOGISTIC"}, [table(rng)]
    for kind in ("SUM", "AVERAGE", "MIN", "MAX"):
        for base in ({}, {"base_values": [0.5, -0.25]}):
            yield "TreeEnsembleRegressor", {**trees(rng, "target", [0, 1], ["BRANCH_LT"]), "n_targets": 2,
                                            "aggregate_function": kind, **base}, [table(rng, missing=True)]
    yield "LinearRegressor", {"coefficients": f32(rng.normal(size=6)), "intercepts": f32([1, 2]), "targets": 2}, [table(rng)]
    for kernel, parameters in (("LINEAR", [0, 0, 0]), ("RBF", [0.3, 0, 0]), ("POLY", [0.5, 1, 3]), ("SIGMOID", [0.2, 0.1, 0])):
        svm = {"kernel_type": kernel, "kernel_params": f32(parameters)}
        vectors = f32(rng.normal(size=15))
        yield "SVMRegressor", {**svm, "coefficients": f32(rng.normal(size=5)), "support_vectors": vectors, "n_supports": 5,
                               "rho": f32([0.3])}, [table(rng)]
        yield "SVMClassifier", {**svm, "coefficients": f32(rng.normal(size=10)), "support_vectors": vectors,
                                "vectors_per_class": [2, 2, 1], "rho": f32([0.1, -0.2, 0.3]),
                                "classlabels_ints": [3, 5, 8]}, [table(rng)]
        yield "SVMClassifier", {**svm, "coefficients": f32(rng.normal(size=5)), "support_vectors": vectors,
                                "vectors_per_class": [3, 2], "rho": f32([0.1]), "classlabels_ints": [3, 5]}, [table(rng)]
    for norm in ("MAX", "L1", "L2"):
        yield "Normalizer", {"norm": norm}, [np.concatenate([table(rng), np.zeros((1, 3), np.float32)])]
    yield "Scaler", {"offset": f32([1, -2, 0.5]), "scale": f32([2, 0.25, -3])}, [table(rng)]
    yield "Scaler", {"offset": f32([1]), "scale": f32([0.1])}, [table(rng)]
    yield "Imputer", {"imputed_value_floats": f32([9, 8, 7]), "replaced_value_float": float("nan")}, [table(rng, missing=True)]
    yield "Imputer", {"imputed_value_floats": f32([9]), "replaced_value_float": 0.25}, [table(rng)]
    yield "Imputer", {"imputed_value_int64s": [9, 8], "replaced_value_int64": -1}, [rng.integers(-2, 2, (8, 2))]
    yield "OneHotEncoder", {"cats_int64s": [3, 1, 7], "zeros": 1}, [rng.integers(0, 9, (10, 1))]
    yield "OneHotEncoder", {"cats_strings": ["a", "b"], "zeros": 1}, [np.array(["a", "c", "b", ""])]
    yield "LabelEncoder", {"keys_strings": ["a", "b"], "values_int64s": [4, 2], "default_int64": -9}, [np.array(["b", "x", "a"])]
    yield "LabelEncoder", {"keys_int64s": [4, 2], "values_strings": ["a", "b"]}, [np.array([2, 3, 4])]
    yield "LabelEncoder", {"keys_floats": f32([0.5, float("nan")]), "values_floats": f32([4, 2]),
                           "default_float": 0.75}, [np.array([0.5, np.nan, 1], np.float32)]
    yield "Binarizer", {"threshold": 0.25}, [table(rng)]
    yield "FeatureVectorizer", {"inputdimensions": [3, 2]}, [table(rng), table(rng, columns=2)]
    yield "ArrayFeatureExtractor", {}, [table(rng, columns=5), np.array([4, 0, 2])]


def text(value):
    return None if isinstance(value, float) and np.isnan(value) else value


def packed(array):
    array = np.asarray(array)
    kind = "string" if array.dtype.kind in "US" else str(array.dtype)
    return {"dtype": kind, "shape": array.shape, "data": [text(v) for v in array.ravel().tolist()]}


def main():
    made = []
    for op, attributes, inputs in cases(np.random.default_rng(11)):
        names = [f"X{i}" for i in range(len(inputs))]
        count = 2 if op.endswith("Classifier") else 1
        node = helper.make_node(op, names, [f"Y{i}" for i in range(count)], domain=ML, **attributes)
        graph = helper.make_graph(
            [node], "node",
            [helper.make_tensor_value_info(n, TYPES.get(x.dtype, TensorProto.STRING), None) for n, x in zip(names, inputs)],
            [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in node.output])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)], ir_version=8)
        with np.errstate(all="ignore"):
            answers = ReferenceEvaluator(model).run(None, dict(zip(names, inputs)))
        made.append({"op": op, "model": base64.b64encode(model.SerializeToString()).decode(),
                     "inputs": [packed(x) for x in inputs], "answers": [packed(y) for y in answers]})
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(json.dumps(made).encode())
    with open(sys.argv[1], "wb") as file:
        file.write(buffer.getvalue())
    print(len(made), "nodes,", len(buffer.getvalue()), "bytes")


main()
