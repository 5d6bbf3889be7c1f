/** `wkr_serving.server` as users of the former service write workers for it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { afterEach, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { takeSamples, WKRHardWorker } from '../../../lib/workers/hard-worker.ts';
import { PYTHON, WITH_PYTHON } from '../../support/python.ts';
import { ENVIRONMENT, endWorkers, WorkerChild } from './child.ts';

afterEach(endWorkers);

const LISTING = new URL('../../../../shared/fixtures/wkr/server.py', import.meta.url);
const WITH_LISTING = existsSync(LISTING) ? WITH_PYTHON : { skip: 'needs ../shared/fixtures/wkr/server.py' };

async function print(program: string): Promise<unknown> {
  const { stdout } = await promisify(execFile)(PYTHON, ['-c', program], { env: ENVIRONMENT });
  return JSON.parse(stdout);
}

test(
  'the worker of the guide is served unchanged, with its statistics and its log',
  WITH_LISTING,
  async () => {
    const listing = await readFile(LISTING, 'utf8');
    const child = await WorkerChild.open('python', {
      // The names that the guide leaves open.
      'server.py': `${listing}\nimport numpy as np\nmodel = "m"\nresult = [np.full((5, 5), 1 / 3)]\n`,
      'tensorflow.py': '',
    });
    assert.equal(child.answer.type, 'ready', JSON.stringify(child.answer));
    const item = { dtype: 'float64', shape: [5, 5], data: new Float64Array(25) } as const;
    const answer = await child.run([item]);
    assert.ok(answer.type === 'result' && 'outcomes' in answer, JSON.stringify(answer));
    const value = { ...item, data: new Float64Array(25).fill(1 / 3) };
    assert.deepEqual(answer.outcomes, [{ value }]);
    assert.deepEqual(Object.keys(answer.statistics), ['preprocess', 'predict', 'batchsize']);
    assert.equal(await child.retire(), 0);
    assert.match(child.stdout, /INFO WKRServer worker 3: Begin load model\n/);
  },
);

describe('wkr_serving.server.helper', WITH_PYTHON, () => {
  test('get_args_parser takes the flags of the guide and has its defaults', async () => {
    const flags =
      '-model_name model.hdf5 -port_in 8996 -port_out 8998 -num_worker 2 -device_map -1 -protocol npy';
    const found = await print(`
import json
from wkr_serving.server.helper import get_args_parser
print(json.dumps(vars(get_args_parser().parse_args(${JSON.stringify(flags.split(' '))}))))`);
    const isFalse = ['cpu', 'http_new', 'http_stat_dashboard', 'verbose', 'no_token', 'watch'];
    const isNone = ['port', 'port_data', 'port_result', 'http_port', 'log_dir', 'cors', 'token_file'];
    assert.deepEqual(found, {
      ...Object.fromEntries(isFalse.map((flag) => [flag, false])),
      ...Object.fromEntries([...isNone, 'allow_img_host'].map((flag) => [flag, null])),
      model_name: 'model.hdf5',
      port_in: 8996,
      port_out: 8998,
      num_worker: 2,
      device_map: [-1],
      protocol: 'npy',
      model_dir: '.',
      batch_size: 10,
      batch_group_timeout: 5,
      gpu_memory_fraction: 0.2,
      host: '127.0.0.1',
      tmp_folder: 'tmp_wkr',
      log_name: 'WKRServer',
      python: 'python3',
      predict_timeout: 30_000,
      start_timeout: 120_000,
      stop_timeout: 30_000,
      max_batches: 0,
      memory_mb: 0,
      num_worker_expanded: 0,
      device_to_expand: [0],
      busy_util_threshold: 0.95,
      duration_expand: 300_000,
      duration_squeeze: 600_000,
      http_max_connect: 100,
      http_concurent_retry_num: 100,
      http_concurent_retry_gap: 0.05,
    });
    const usual = await print(`
import json
from wkr_serving.server.helper import get_args_parser
parsed = get_args_parser().parse_args([])
print(json.dumps([parsed.model_name, parsed.num_worker, parsed.device_map, parsed.protocol]))`);
    assert.deepEqual(usual, [null, 1, [-1], 'obj']);
  });

  test('a worker that no service made has the properties of one on the CPU, in both languages', async () => {
    const names = 'workerId deviceId transferProto tmpFolder modelDir modelName batchSize gpuMemoryFraction';
    const properties = [...names.split(' '), 'verbose', 'logName', 'retryAlone'];
    const expected = [0, -1, 'obj', '', '', '', 1, 0.2, false, 'WKRServer', true];
    const inPython = properties.map((name) =>
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    );
    const found = await print(`
import json
from wkr_serving.server import WKRHardWorker
print(json.dumps([getattr(WKRHardWorker(), name) for name in ${JSON.stringify([...inPython, 'image_as'])}]))`);
    assert.deepEqual(found, [...expected, 'pil']);
    const worker = new (class extends WKRHardWorker {
      getModel() {}
      predict() {}
    })();
    const values = new Map<string, unknown>(Object.entries(worker));
    assert.deepEqual(
      [...properties, 'imageAs'].map((name) => values.get(name)),
      [...expected, 'rgb'],
    );
  });

  test('import_tf shows the CPU alone for -1 and the GPU of the device otherwise', async () => {
    const found = await print(`
import json, os, sys, types
from wkr_serving.server import helper
tf = sys.modules["tensorflow"] = types.ModuleType("tensorflow")
seen = []
for device in (-1, 2):
    assert helper.import_tf(device_id=device) is tf
    seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
print(json.dumps(seen))`);
    assert.deepEqual(found, ['-1', '2']);
  });

  test('import_torch and import_mxnet set the share of the memory of the GPU', async () => {
    const found = await print(`
import json, os, sys, types
from wkr_serving.server import helper
calls = []
torch, mxnet = types.ModuleType("torch"), types.ModuleType("mxnet")
torch.cuda = types.SimpleNamespace(
    is_available=lambda: True, set_per_process_memory_fraction=lambda *args: calls.append(args))
sys.modules.update(torch=torch, mxnet=mxnet)
helper.set_gpu_memory_fraction(0.25)
helper.import_torch(device_id=-1)
helper.import_torch(device_id=1)
helper.import_mxnet(device_id=1)
print(json.dumps([calls, os.environ["MXNET_GPU_MEM_POOL_RESERVE"]]))`);
    assert.deepEqual(found, [[[0.25, 0]], '75']);
  });

  test('the last 4,096 statistics are kept when none are taken', async () => {
    const found = await print(`
import json
from wkr_serving.server import WKRHardWorker
worker = WKRHardWorker()
for i in range(5000):
    worker.record_statistic({"i": i})
samples = list(worker._take_statistics())
print(json.dumps([len(samples), samples[0], samples[-1], list(worker._take_statistics())]))`);
    assert.deepEqual(found, [4096, ['i', 904], ['i', 4999], []]);
    const worker = new (class extends WKRHardWorker {
      getModel() {}
      predict() {}
    })();
    for (let i = 0; i < 5000; i++) worker.recordStatistic({ i });
    const samples = takeSamples(worker);
    assert.deepEqual([samples.length, samples[0], samples.at(-1)], [4096, ['i', 904], ['i', 4999]]);
  });

  test('a service that was started is not started again, and a class of no file is refused', async () => {
    const found = await print(`
import json, sys, types
from wkr_serving._protocol.launch import Launched

class Sleeping(Launched):
    _command_name = sys.executable

class Worker:
    pass

errors = []
def error_of(call):
    try:
        call()
    except RuntimeError as error:
        errors.append(str(error))
error_of(lambda: Sleeping(Worker, []))
sys.modules["workers"] = types.ModuleType("workers")
sys.modules["workers"].__file__ = __import__("os").path.abspath("workers.py")
Worker.__module__ = "workers"
service = Sleeping(Worker, [])
service._command = [sys.executable, "-c", "import time; time.sleep(600)"]
with service:
    error_of(service.start)
print(json.dumps(errors))`);
    assert.deepEqual(found, [
      'Worker is in no file, so that no other process can import it: put it into a module',
      'start() was called before, and what it started still runs',
    ]);
  });

  test('values of numpy become values of the protocol, in any layout', async () => {
    const found = await print(`
import json, numpy as np
from wkr_serving._protocol.values import ValueReader, ValueWriter
a = np.arange(12.0).reshape(3, 4)
frozen = a.copy(); frozen.flags.writeable = False
arrays = [a.T, a[::2, ::-1], a.astype(">f8"), np.asfortranarray(a), frozen, a.astype(">i2"), np.array(5.5),
          np.zeros((0, 3)), np.array("text"), np.array([True, False])]
ok = []
for array in arrays:
    writer = ValueWriter(); wire = writer.write(array, "x")
    back = ValueReader([bytearray(block) for block in writer.blocks]).read(wire)
    ok.append(back.shape == array.shape and back.dtype.kind == array.dtype.kind and bool((back == array).all()))
scalars = [ValueWriter().write(v, "x") for v in (np.float32(0.5), np.int64(7), np.bool_(True), np.str_("s"))]
refused = []
for bad in (np.array([object()]), np.array([1j]), np.datetime64("2024-01-01"), np.ma.array([1]), {1: 2},
            np.zeros(2, "M8[s]"), np.longdouble(1)):
    try:
        ValueWriter().write({"a": [bad]}, "x"); refused.append("sent")
    except TypeError as error:
        refused.append(str(error)[:7])
print(json.dumps([ok, scalars, refused]))`);
    assert.deepEqual(found, [Array(10).fill(true), [0.5, 7, true, 's'], Array(7).fill('x.a[0]:')]);
  });
});
