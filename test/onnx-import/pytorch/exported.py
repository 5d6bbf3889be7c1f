"""
Makes exported.json.gz: programs that torch.export saved, with what torch answers. In an environment with torch 2.15:
python3 test/onnx-import/pytorch/exported.py. Needed by no test.
"""
import gzip
import io
import json
import os
import zipfile

import torch
from torch import nn
from torch.export import Dim

torch.manual_seed(3)
torch.set_num_threads(1)
BATCH = {0: Dim('batch')}


class Net(nn.Module):
    """A convolution under no_grad, a buffer, a constant, a write in place, and outputs with names."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 1.5)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(4, 5)
        self.register_buffer('shift', torch.arange(5.0))
        self.plain = torch.tensor([0.5, -0.5, 1.5, 2.0, -3.0])

    def forward(self, x):
        with torch.no_grad():
            y = torch.relu(self.norm(self.conv(x)))
        y = self.last(self.pool(y).view(x.shape[0], -1)) + self.shift
        y.add_(self.plain)
        y[:, 1] = y[:, 0] * 2
        return {'scores': y, 'halves': torch.cat([y, y], 1).reshape(x.shape[0] * 2, 5)}


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        self.norm = nn.LayerNorm(6)

    def forward(self, ids, mask):
        y = self.layer(self.table(ids), src_key_padding_mask=mask == 0)
        return self.norm(y).mean(1), ids.sum(-1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (h, _) = self.rnn(x)
        return y[:, -1], h.transpose(0, 1)


class Sizes(nn.Module):
    """Sizes that are computed, and an argument that was fixed."""

    def forward(self, x, scale=3):
        a, b = x.split([2, 3], 1)
        rows = torch.arange(x.shape[0]).unsqueeze(1)
        return torch.cat([a * scale, b.flip(1) / 2], 1) + rows, x.unbind(1)[0], torch.where(x > 0, x, 0.0).topk(2, 1)[0]


class Shared(nn.Module):
    """Weights of half precision, views of one storage, and weights that are transposed."""

    def __init__(self):
        super().__init__()
        whole = torch.randn(6, 4)
        self.a = nn.Parameter(whole[:3])
        self.b = nn.Parameter(whole[3:])
        self.t = nn.Parameter(torch.randn(4, 3).t())
        self.small = nn.Parameter(torch.randn(3).half())
        self.short = nn.Parameter(torch.randn(3).bfloat16())

    def forward(self, x):
        return x @ self.a.t() + x @ self.b.t() - x @ self.t.t() + self.small.float() * self.short.float()


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('seen', torch.zeros(1))

    def forward(self, x):
        self.seen += 1
        return x * self.seen


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


def cases():
    picture = torch.randn(2, 3, 4, 4)
    yield 'a network with a dict of outputs', Net(), {'x': picture}, {'x': BATCH}, False
    yield 'the same in core operators', Net(), {'x': picture}, {'x': BATCH}, True
    ids, mask = torch.randint(0, 11, (2, 5)), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    free = {0: Dim('batch'), 1: Dim('length', min=2, max=64)}
    yield 'a transformer with two free sizes', Words(), {'ids': ids, 'mask': mask}, {'ids': free, 'mask': free}, False
    yield 'a transformer in core operators', Words(), {'ids': ids, 'mask': mask}, {'ids': free, 'mask': free}, True
    yield 'a recurrent layer', Recurrent(), {'x': torch.randn(2, 3, 3)}, None, False
    yield 'sizes that are computed', Sizes(), {'x': torch.randn(3, 5)}, {'x': BATCH}, False
    yield 'weights that share a storage', Shared(), {'x': torch.randn(2, 4)}, {'x': BATCH}, False
    yield 'a group normalization in core operators', nn.Sequential(nn.Conv1d(2, 4, 1), nn.GroupNorm(2, 4), nn.GELU()), {'input': torch.randn(2, 2, 3)}, {'input': BATCH}, True
    yield 'refused: state', State(), {'x': torch.randn(2, 3)}, None, True
    yield 'refused: branch', Branch(), {'x': torch.randn(2, 3)}, None, False


def plain(archive):
    """Without the sample inputs and without what debuggers read, and unpacked, because the whole is packed afterwards."""
    made = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, 'w') as new:
        for entry in old.infolist():
            data = old.read(entry)
            if '/sample_inputs/' in entry.filename:
                continue
            if '/models/' in entry.filename:
                data = json.dumps(json.loads(data, object_hook=without_metadata)).encode()
            new.writestr(zipfile.ZipInfo(entry.filename), data)
    return made.getvalue().decode('latin1')


def without_metadata(node):
    return {key: value for key, value in node.items() if key != 'metadata'}


def flat(tensor):
    kind = 'int64' if tensor.dtype == torch.int64 else 'float32'
    return {'dtype': kind, 'shape': list(tensor.shape), 'data': [float(f'{value:.9g}') for value in tensor.flatten().tolist()]}


def main():
    made = []
    for name, module, inputs, shapes, core in cases():
        module = module.eval()
        program = torch.export.export(module, (), kwargs=inputs, dynamic_shapes=shapes)
        if core:
            program = program.run_decompositions()
        file = io.BytesIO()
        torch.export.save(program, file)
        with torch.no_grad():
            answer = module(**inputs)
        answers = answer if isinstance(answer, tuple) else list(answer.values()) if isinstance(answer, dict) else [answer]
        case = {'name': name, 'model': plain(file), 'inputs': {k: flat(v) for k, v in inputs.items()}}
        made.append({**case, 'outputs': [flat(value) for value in answers]})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'exported.json.gz'), 'wb') as file:
        file.write(gzip.compress(json.dumps(made, ensure_ascii=False).encode(), 9, mtime=0))


main()
