"""Makes tree models of four libraries with what the libraries answer: the reference of of-libraries.ts.

    python libraries.py libraries.gz

Needs numpy, onnx, xgboost, lightgbm, scikit-learn, skl2onnx and catboost. Half of the models are steep, so that
probabilities are small. XGBoost and LightGBM are in their own formats; scikit-learn (by skl2onnx) and CatBoost (by itself) are
ONNX, which holds leaves in float32. Where a steep model of scikit-learn would show that rounding, its own leaves are rounded
before it is asked.
"""

import base64
import gzip
import io
import json
import os
import sys
import tempfile

import catboost
import lightgbm as lgb
import numpy as np
import onnx
import xgboost as xgb
from skl2onnx import to_onnx
from sklearn.ensemble import (ExtraTreesClassifier, GradientBoostingClassifier, GradientBoostingRegressor,
                              RandomForestClassifier, RandomForestRegressor)
from sklearn.tree import DecisionTreeClassifier

EACH = 25
ROWS = 10
# Of flat and of steep models.
ROUNDS = (3, 7)


def data(rng, classes):
    x = rng.normal(size=(160, 4)).astype(np.float32)
    raw = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=160)
    return x, (np.digitize(raw, [0.1] if classes == 2 else [-0.4, 0.5])).astype(int)


def probes(rng, x):
    rows = np.concatenate([x[rng.integers(0, len(x), ROWS - 2)], np.zeros((1, 4)), 9 * rng.normal(size=(1, 4))])
    return rows.astype(np.float32)


def xgboost_case(rng, i):
    classes = 2 + i % 2
    x, y = data(rng, classes)
    steep = i % 4 >= 2
    params = {"objective": "binary:logistic" if classes == 2 else "multi:softprob", "max_depth": 3, "nthread": 1,
              "eta": 0.9 if steep else 0.2, "lambda": 0.01 if steep else 1, "min_child_weight": 0,
              "booster": "dart" if i % 5 == 4 else "gbtree", "seed": i}
    if classes > 2:
        params["num_class"] = classes
    trained = xgb.train(params, xgb.DMatrix(x, y), num_boost_round=ROUNDS[steep])
    raw = trained.save_raw("json")
    model = xgb.Booster(model_file=None)
    model.load_model(raw)
    rows = probes(rng, x)
    answer = model.predict(xgb.DMatrix(rows))
    return "model.json", slim(raw), rows, {"prediction": answer}


def slim(raw):
    """Without what no prediction needs."""
    model = json.loads(raw)
    booster = model["learner"]["gradient_booster"]
    for tree in booster.get("gbtree", booster)["model"]["trees"]:
        for name in ("base_weights", "loss_changes", "sum_hessian", "parents"):
            tree[name] = [0] * len(tree[name])
    return json.dumps(model, separators=(",", ":")).encode()


def lightgbm_case(rng, i):
    classes = 2 + i % 2
    x, y = data(rng, classes)
    steep = i % 4 >= 2
    params = {"objective": "binary" if classes == 2 else ["multiclass", "multiclassova"][i // 2 % 2], "num_leaves": 6,
              "learning_rate": 0.9 if steep else 0.2, "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1, "seed": i}
    if classes > 2:
        params["num_class"] = classes
    model = lgb.train(params, lgb.Dataset(x, y), num_boost_round=ROUNDS[steep])
    rows = probes(rng, x)
    unused = ("[", "leaf_weight=", "leaf_count=", "internal_", "split_gain=")
    text = "\n".join(line for line in model.model_to_string().split("\n") if not line.startswith(unused))
    return "model.txt", text.encode(), rows, {"prediction": model.predict(rows)}


def sklearn_case(rng, i):
    classes = 2 + i % 2
    x, y = data(rng, classes)
    if i % 10 in (5, 6):
        y = np.array(["no", "maybe", "yes"])[y] if classes == 3 else np.array(["no", "yes"])[y]
    trees = {"n_estimators": 4, "max_depth": 3, "random_state": i}
    model = [lambda: GradientBoostingClassifier(learning_rate=0.9 if i % 4 >= 2 else 0.2, **trees),
             lambda: RandomForestClassifier(**trees), lambda: ExtraTreesClassifier(**trees),
             lambda: DecisionTreeClassifier(max_depth=3, random_state=i),
             lambda: GradientBoostingRegressor(**trees)][i % 5]().fit(x, y if i % 5 < 4 else x[:, 0] + y.astype(float))
    round_leaves(model)
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    graph = to_onnx(model, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    for node in graph.graph.node:
        for unused in [item for item in node.attribute if item.name == "nodes_hitrates"]:
            node.attribute.remove(unused)
    rows = probes(rng, x)
    if options is None:
        return "model.onnx", graph.SerializeToString(), rows, {"variable": model.predict(rows)}
    return "model.onnx", graph.SerializeToString(), rows, {"label": model.predict(rows).tolist(),
                                                           "probabilities": model.predict_proba(rows)}


def round_leaves(model):
    """Leaves times the learning rate become float32 numbers, as the file has them. Of forests they are shares, which stay."""
    if not hasattr(model, "learning_rate"):
        return
    for tree in model.estimators_.ravel():
        leaves = tree.tree_.value
        leaves[:] = (leaves * model.learning_rate).astype(np.float32) / model.learning_rate


def catboost_case(rng, i):
    classes = 2 + i % 2
    x, y = data(rng, classes)
    kind = catboost.CatBoostRegressor if i % 5 == 4 else catboost.CatBoostClassifier
    model = kind(iterations=ROUNDS[i % 4 >= 2], depth=3, learning_rate=0.9 if i % 4 >= 2 else 0.2, verbose=0,
                 allow_writing_files=False, thread_count=1, random_seed=i, l2_leaf_reg=0.5)
    model.fit(x, x[:, 0] * 2 + y if kind is catboost.CatBoostRegressor else y)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        model.save_model(path, format="onnx")
        graph = onnx.load(path)
    del graph.metadata_props[:]
    rows = probes(rng, x)
    if kind is catboost.CatBoostRegressor:
        return "model.onnx", graph.SerializeToString(), rows, {"predictions": model.predict(rows)}
    return "model.onnx", graph.SerializeToString(), rows, {"label": model.predict(rows).ravel().tolist(),
                                                           "probabilities": model.predict_proba(rows)}


def numbers(table):
    return base64.b64encode(np.ascontiguousarray(table, dtype="<f8").tobytes()).decode()


def main():
    cases, files = [], []
    makers = {"xgboost": xgboost_case, "lightgbm": lightgbm_case, "scikit-learn": sklearn_case, "catboost": catboost_case}
    for library, maker in makers.items():
        for i in range(EACH):
            file, model, rows, answers = maker(np.random.default_rng([7, i]), i)
            cases.append({"library": library, "file": file, "bytes": len(model),
                          "rows": base64.b64encode(rows.astype("<f4").tobytes()).decode(),
                          "answers": {name: value if isinstance(value, list) else numbers(value)
                                      for name, value in answers.items()}})
            files.append(model)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(json.dumps(cases).encode() + b"\n" + b"".join(files))
    with open(sys.argv[1], "wb") as file:
        file.write(buffer.getvalue())
    print(len(cases), "models,", len(buffer.getvalue()), "bytes")


main()
