"""Makes Keras models that look up, split texts and augment images, with what TensorFlow answers.

    python generate.py keras 3.json       Keras 3 (tensorflow 2.21, keras 3.15)
    python generate.py tf_keras 2.json    Keras 2 (tensorflow 2.21, tf_keras 2.21)
    python -c "import gzip,json; json.dump(json.load(open('3.json'))+json.load(open('2.json')), gzip.open('models.json.gz','wt',9))"

A case holds the files of a SavedModel (as Latin-1 text, so that gzip sees the bytes) and its answers for odd texts, one
row at a time and all rows together; null stands for NaN. Models that TensorFlow itself answers differently every time
have no answers.
"""

import json
import os
import re
import string
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

if sys.argv[1] == "tf_keras":
    import tf_keras as keras
else:
    import keras
IS_NEW = sys.argv[1] == "keras"
L = keras.layers

WORDS = ["the", "cat", "dont", "sat", "\u00e9", "stra\u00dfe", "Cat", "x"]
TEXTS = [
    "", "   ", 'The CAT, "sat"!', "a\tb\nthe\vcat\fx\rsat the\u00a0cat cat\u2003x", "don't DON'T d.o.n.t",
    "\u0130STANBUL STRASSE Stra\u00dfe \u1e9e \u03a3\u0391\u03a3 \u00c9 \u00e9 \u212a", "  the   the   cat sat x x x x x x",
    "\u65e5\u672c \u8a9e\U0001f600ok the", "Cat", "x<br />the<br/><BR />cat[]{}|~`^\\ \x1cthe\x85cat", "e\u0301", "!!!",
    "the", "[UNK]",
]
NUMBERS = [5, 7, -3, 2**40, 2**62 + 1, 2**62, 0, 1, -1, 8]


def text(after=None, **options):
    layer = L.TextVectorization(**options)
    weights = {"idf_weights": [0.1 * k + 0.3 for k in range(len(WORDS))]} if options.get("output_mode") == "tf_idf" else {}
    layer.set_vocabulary(WORDS, **weights)
    given = keras.Input((1,), dtype="string")
    made = layer(given)
    return keras.Model(given, after(made) if after else made)


def lookup(layer, dtype="string", columns=3):
    given = keras.Input((columns,), dtype=dtype)
    return keras.Model(given, layer(given))


def custom(x):
    x = tf.strings.regex_replace(tf.strings.lower(x), "<br />", " ")
    x = tf.strings.regex_replace(x, "[0-9\\n\u00e9]", "_")
    return tf.strings.regex_replace(x, "[%s]" % re.escape(string.punctuation), "")


def classify(words):
    embedded = L.Embedding(20, 4, embeddings_initializer=keras.initializers.RandomUniform(-1, 1, seed=3))(words)
    return L.Dense(2, kernel_initializer=keras.initializers.RandomUniform(-1, 1, seed=4))(L.GlobalMaxPooling1D()(embedded))


def images(*layers):
    given = keras.Input((8, 8, 3))
    made = given
    for layer in layers:
        made = layer(made)
    return keras.Model(given, L.Conv2D(2, 3, kernel_initializer=keras.initializers.RandomUniform(-1, 1, seed=5))(made))


def augmenting():
    return images(L.RandomFlip(seed=1), L.RandomZoom(0.2, seed=2), L.RandomContrast(0.3, seed=3), L.RandomRotation(0.2, seed=4))


MODELS = {
    "tv_int": lambda: text(classify, output_mode="int", output_sequence_length=5),
    "tv_open": lambda: text(output_mode="int"),
    "tv_lower": lambda: text(output_mode="int", standardize="lower", output_sequence_length=5),
    "tv_none": lambda: text(output_mode="int", standardize=None, output_sequence_length=3),
    "tv_whole": lambda: text(output_mode="int", split=None),
    "tv_multi": lambda: text(output_mode="multi_hot"),
    "tv_count": lambda: text(output_mode="count", pad_to_max_tokens=True, max_tokens=20),
    "tv_tf_idf": lambda: text(output_mode="tf_idf"),
    "tv_custom": lambda: text(output_mode="int", output_sequence_length=6, standardize=custom),
    "sl_mask": lambda: lookup(L.StringLookup(vocabulary=WORDS, mask_token="")),
    "sl_invert": lambda: lookup(L.StringLookup(vocabulary=WORDS, invert=True), "int64"),
    "sl_one_hot": lambda: lookup(L.StringLookup(vocabulary=WORDS, output_mode="one_hot"), columns=1),
    "sl_count": lambda: lookup(L.StringLookup(vocabulary=WORDS, output_mode="count")),
    "il_int": lambda: lookup(L.IntegerLookup(vocabulary=[5, 7, -3, 2**40, 2**62 + 1]), "int64"),
    "il_oov2": lambda: lookup(L.IntegerLookup(vocabulary=[5, 7, -3], num_oov_indices=2), "int64"),
    "il_invert": lambda: lookup(L.IntegerLookup(vocabulary=[5, 7, -3], mask_token=0, invert=True), "int64"),
    "refused_sl_oov3": lambda: lookup(L.StringLookup(vocabulary=WORDS, num_oov_indices=3)),
    "refused_sl_no_oov": lambda: lookup(L.StringLookup(vocabulary=WORDS, num_oov_indices=0)),
    "refused_tv_character": lambda: text(output_mode="int", split="character", output_sequence_length=5),
    # Keras 3 leaves augmentations on in what it exports.
    ("refused_augmenting" if IS_NEW else "augmenting"): augmenting,
}


