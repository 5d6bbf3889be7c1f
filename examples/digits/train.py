"""Train the sample digit classifier and export it to ONNX.

    python train.py

A small convolutional network, written in plain numpy, learns the 8x8 handwritten
digits that ship with scikit-learn. The script writes everything next to itself:

    model/model.onnx   the network, preprocessing and softmax included
    images/digit-*.png one test image per class
    labels.json        file name -> true class
    rows.csv           100 test images as rows: digit, and the grey values p0 to p63
    expected.json      file name -> probabilities that onnxruntime gives
    metrics.json       accuracy on the test set, measured through onnxruntime
"""

import os

# One BLAS thread: the sums are then added in a fixed order, so a run can be repeated.
# This must be set before numpy is imported.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).resolve().parent
SEED = 0
EPOCHS = 100
BATCH = 32
LEARNING_RATE = 3e-3
CLASSES = [str(digit) for digit in range(10)]


# --- data ---------------------------------------------------------------------------


def load_data():
    """The 1797 images as 8-bit grey values, split 75/25 with the same class mix."""
    digits = load_digits()
    # The data set has 17 grey levels, 0..16. A PNG has 256, so they are stretched to
    # 0..255 here, once: training, testing and the PNG files all see the same values.
    grey = np.round(digits.images * 255 / 16).astype(np.uint8)
    return train_test_split(
        grey, digits.target, test_size=0.25, random_state=SEED, stratify=digits.target
    )


def to_input(grey):
    """Grey [N,8,8] -> network input [N,3,8,8]. In a grey image B, G and R are equal."""
    return np.repeat(grey[:, None], 3, axis=1).astype(np.float32)


def preprocess(image):
    """Network input [N,3,8,8], 0..255 -> grey [N,1,8,8], 0..1. Also in the ONNX graph."""
    return image.mean(axis=1, keepdims=True) * np.float32(1 / 255)


def deform(x, rng):
    """Turn, scale, slant and move each image a little, at random; fill with black.

    For every output pixel: find the point it comes from, then mix its four neighbours.
    """
    n = len(x)

    def some(limit):
        return rng.uniform(-limit, limit, (n, 1, 1))

    angle, scale, slant = some(np.deg2rad(15)), 1 + some(0.15), some(0.15)
    row, column = np.mgrid[-3.5:4, -3.5:4]  # pixel positions, seen from the centre
    r = scale * (np.cos(angle) * row + np.sin(angle) * column) + some(1)
    c = scale * (np.cos(angle) * column - np.sin(angle) * row + slant * row) + some(1)

    # A black border of 2 pixels: 12x12. Points further out count as border.
    image = np.pad(x[:, 0], ((0, 0), (2, 2), (2, 2)))
    r, c = np.clip(r + 5.5, 0, 10.999), np.clip(c + 5.5, 0, 10.999)
    which, r0, c0 = np.arange(n)[:, None, None], r.astype(int), c.astype(int)
    down, right = r - r0, c - c0
    upper = (1 - right) * image[which, r0, c0] + right * image[which, r0, c0 + 1]
    lower = (1 - right) * image[which, r0 + 1, c0] + right * image[which, r0 + 1, c0 + 1]
    return ((1 - down) * upper + down * lower)[:, None].astype(np.float32)


# --- network ------------------------------------------------------------------------
# Each layer has forward(x), backward(gradient) and onnx(): the operator it is exported as.


class Layer:
    weights = ()  # arrays that Adam updates in place; backward() fills self.gradients

    def onnx(self):
        return type(self).__name__, {}


class Conv(Layer):
    """3x3 convolution, as one matrix product over all 3x3 patches."""

    def __init__(self, rng, inputs, outputs, pad):
        scale = np.sqrt(2 / (inputs * 9))
        self.w = rng.normal(0, scale, (outputs, inputs, 3, 3)).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)
        self.weights, self.pad = (self.w, self.b), pad

    def forward(self, x):
        p = self.pad
        x = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        n, _, rows, columns = windows.shape[:4]
        self.padded_shape = x.shape
        self.patches = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, -1)
        y = self.patches @ self.w.reshape(len(self.w), -1).T + self.b
        return y.reshape(n, rows, columns, -1).transpose(0, 3, 1, 2)

    def backward(self, dy):
        n, outputs, rows, columns = dy.shape
        dy = dy.transpose(0, 2, 3, 1).reshape(-1, outputs)
        self.gradients = ((dy.T @ self.patches).reshape(self.w.shape), dy.sum(axis=0))
        patches = (dy @ self.w.reshape(outputs, -1)).reshape(n, rows, columns, -1, 3, 3)
        dx = np.zeros(self.padded_shape, np.float32)
        for r in range(3):
            for c in range(3):
                part = patches[..., r, c].transpose(0, 3, 1, 2)
                dx[:, :, r : r + rows, c : c + columns] += part
        p = self.pad
        return dx[:, :, p : dx.shape[2] - p, p : dx.shape[3] - p]

    def onnx(self):
        return "Conv", {"kernel_shape": [3, 3], "pads": [self.pad] * 4}


