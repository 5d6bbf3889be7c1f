"""Makes random models of XGBoost and LightGBM with what the libraries predict, as the reference of the importer.

    python generate.py COUNT SEED FOLDER    one folder per model: the model's file and case.json
    python generate.py COUNT SEED FILE.json all of them in one file

Needs xgboost or lightgbm (or both), and numpy. The rows that are predicted are training rows, values exactly on thresholds,
their neighbours, missing values, zeros and unknown categories.
"""

import base64
import json
import os
import re
import sys
import tempfile

import numpy as np

try:
    import xgboost as xgb
except ImportError:
    xgb = None
try:
    import lightgbm as lgb
except ImportError:
    lgb = None

XGB_OBJECTIVES = [
    "binary:logistic", "reg:logistic", "binary:logitraw", "binary:hinge", "multi:softprob", "multi:softmax",
    "count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft", "reg:squarederror",
    "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror", "reg:quantileerror", "rank:pairwise",
    "rank:ndcg", "rank:map",
]
LGB_OBJECTIVES = [
    "binary", "multiclass", "multiclassova", "cross_entropy", "cross_entropy_lambda", "regression", "regression_l1",
    "huber", "fair", "quantile", "mape", "poisson", "gamma", "tweedie", "lambdarank", "rank_xendcg",
]
CLASSES = 3


def features(rng, rows, columns, categorical, missing, dtype):
    """A table: numbers on a coarse grid or free, zeros, some whole numbers; the last columns are categories."""
    x = rng.normal(size=(rows, columns))
    grid = rng.random(columns) < 0.4
    x[:, grid] = np.round(x[:, grid] * 2) / 2
    x[rng.random(x.shape) < 0.1] = 0
    for c in categorical:
        x[:, c] = rng.integers(0, rng.integers(3, 40), rows)
    if missing:
        x[rng.random(x.shape) < 0.15] = np.nan
    return x.astype(dtype)


def labels(rng, objective, x):
    clean = np.nan_to_num(x.astype(np.float64))
    raw = clean @ rng.normal(size=x.shape[1]) + rng.normal(size=len(x)) * 0.3
    raw = (raw - raw.mean()) / (raw.std() + 1e-9)
    name = objective.split(":")[-1]
    if name in ("softprob", "softmax", "multiclass", "multiclassova"):
        return np.digitize(raw, [-0.4, 0.4])
    if name in ("logistic", "logitraw", "hinge", "binary", "map"):
        return (raw > 0.2).astype(np.float64)
    if name in ("cross_entropy", "cross_entropy_lambda"):
        return 1 / (1 + np.exp(-raw))
    if name in ("poisson",):
        return np.floor(np.exp(raw))
    if name in ("gamma", "tweedie", "cox", "aft", "mape", "squaredlogerror"):
        return np.exp(raw) + 0.1
    if name in ("pairwise", "ndcg", "lambdarank", "rank_xendcg"):
        return np.digitize(raw, [-1, 0, 1])
    return raw * 3 + 10


def probes(rng, x, thresholds, categorical, dtype, huge=1e30):
    """Rows to predict: some of training, and those whose values lie on thresholds and around zero."""
    rows = [x[rng.integers(0, len(x), 12)].astype(np.float64)]
    special = x[rng.integers(0, len(x), 24)].astype(np.float64)
    for row in special:
        for c in range(x.shape[1]):
            draw = rng.random()
            if c in categorical:
                if draw < 0.6:
                    row[c] = rng.choice([0.0, 1.0, 2.5, 7.9, 31, 32, 33, 63, 64, 99, -1, -0.5, 1000, np.nan])
            elif draw < 0.5 and len(thresholds.get(c, [])):
                t = dtype(rng.choice(thresholds[c]))
                row[c] = rng.choice([t, np.nextafter(t, dtype(-np.inf)), np.nextafter(t, dtype(np.inf))])
            elif draw < 0.7:
                row[c] = rng.choice([0.0, -0.0, 1e-36, -1e-36, 1e-34, np.nan, huge, -huge])
    rows.append(special)
    rows.append(np.full((1, x.shape[1]), np.nan))
    rows.append(np.zeros((1, x.shape[1])))
    return np.concatenate(rows).astype(dtype)


