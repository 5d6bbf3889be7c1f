"""
Makes scripted.json.gz: modules that torch.jit.script wrote, with what torch answers. In an environment with torch 2.15:
python3 test/onnx-import/pytorch/scripted.py. Needed by no test.
"""
import gzip
import io
import json
import os
import zipfile

import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.layer(x)
            if y.shape[1] > 2:
                y = y + 1
        return y * 2


def encoder(**options):
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, **options)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def cases():
    x = torch.randn(2, 5, 8)
    yield 'TransformerEncoder, batch first', encoder(batch_first=True), {'src': x}
    yield 'TransformerEncoder, sequence first', encoder(), {'src': x}
    yield 'TransformerEncoder, norm first, gelu', encoder(batch_first=True, norm_first=True, activation='gelu'), {'src': x}
    yield 'with torch.no_grad()', NoGrad(), {'x': torch.randn(2, 4)}


def plain(archive):
    """Without what debuggers read, and unpacked, because the whole is packed afterwards."""
    made = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, 'w') as new:
        for entry in old.infolist():
            if not entry.filename.endswith('.debug_pkl'):
                new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry))
    return made.getvalue().decode('latin1')


def main():
    made = []
    for name, module, inputs in cases():
        scripted = torch.jit.script(module.eval())
        file = io.BytesIO()
        torch.jit.save(scripted, file)
        with torch.no_grad():
            answer = scripted(*inputs.values())
        flat = lambda tensor: {'shape': list(tensor.shape), 'data': [float(f'{value:.9g}') for value in tensor.flatten().tolist()]}
        made.append({'name': name, 'model': plain(file), 'inputs': {key: flat(value) for key, value in inputs.items()}, 'outputs': [flat(answer)]})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'scripted.json.gz'), 'wb') as file:
        file.write(gzip.compress(json.dumps(made, ensure_ascii=False).encode(), 9, mtime=0))


main()
