/** Jobs of each kind whose /openapi.json is compared with what they do: a model of images, of texts, of a table, and a worker. */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { encodeBase64 } from '../../lib/codecs/encode-base64.ts';
import { identityModel } from './onnx.ts';
import { writePng } from './png.ts';
import { PYTHON } from './python.ts';
import { textModelFolder } from './text-models.ts';

export interface DescribedJob {
  /** A table of records. */
  readonly csv: string;
  /** Its config.yaml, in whose folder is what `fill` makes; undefined for the sample. */
  readonly config?: string;
  readonly fill?: (folder: string, t: TestContext) => Promise<void>;
}

const WORKER = `from wkr_serving.server import WKRHardWorker
class Worker(WKRHardWorker):
    def get_model(self, envs, model_dir, model_name, tmp_dir):
        return None
    def predict(self, model, items):
        return [type(item).__name__ for item in items]
`;
const MLMODEL = `
flavors:
  onnx: {code: null, data: model.onnx, onnx_version: 1.15.0}
  python_function: {data: model.onnx, loader_module: mlflow.onnx}
signature:
  inputs: '[{"type": "double", "name": "age"}, {"type": "double", "name": "fare"}]'
`;

export const PICTURE = encodeBase64(
  writePng({ width: 8, height: 8, depth: 8, colourType: 0, sample: () => [0] }),
);

export const DESCRIBED_JOBS: Readonly<Record<string, DescribedJob>> = {
  'the sample': { csv: `image\n${PICTURE}` },
  'a model of texts': {
    csv: 'text,text_pair\na,b',
    config: 'modelPath: model\n',
    fill: (folder, t) => cp(textModelFolder(t, 'classifier'), join(folder, 'model'), { recursive: true }),
  },
  'a table': {
    csv: 'age,fare\n1,2',
    config: 'modelPath: model\n',
    fill: async (folder) => {
      await mkdir(join(folder, 'model'));
      await writeFile(join(folder, 'model/MLmodel'), MLMODEL);
      const model = identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]);
      await writeFile(join(folder, 'model/model.onnx'), model);
    },
  },
  'a worker': {
    csv: 'a\n1',
    config: `worker:\n  class: server.Worker\n  python: ${PYTHON}\n`,
    fill: (folder) => writeFile(join(folder, 'server.py'), WORKER),
  },
};