def xgb_thresholds(path_json):
    found = {}
    model = json.load(open(path_json))["learner"]["gradient_booster"]
    model = model.get("gbtree", model)["model"]
    for tree in model.get("trees", []):
        for left, feature, value in zip(tree["left_children"], tree["split_indices"], tree["split_conditions"]):
            if left >= 0:
                found.setdefault(feature, []).append(value)
    return found


def lgb_thresholds(text):
    found = {}
    for f, t in zip(re.findall(r"^split_feature=(.*)$", text, re.M), re.findall(r"^threshold=(.*)$", text, re.M)):
        for feature, value in zip(f.split(), t.split()):
            found.setdefault(int(feature), []).append(float(value))
    return found


def xgb_case(rng, folder):
    objective = str(rng.choice(XGB_OBJECTIVES))
    columns = int(rng.integers(1, 9))
    version = tuple(int(part) for part in xgb.__version__.split(".")[:2])
    if objective == "reg:quantileerror" and version < (2, 0):
        objective = "reg:squarederror"
    booster = str(rng.choice(["gbtree", "gbtree", "gbtree", "dart", "gblinear"]))
    if objective in ("survival:aft", "reg:absoluteerror", "reg:quantileerror") and booster == "gblinear":
        booster = "gbtree"
    hist = booster != "gblinear" and rng.random() < 0.6
    categorical = list(range(columns))[columns - int(rng.integers(0, 3)):] if hist and columns > 2 and rng.random() < 0.6 else []
    rows = int(rng.integers(60, 300))
    missing = bool(rng.random() < 0.6)
    x = features(rng, rows, columns, categorical, missing, np.float32)
    y = labels(rng, objective, x)
    params = {"objective": objective, "booster": booster, "max_depth": int(rng.integers(1, 7)), "nthread": 1,
              "eta": float(rng.uniform(0.1, 0.7)), "seed": int(rng.integers(1 << 30)), "verbosity": 0,
              "min_child_weight": float(rng.choice([0, 1]))}
    if booster != "gblinear":
        params["tree_method"] = "hist" if hist else str(rng.choice(["exact", "approx"]))
        params["num_parallel_tree"] = int(rng.choice([1, 1, 3]))
        params["subsample"] = float(rng.choice([1.0, 0.7]))
    if booster == "dart":
        params["rate_drop"] = 0.3
        params["normalize_type"] = str(rng.choice(["tree", "forest"]))
    if categorical:
        params["max_cat_to_onehot"] = int(rng.choice([1, 4, 100]))
    if objective.startswith("multi:"):
        params["num_class"] = CLASSES
    if objective == "reg:quantileerror":
        params["quantile_alpha"] = [0.2, 0.8] if rng.random() < 0.5 else 0.5
    # XGBoost 3 uses only the first of several with gblinear, which the importer refuses.
    if rng.random() < 0.3 or (booster == "gblinear" and objective.startswith("multi:")):
        params["base_score"] = 0.3
    types = ["c" if c in categorical else "q" for c in range(columns)]
    names = [f"column {c}" for c in range(columns)] if rng.random() < 0.5 else None
    matrix = lambda table, **more: xgb.DMatrix(table, feature_types=types if categorical else None, feature_names=names,
                                               enable_categorical=bool(categorical), **more)
    data = matrix(x, label=None if objective == "survival:aft" else y)
    if objective == "survival:aft":
        data.set_float_info("label_lower_bound", y)
        data.set_float_info("label_upper_bound", y * 1.5)
    if objective.startswith("rank:"):
        data.set_group([rows // 2, rows - rows // 2])
    model = xgb.train(params, data, num_boost_round=int(rng.integers(1, 12)))
    plain = os.path.join(folder, "thresholds.tmp.json")
    model.save_model(plain)
    thresholds = xgb_thresholds(plain)
    os.remove(plain)
    file = str(rng.choice(["model.json", "model.ubj"]))
    model.save_model(os.path.join(folder, file))
    probe = probes(rng, x, thresholds, categorical, np.float32, 1e30 if thresholds else 3.0)
    return {"file": file, "params": {**params, "xgboost": xgb.__version__}, "dtype": "float32",
            "columns": names or [f"f{c}" for c in range(columns)]}, probe, model.predict(matrix(probe))


def lgb_case(rng, folder):
    objective = str(rng.choice(LGB_OBJECTIVES))
    columns = int(rng.integers(1, 9))
    categorical = list(range(columns))[columns - int(rng.integers(0, 3)):] if columns > 2 and rng.random() < 0.5 else []
    rows = int(rng.integers(100, 400))
    missing = bool(rng.random() < 0.6)
    x = features(rng, rows, columns, categorical, missing, np.float64)
    y = labels(rng, objective, x)
    params = {"objective": objective, "num_leaves": int(rng.integers(2, 32)), "num_threads": 1, "verbosity": -1,
              "learning_rate": float(rng.uniform(0.1, 0.5)), "seed": int(rng.integers(1 << 30)),
              "min_data_in_leaf": int(rng.choice([1, 5, 20])), "max_bin": int(rng.choice([15, 255])),
              "boosting": str(rng.choice(["gbdt", "gbdt", "dart", "rf"])), "use_missing": bool(rng.random() < 0.8),
              "zero_as_missing": bool(rng.random() < 0.3), "cat_smooth": float(rng.choice([0, 10])),
              "min_data_per_group": 1, "max_cat_to_onehot": int(rng.choice([1, 4])), "deterministic": True}
    if params["boosting"] == "rf":
        params.update(bagging_freq=1, bagging_fraction=0.7)
    if objective in ("multiclass", "multiclassova"):
        params["num_class"] = CLASSES
    if objective in ("binary", "multiclassova") and rng.random() < 0.5:
        params["sigmoid"] = 1.7
    if objective == "regression" and rng.random() < 0.4:
        params["reg_sqrt"] = True
    data = lgb.Dataset(x, label=y, categorical_feature=categorical or "auto", params={"verbosity": -1},
                       group=[rows // 2, rows - rows // 2] if "rank" in objective else None)
    model = lgb.train(params, data, num_boost_round=int(rng.integers(1, 12)))
    model.save_model(os.path.join(folder, "model.txt"))
    thresholds = lgb_thresholds(open(os.path.join(folder, "model.txt")).read())
    probe = probes(rng, x, thresholds, categorical, np.float64)
    return {"file": "model.txt", "params": {**params, "lightgbm": lgb.__version__}, "dtype": "float64",
            "columns": model.feature_name()}, probe, model.predict(probe)


def numbers(table):
    """As hexadecimal bytes: exact, with NaN and minus zero."""
    return base64.b64encode(np.ascontiguousarray(table, dtype="<f8").tobytes()).decode()


def main():
    count, seed, target = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    makers = [maker for maker, there in ((xgb_case, xgb), (lgb_case, lgb)) if there]
    cases = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        folder = tempfile.mkdtemp() if target.endswith(".json") else os.path.join(target, f"{seed}-{i}")
        os.makedirs(folder, exist_ok=True)
        try:
            case, probe, expected = makers[i % len(makers)](rng, folder)
        except Exception as error:  # Combinations that the library itself refuses.
            print(i, type(error).__name__, str(error).splitlines()[0][:150], file=sys.stderr)
            continue
        case.update(inputShape=probe.shape, input=numbers(probe), outputShape=expected.shape, expected=numbers(expected))
        if target.endswith(".json"):
            with open(os.path.join(folder, case["file"]), "rb") as file:
                case["model"] = base64.b64encode(file.read()).decode()
            cases.append(case)
        else:
            with open(os.path.join(folder, "case.json"), "w") as file:
                json.dump(case, file)
    if target.endswith(".json"):
        with open(target, "w") as file:
            json.dump(cases, file)


main()
