/** Lines of Python that call the exporters. Each has `source` and `out`, and `reference(inputs, outputs)` for what the model answers. */

const HEAD = `import os, sys
source, out = sys.argv[1:]
def reference(inputs, outputs):
    import numpy
    folder = os.path.join(out, "reference")
    os.makedirs(folder, exist_ok=True)
    for side, arrays in (("in", inputs), ("out", outputs)):
        for i, array in enumerate(arrays):
            numpy.save(os.path.join(folder, f"{side}{i}.npy"), numpy.asarray(array))
`;

export const CATBOOST = `${HEAD}
import catboost
model = catboost.CatBoost().load_model(source)
if model.get_cat_feature_indices() or model.get_text_feature_indices():
    sys.exit("CatBoost exports no model with categorical or text features to ONNX")
model.save_model(os.path.join(out, "model.onnx"), format="onnx")
import numpy
x = numpy.random.RandomState(7).normal(0, 1, (8, len(model.feature_names_))).astype("float32")
if not len(model.classes_):
    reference([x], [model.predict(x).astype("float32").reshape(len(x), -1)])
elif model.classes_.dtype.kind == "i":
    reference([x], [model.predict(x, "Class").astype("int64").reshape(-1), model.predict(x, "Probability").astype("float32")])
`;

/** A SavedModel, which is read here. */
export const KERAS = `${HEAD}
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import keras, numpy
model = keras.models.load_model(source, compile=False)
model.export(out)
random = numpy.random.RandomState(7)
if len(model.inputs) == 1 and "float" in str(model.inputs[0].dtype) and None not in model.inputs[0].shape[1:]:
    x = random.uniform(-1, 1, (2, *model.inputs[0].shape[1:])).astype("float32")
    answers = model(x, training=False)
    if not isinstance(answers, (list, tuple, dict)):
        reference([x], [keras.ops.convert_to_numpy(answers)])
`;

export const SCIKIT_LEARN = `${HEAD}
import warnings, numpy
from sklearn.exceptions import InconsistentVersionWarning
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
warnings.simplefilter("error", InconsistentVersionWarning)
if source.endswith(".skops"):
    import skops.io
    types = skops.io.get_untrusted_types(file=source)
    unknown = [name for name in types if not name.startswith("sklearn.")]
    if unknown:
        sys.exit("the file needs types that skops does not trust: " + ", ".join(unknown))
    model = skops.io.load(source, trusted=types)
else:
    import joblib
    model = joblib.load(source)
if not hasattr(model, "n_features_in_"):
    sys.exit(f"the file holds {type(model).__name__}, which is no fitted model of scikit-learn")
is_classifier = hasattr(model, "predict_proba") or getattr(model, "_estimator_type", "") == "classifier"
options = {id(model): {"zipmap": False}} if is_classifier else None
made = to_onnx(model, initial_types=[("X", FloatTensorType([None, model.n_features_in_]))], options=options)
with open(os.path.join(out, "model.onnx"), "wb") as file:
    file.write(made.SerializeToString())
x = numpy.random.RandomState(7).normal(0, 1, (8, model.n_features_in_)).astype("float32")
answers = [model.predict(x)] + ([model.predict_proba(x)] if hasattr(model, "predict_proba") else [])
if len(made.graph.output) == len(answers) and all(answer.dtype.kind in "fi" for answer in answers):
    answers = [answer.astype("float32") if answer.dtype.kind == "f" else answer.astype("int64") for answer in answers]
    reference([x], [answer.reshape(len(x), -1) if i == 0 and answer.dtype.kind == "f" else answer for i, answer in enumerate(answers)])
`;

export const PADDLE = `${HEAD}
import numpy, paddle, paddle2onnx
stem = source.rsplit(".", 1)[0]
graph = stem + (".json" if os.path.exists(stem + ".json") else ".pdmodel")
paddle2onnx.export(graph, source, os.path.join(out, "model.onnx"))
model = paddle.jit.load(stem)
model.eval()
specs = model._input_spec() if hasattr(model, "_input_spec") else []
if len(specs) == 1 and "FP32" in str(specs[0].dtype).upper().replace("FLOAT32", "FP32") and -1 not in specs[0].shape[1:]:
    x = numpy.random.RandomState(7).uniform(-1, 1, (2, *specs[0].shape[1:])).astype("float32")
    answer = model(paddle.to_tensor(x))
    if isinstance(answer, paddle.Tensor):
        reference([x], [answer.numpy()])
`;

export const TORCH = `${HEAD}
import torch
program = torch.export.load(source)
torch.onnx.export(program, f=os.path.join(out, "model.onnx"), dynamo=True)
args, kwargs = program.example_inputs or ((), {})
inputs = list(args) + list(kwargs.values())
answers = program.module()(*args, **kwargs)
if inputs and all(isinstance(value, torch.Tensor) for value in inputs) and isinstance(answers, torch.Tensor):
    reference([value.numpy() for value in inputs], [answers.detach().numpy()])
`;
