/**
 * Runs in a separate process with a small heap: sends one decompression bomb after the other through the real
 * handlers and prints each answer and the growth of the process's peak memory (see bombs.hostile.test.ts). The peak never
 * falls, so a bomb's first bytes may be hidden by its body or by an earlier bomb: at most about 100 MiB, while the
 * smallest bomb promises 250.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { decodeMessage } from '../../../lib/codecs/message.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import { peakMemory } from '../../../lib/inference/peak-memory.ts';
import { b64, flatPng, headerJpeg, withImage } from './encoded-images.ts';
import { type Endpoint, predictEndpoint, predictionsEndpoint } from './endpoints.ts';
import { GOOD, type ModelName, modelBytes } from './models.ts';
import { endlessColumn, sharedBody } from './tables/arrow.ts';
import { sharedFile } from './tables/safetensors.ts';

export interface Bomb {
  readonly name: string;
  readonly sentBytes: number;
  readonly status: number;
  readonly error: string;
  readonly grownMiB: number;
}

/** A folder for the models. The parent process removes it. */
const folder = process.argv[2] ?? '';

async function endpointOf(model: ModelName): Promise<Endpoint> {
  const file = join(folder, `${model}.onnx`);
  await writeFile(file, modelBytes(model));
  return predictEndpoint(
    await openOnnx(file, 'test', { threads: 1, batchSize: 32, inputAlreadyBatched: false, image: {} }),
  );
}

/** The queue's codec, as an endpoint. */
const queue: Endpoint = async (body) => {
  const { inputs } = decodeMessage(String(body));
  const error = inputs instanceof ServingError ? inputs : undefined;
  return { status: error?.status ?? 200, headers: {}, body: {}, error: error?.message ?? '' };
};

const of = (instance: string) => `{"instances":[${instance}]}`;
const record = (serde: string, bytes: Uint8Array) => JSON.stringify({ uri: 'u', serde, data: b64(bytes) });
const maxMiB = () => peakMemory() / 1024 ** 2;

async function explode(
  name: string,
  endpoint: Endpoint,
  make: () => string | Uint8Array,
  gzip = false,
): Promise<void> {
  const body = make();
  const before = maxMiB();
  const answer = await endpoint(body, gzip ? { headers: { 'content-encoding': 'gzip' } } : {});
  const bomb: Bomb = {
    name,
    sentBytes: body.length,
    status: answer.status,
    error: String(answer.error),
    grownMiB: maxMiB() - before,
  };
  console.log(JSON.stringify(bomb));
}

async function main(): Promise<void> {
  const [image, pair, grid] = [await endpointOf('image'), await endpointOf('pair'), await endpointOf('grid')];
  const largest = withImage(flatPng(4096, 4096, 1));
  // Loading and warming the handlers is not part of a bomb's cost.
  for (const [endpoint, model] of [
    [image, 'image'],
    [pair, 'pair'],
    [grid, 'grid'],
  ] as const)
    await endpoint(of(GOOD[model]));
  await explode('a PNG of 800 MB', image, () => of(withImage(flatPng(14_000, 19_000))));
  await explode('a JPEG header of 65500x65500', image, () => of(withImage(headerJpeg(65_500, 65_500))));
  await explode('300 PNGs of 4096x4096', image, () => of(Array<string>(300).fill(largest).join()));
  await explode('sparse 10^18', grid, () => of('{"x":{"shape":[1e9,1e9],"data":[1],"indices":[[0,0]]}}'));
  const wide = '{"x":{"shape":[8192,8192],"data":[1],"indices":[[0,0]]}}';
  await explode('1,000 sparse tensors of 256 MB', grid, () => of(Array<string>(1000).fill(wide).join()));
  await explode('sparse of another shape', pair, () => of(wide));
  // The body itself is 6 MiB, as text, as base64 and unzipped up to the limit.
  await explode('6 GB of gzip', pair, () => gzipBomb(6 * 1024 * 1024), true);
  await explode('an Arrow column of 2^40 rows', queue, () => record('arrow', endlessColumn()));
  await explode('256 Arrow columns over one body', queue, () => record('arrow', sharedBody(256, 4)));
  await explode('256 safetensors over one body', queue, () => record('safetensors', sharedFile(256, 4)));
  await explode('objects a million deep', pair, () => `${'{"a":'.repeat(1e6)}1${'}'.repeat(1e6)}`);
  const deep = (levels: number) => of(`{"x":${'['.repeat(levels)}${']'.repeat(levels)}}`);
  await explode('arrays three million deep', pair, () => deep(3e6));
  const { endpoint } = predictionsEndpoint();
  await explode('arrays three million deep, to be queued', endpoint, () => deep(3e6));
  await explode('arrays eight million deep, in the queue', queue, () =>
    JSON.stringify({ uri: 'u', serde: 'stream', data: deep(8e6) }),
  );
  await explode('the next one', pair, () => of(GOOD.pair));
}

/** Shows that growth is seen: for a model that takes images of any size these pixels become 192 MiB. */
async function control(): Promise<void> {
  const anyImage = await endpointOf('anyImage');
  await anyImage(of(GOOD.anyImage));
  await explode('an image that is decoded', anyImage, () => of(withImage(flatPng(4096, 4096, 1))));
}

/** About `bytes` of gzip whose every thousandth is one byte. */
function gzipBomb(bytes: number): Buffer {
  const part = gzipSync(Buffer.alloc(16 * 1024 * 1024));
  return Buffer.concat(Array<Buffer>(Math.floor(bytes / part.length)).fill(part));
}

if (process.argv[1] === import.meta.filename) await (process.argv[3] === 'control' ? control() : main());