class Tables(tf.Module):
    """Tables of a file, and one that can change and is saved with the variables."""

    def __init__(self, file):
        line = tf.lookup.TextFileIndex
        lines = tf.lookup.TextFileInitializer(file, tf.string, line.WHOLE_LINE, tf.int64, line.LINE_NUMBER)
        self.whole = tf.lookup.StaticHashTable(lines, -1)
        columns = tf.lookup.TextFileInitializer(file, tf.string, 0, tf.float32, 1, delimiter=" ")
        self.columns = tf.lookup.StaticHashTable(columns, -0.5)
        self.changing = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, -1.5)
        self.changing.insert(WORDS, tf.range(8.0))

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.string)])
    def look(self, x):
        return {
            "whole": self.whole.lookup(x), "columns": self.columns.lookup(x), "changing": self.changing.lookup(x),
            "size": self.whole.size(), "joined": tf.strings.join(["<", x, ">"], "|"), "same": tf.equal(x, "the"),
        }


def export(name, folder):
    if name == "tables":
        file = os.path.join(folder, "words.txt")
        with open(file, "w") as lines:
            lines.write("the 1\ncat 2.5\r\n\u00e9 -3\n")
        module = Tables(file)
        tf.saved_model.save(module, os.path.join(folder, "m"), signatures=module.look)
    elif IS_NEW:
        MODELS[name]().export(os.path.join(folder, "m"), verbose=False)
    else:
        MODELS[name]().save(os.path.join(folder, "m"), save_format="tf")


def files_of(folder):
    path = os.path.join(folder, "saved_model.pb")
    model = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        model.ParseFromString(file.read())
    # What nobody reads here would be most of the file.
    for graph in model.meta_graphs:
        graph.ClearField("object_graph_def")
        graph.meta_info_def.ClearField("stripped_op_list")
        graph.signature_def.pop("serve", None)
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))
    found = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            if name in ("fingerprint.pb", "keras_metadata.pb"):
                continue
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read().decode("latin1")
    return found


def tensor(value):
    flat = value.numpy().ravel().tolist()
    if value.dtype == tf.string:
        flat = [item.decode() for item in flat]
    elif value.dtype == tf.int64:
        flat = [str(item) for item in flat]
    elif value.dtype.is_floating:
        flat = [None if item != item else item for item in flat]
    return {"dtype": value.dtype.name, "shape": value.shape.as_list(), "data": flat}


def inputs_of(specs, start, rows):
    made = {}
    for name, spec in specs.items():
        shape = [rows, *[size or 1 for size in spec.shape.as_list()[1:]]]
        count = int(np.prod(shape))
        source = {tf.string: TEXTS, tf.int64: NUMBERS}.get(spec.dtype)
        if source:
            values = np.array([source[(start + i) % len(source)] for i in range(count)], dtype=object).reshape(shape)
            made[name] = tf.constant(values if spec.dtype == tf.string else values.astype(np.int64), dtype=spec.dtype)
        else:
            made[name] = tf.constant(np.random.RandomState(start).randint(0, 255, shape), dtype=spec.dtype)
    return made


cases = []
for name in ["tables", *MODELS]:
    with tempfile.TemporaryDirectory() as folder:
        export(name, folder)
        path = os.path.join(folder, "m")
        case = {"name": f"{sys.argv[1]} {name}", "runs": []}
        if not name.startswith("refused"):
            serve = tf.saved_model.load(path).signatures["serving_default"]
            specs = serve.structured_input_signature[1]
            # Pictures are many numbers, and differ in nothing that matters here.
            isPicture = any(len(spec.shape) == 4 for spec in specs.values())
            starts = [(0, 1), (1, 3)] if isPicture else [*[(i, 1) for i in range(len(TEXTS))], (0, len(TEXTS))]
            for start, rows in starts:
                given = inputs_of(specs, start, rows)
                answer = serve(**given)
                pairs = [{key: tensor(value) for key, value in side.items()} for side in (given, answer)]
                case["runs"].append({"inputs": pairs[0], "outputs": pairs[1]})
        cases.append({**case, "files": files_of(path)})
        print(case["name"], flush=True)
with open(sys.argv[2], "w") as file:
    json.dump(cases, file)