class Relu(Layer):
    def forward(self, x):
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy):
        return dy * self.positive


class MaxPool(Layer):
    """The largest value of each 2x2 block."""

    def forward(self, x):
        n, channels, rows, columns = x.shape
        blocks = x.reshape(n, channels, rows // 2, 2, columns // 2, 2)
        y = blocks.max(axis=(3, 5), keepdims=True)
        self.shape, self.winner = x.shape, blocks == y
        self.winner = self.winner / self.winner.sum(axis=(3, 5), keepdims=True)  # ties share
        return y[:, :, :, 0, :, 0]

    def backward(self, dy):
        dx = self.winner * dy[:, :, :, None, :, None]
        return dx.astype(np.float32).reshape(self.shape)

    def onnx(self):
        return "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}


class Flatten(Layer):
    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy):
        return dy.reshape(self.shape)


class Dense(Layer):
    def __init__(self, rng, inputs, outputs):
        self.w = rng.normal(0, np.sqrt(1 / inputs), (inputs, outputs)).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)
        self.weights = (self.w, self.b)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, dy):
        self.gradients = (self.x.T @ dy, dy.sum(axis=0))
        return dy @ self.w.T

    def onnx(self):
        return "Gemm", {}


def build(rng):
    return [
        Conv(rng, 1, 16, pad=1),  # 8x8
        Relu(),
        Conv(rng, 16, 32, pad=1),  # 8x8
        Relu(),
        MaxPool(),  # 4x4
        Conv(rng, 32, 32, pad=0),  # 2x2
        Relu(),
        Flatten(),  # 128
        Dense(rng, 128, 10),
    ]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return softmax(x)


# --- training -----------------------------------------------------------------------


