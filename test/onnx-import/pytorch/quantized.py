"""
Makes quantized.json.gz: modules that were quantized by PyTorch's static quantization, with what torch answers. In an environment with
torch 2.15 on x86: python3 test/onnx-import/pytorch/quantized.py. Needed by no test.
"""
import gzip
import io
import json
import os
import warnings
import zipfile

import torch
import torch.ao.quantization as q
from torch import nn

warnings.filterwarnings('ignore')
torch.manual_seed(5)
torch.set_num_threads(1)
torch.backends.quantized.engine = 'fbgemm'


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()

    def forward(self, x):
        return self.dequant(self.body(self.quant(x)))


class Picture(Base):
    """A convolution with ReLU, one in groups with a stride, pooling, and a layer."""

    fused = [['conv', 'relu']]

    def __init__(self):
        super().__init__()
        self.conv, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()
        self.groups = nn.Conv2d(8, 8, 3, stride=2, groups=4, bias=False)
        self.pool, self.mean, self.last = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def body(self, x):
        x = self.groups(self.pool(self.relu(self.conv(x))))
        return self.last(self.mean(x).flatten(1))


class Rows(Base):
    """Layers with ReLU between, sums and products, and a concatenation."""

    fused = [['a', 'relu']]

    def __init__(self):
        super().__init__()
        self.a, self.relu, self.b = nn.Linear(6, 8), nn.ReLU(), nn.Linear(6, 8)
        self.f = q.FloatFunctional() if hasattr(q, 'FloatFunctional') else torch.ao.nn.quantized.FloatFunctional()
        self.g, self.h, self.k = (torch.ao.nn.quantized.FloatFunctional() for _ in range(3))
        self.last = nn.Linear(24, 3)

    def body(self, x):
        a, b = self.relu(self.a(x)), self.b(x)
        return self.last(self.k.cat([self.f.add(a, b), self.g.mul(a, b), self.h.add_relu(a, b)], 1))


class Sound(Base):
    fused = [['conv', 'relu']]

    def __init__(self):
        super().__init__()
        self.conv, self.relu, self.second = nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 3, 2, dilation=2)

    def body(self, x):
        return self.second(self.relu(self.conv(x))).permute(0, 2, 1).reshape(x.shape[0], -1)


class Ends(Base):
    """Forgets to dequantize."""

    fused = []

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(self.quant(x))


def quantized(module, shape, engine='fbgemm'):
    module = module.eval()
    module.qconfig = q.get_default_qconfig(engine)
    module = q.fuse_modules(module, module.fused) if module.fused else module
    prepared = q.prepare(module)
    for _ in range(8):
        prepared(torch.randn(8, *shape[1:]))
    return q.convert(prepared)


def graph_mode(module, shape):
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    prepared = prepare_fx(module.eval(), q.get_default_qconfig_mapping('fbgemm'), (torch.randn(*shape),))
    for _ in range(8):
        prepared(torch.randn(8, *shape[1:]))
    return convert_fx(prepared)


def cases():
    picture, rows, sound = (4, 3, 9, 9), (6, 6), (3, 2, 10)
    yield 'convolutions and a layer', torch.jit.script(quantized(Picture(), picture)), picture
    yield 'the same traced', torch.jit.trace(quantized(Picture(), picture), torch.randn(*picture)), picture
    yield 'layers, sums and products', torch.jit.script(quantized(Rows(), rows)), rows
    yield 'one scale for all outputs', torch.jit.script(quantized(Rows(), rows, 'qnnpack')), rows
    yield 'convolutions of one axis', torch.jit.script(quantized(Sound(), sound)), sound
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 4))
    yield 'of graph mode', torch.jit.trace(graph_mode(plain, picture), torch.randn(*picture)), picture
    yield 'refused: no dequantize', torch.jit.script(quantized(Ends(), (2, 3))), (2, 3)
    dynamic = q.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)), {nn.Linear}, dtype=torch.qint8)
    yield 'refused: dynamic', torch.jit.script(dynamic), (2, 4)


def plain(archive):
    """Without what debuggers read, and unpacked, because the whole is packed afterwards."""
    made = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, 'w') as new:
        for entry in old.infolist():
            if not entry.filename.endswith('.debug_pkl'):
                new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry))
    return made.getvalue().decode('latin1')


def flat(tensor):
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    return {'shape': list(tensor.shape), 'data': [float(f'{value:.9g}') for value in tensor.flatten().tolist()]}


def main():
    made = []
    for name, module, shape in cases():
        file = io.BytesIO()
        torch.jit.save(module, file)
        x = torch.randn(*shape)
        [key] = [each.debugName() for each in list(module.graph.inputs())[1:]]
        with torch.no_grad():
            answer = module(x)
        made.append({'name': name, 'model': plain(file), 'inputs': {key.split('.')[0]: flat(x)}, 'outputs': [flat(answer)]})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'quantized.json.gz'), 'wb') as file:
        file.write(gzip.compress(json.dumps(made, ensure_ascii=False).encode(), 9, mtime=0))


main()
