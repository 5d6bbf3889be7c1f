/**
 * Requests that schemathesis makes of /openapi.json, valid and invalid ones, get what the document declares, with its default
 * checks. SCHEMATHESIS names the program: `python -m venv v && v/bin/pip install schemathesis==4.32.5`, then `v/bin/schemathesis`.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { encodeBase64 } from '../../lib/codecs/encode-base64.ts';
import { encodeTensors } from '../../lib/codecs/safetensors.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { encodeArrowRecord } from '../support/arrow-record.ts';
import { childEnvironment } from '../support/environment.ts';
import { identityModel } from '../support/onnx.ts';
import { writePng } from '../support/png.ts';
import { temporaryFolder } from '../support/runner.ts';
import { startReady } from '../support/start.ts';
import { textModelFolder } from '../support/text-models.ts';

const PROGRAM = process.env['SCHEMATHESIS'] ?? 'schemathesis';
const HOOKS = fileURLToPath(new URL('described-hooks.py', import.meta.url));
const isThere = spawnSync(PROGRAM, ['--version'], { env: childEnvironment() }).status === 0;
const skip = isThere ? false : `there is no program ${PROGRAM}: set SCHEMATHESIS`;

/**
 * What differs from its defaults:
 * - A method without a route is answered by the gateway as API Gateway does, with 404.
 * - A request over a limit is refused with 413.
 * - OpenAPI cannot say that the parameter `identity` needs `uri`, nor that the data of a tensor in /v2 has as many elements as its
 *   shape says, and what that shape is. In /v1/models the document does not say what values the model takes.
 */
const CONFIG = `
request-timeout = 40
hooks = ${JSON.stringify(HOOKS)}
[checks]
unsupported_method.enabled = false
negative_data_rejection.expected-statuses = ["400","401","403","404","409","413","415","422","429","5xx"]
[[operations]]
include-operation-id = "takeResults"
checks.positive_data_acceptance.enabled = false
[[operations]]
include-path-regex = "/infer$|^/v1/models/"
checks.positive_data_acceptance.enabled = false
`;

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

const tensor: Tensor = { dtype: 'float32', shape: [1], data: Float32Array.of(1) };
const picture = encodeBase64(writePng({ width: 8, height: 8, depth: 8, colourType: 0, sample: () => [0] }));
const FORMATS = {
  image: picture,
  arrow: encodeBase64(encodeArrowRecord(new Map([['x', { kind: 'tensor', tensor }]]))),
  safetensors: encodeBase64(encodeTensors(new Map([['x', tensor]]), {})),
  stream: '{"instances": [{"x": 1}]}',
  number: '1.5',
};

interface Job {
  readonly csv: string;
  /** @returns the options of the start */
  readonly make: (folder: string, t: TestContext) => Promise<string[]>;
}

const configured = async (folder: string, config: string) => {
  await writeFile(join(folder, 'config.yaml'), config);
  return ['-c', join(folder, 'config.yaml')];
};

const JOBS: Readonly<Record<string, Job>> = {
  'the sample': { csv: `image\n${picture}`, make: async () => [] },
  'a model of texts': {
    csv: 'text,text_pair\na,b',
    make: async (folder, t) => {
      await cp(textModelFolder(t, 'classifier'), join(folder, 'model'), { recursive: true });
      return configured(folder, 'modelPath: model\n');
    },
  },
  'a table': {
    csv: 'age,fare\n1,2',
    make: async (folder) => {
      await mkdir(join(folder, 'model'));
      await writeFile(join(folder, 'model/MLmodel'), MLMODEL);
      await writeFile(
        join(folder, 'model/model.onnx'),
        identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 2] }]),
      );
      return configured(folder, 'modelPath: model\n');
    },
  },
  'a worker': {
    csv: 'a\n1',
    make: async (folder) => {
      await writeFile(join(folder, 'server.py'), WORKER);
      return configured(folder, 'worker:\n  class: server.Worker\n');
    },
  },
};

for (const [name, { csv, make }] of Object.entries(JOBS)) {
  test(`the service of ${name} does what its document says`, { skip }, async (t) => {
    const folder = await temporaryFolder(t, 'cs-described-');
    await writeFile(join(folder, 'schemathesis.toml'), CONFIG);
    const options = await make(folder, t);
    const { addresses } = await startReady(t, ...options, '--data-dir', join(folder, 'data'));
    const given = JSON.stringify({ formats: FORMATS, csv });
    const phases = ['--phases', 'examples,coverage', '--seed', '1'];
    // A frame, which is all that the table's /encode takes, it cannot make.
    const other = name === 'a table' ? ['--exclude-path-regex', '^/encode$'] : [];
    const args = ['run', `${addresses.http}/openapi.json`, ...phases, ...other, '--no-color'];
    const report = await new Promise<string>((resolve) => {
      const env = childEnvironment({ DESCRIBED: given });
      execFile(PROGRAM, args, { cwd: folder, env, maxBuffer: 2 ** 28 }, (error, stdout) =>
        resolve(error ? stdout : ''),
      );
    });
    assert.equal(report, '');
  });
}