def train(x, y, epochs=EPOCHS):
    """Minimise cross-entropy with Adam; the learning rate falls to 0 along a cosine."""
    rng = np.random.default_rng(SEED)
    layers = build(rng)
    weights = [w for layer in layers for w in layer.weights]
    means = [np.zeros_like(w) for w in weights]
    squares = [np.zeros_like(w) for w in weights]
    one_hot = np.eye(10, dtype=np.float32)[y]
    steps, step = epochs * -(-len(x) // BATCH), 0

    for epoch in range(1, epochs + 1):
        order, loss = rng.permutation(len(x)), 0.0
        for start in range(0, len(x), BATCH):
            batch = order[start : start + BATCH]
            p = forward(layers, deform(x[batch], rng))
            loss -= float(np.log(p[one_hot[batch] == 1] + 1e-12).sum())

            gradient = (p - one_hot[batch]) / len(batch)  # of softmax and cross-entropy
            for layer in reversed(layers):
                gradient = layer.backward(gradient)

            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            step += 1
            gradients = [g for layer in layers if layer.weights for g in layer.gradients]
            for w, g, m, s in zip(weights, gradients, means, squares):
                m += 0.1 * (g - m)
                s += 0.001 * (g * g - s)
                w -= rate * (m / (1 - 0.9**step)) / (np.sqrt(s / (1 - 0.999**step)) + 1e-8)
        if epoch % 20 == 0:
            print(f"epoch {epoch}/{epochs}  training loss {loss / len(x):.4f}")
    return layers


# --- export -------------------------------------------------------------------------


def export(layers, path):
    """image [N,3,8,8] -> mean of the channels -> 0..1 -> layers -> softmax."""
    constants = [numpy_helper.from_array(np.array(1 / 255, np.float32), "one_255th")]
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["grey"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["grey", "one_255th"], ["scaled"]),
    ]
    last = "scaled"
    for i, layer in enumerate(layers):
        operator, attributes = layer.onnx()
        name = f"{operator.lower()}_{i}"
        inputs = [last]
        for kind, array in zip(("weight", "bias"), layer.weights):
            constants.append(numpy_helper.from_array(array, f"{name}_{kind}"))
            inputs.append(f"{name}_{kind}")
        nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        last = name
    nodes.append(helper.make_node("Softmax", [last], ["probabilities"], axis=1))

    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, 8, 8])
    output = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])
    model = helper.make_model(
        helper.make_graph(nodes, "digits", [image], [output], constants),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
        producer_name="examples/digits/train.py",
    )
    description = "Handwritten digit classifier. Input: 8x8 image, CHW, BGR, values 0..255."
    model.doc_string = description
    helper.set_model_props(
        model,
        {
            "description": description,
            "labels": json.dumps(CLASSES),
            "data": "Optical Recognition of Handwritten Digits, UCI, CC BY 4.0",
        },
    )
    onnx.checker.check_model(model, full_check=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def open_session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(session, image):
    return session.run(["probabilities"], {"image": image})[0]


def check_same(session, layers):
    """onnxruntime and numpy must agree, also on colour images, at batch 1 and batch 7."""
    rng = np.random.default_rng(SEED)
    for n in (1, 7):
        image = rng.integers(0, 256, (n, 3, 8, 8)).astype(np.float32)
        worst = np.abs(run(session, image) - forward(layers, preprocess(image))).max()
        print(f"onnxruntime vs numpy, batch {n}: largest difference {worst:.1e}")
        assert worst < 1e-5


# --- sample files -------------------------------------------------------------------


def write_json(name, value):
    (HERE / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def read_png(path):
    """Treats images as a server treats an upload: decode to RGB, reorder to BGR, HWC to CHW."""
    rgb = np.asarray(Image.open(path).convert("RGB"))
    return rgb[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32)


def write_rows(grey, labels, count=100):
    """Write the first test images as a table, for programs that read tables."""
    with open(HERE / "rows.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["digit", *(f"p{i}" for i in range(64))])
        for label, image in zip(labels[:count], grey):
            table.writerow([label, *image.ravel()])


def write_samples(session, grey, labels):
    """Write the first test image of each class, and what the model says about it."""
    (HERE / "images").mkdir(exist_ok=True)
    truth, expected = {}, {}
    for digit in range(10):
        first = grey[np.flatnonzero(labels == digit)[0]]
        name = f"digit-{digit}.png"
        path = HERE / "images" / name
        Image.fromarray(first).save(path)
        image = read_png(path)
        assert np.array_equal(image, to_input(first[None])), "the PNG changed the pixels"
        truth[name] = digit
        # Seven significant digits; a float32 has no more.
        expected[name] = [float(f"{p:.7g}") for p in run(session, image)[0]]
    write_json("labels.json", truth)
    write_json("expected.json", expected)
    return sum(int(np.argmax(expected[name]) == truth[name]) for name in truth)


def main():
    train_grey, test_grey, train_labels, test_labels = load_data()
    layers = train(preprocess(to_input(train_grey)), train_labels)

    model_path = HERE / "model" / "model.onnx"
    export(layers, model_path)
    session = open_session(model_path)
    check_same(session, layers)

    predicted = run(session, to_input(test_grey)).argmax(axis=1)
    correct, total = int((predicted == test_labels).sum()), len(test_labels)
    samples_correct = write_samples(session, test_grey, test_labels)
    write_rows(test_grey, test_labels)
    sha256 = hashlib.sha256(model_path.read_bytes()).hexdigest()
    wrong = np.flatnonzero(predicted != test_labels)
    write_json(
        "metrics.json",
        {
            "accuracy": round(correct / total, 6),
            "correct": correct,
            "total": total,
            "train_images": len(train_labels),
            "mistakes": [
                {"label": int(test_labels[i]), "predicted": int(predicted[i])} for i in wrong
            ],
            "sample_images_correct": samples_correct,
            "parameters": sum(w.size for layer in layers for w in layer.weights),
            "model_bytes": model_path.stat().st_size,
            "model_sha256": sha256,
        },
    )
    print(f"test accuracy through onnxruntime: {correct}/{total} = {correct / total:.2%}")
    print(f"sample images correct: {samples_correct}/10")
    print(f"model/model.onnx: {model_path.stat().st_size} bytes, sha256 {sha256}")


if __name__ == "__main__":
    main()
