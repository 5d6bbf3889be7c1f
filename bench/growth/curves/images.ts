/**
 * Image size. In: a JPEG or a PNG. Out: what decoding it, making a tensor of it and a run of a model that only adds it
 * up take. Trap: an image of 16 million pixels is too large for a message or a body of HTTP as PNG; so it is handed to
 * the runner, where both ways end.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import type { Inputs } from '../../../lib/contract/values.ts';
import { bgrPlanes, makeImage } from '../../images.ts';
import { assertSame } from '../../raw.ts';
import { CPU, type Curve, type OpenWork, PEAK, RETAINED, TIME } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { imageModel, modelGiven, modelOf } from '../models.ts';

const KINDS = ['JPEG', 'PNG'] as const;
const SEED = 63;
/** The JPEG decoder's memory, which does not shrink, begins with 50 MiB and is let go of beyond 128 (image-libjpeg.ts). */
const KEPT_BYTES = 78 * 1024 * 1024;
const WARM_PIXELS = 100 ** 2;
const SIDES = [100, 300, 1_000, 2_000];
/** A PNG of 4000 x 4000 pixels of ours has 33.7 MB: more than one image may have. */
const LARGEST = { JPEG: 4_000, PNG: 3_800 } as const;

export const curve: Curve = {
  name: 'images',
  about: 'decoding an image by its pixels',
  xLabel: 'pixels of the image',
  series: KINDS.map((name) => ({
    name,
    xs: [...SIDES, LARGEST[name]].map((side) => side ** 2),
    quickXs: SIDES.slice(0, 3).map((side) => side ** 2),
  })),
  metrics: [TIME, CPU, PEAK, { ...RETAINED, floor: KEPT_BYTES }],
  async prepare(growth, points) {
    const model = await imageModel(growth.folder);
    for (const pixels of new Set([WARM_PIXELS, ...points.map(({ x }) => x)])) await drawImage(growth, pixels);
    return async (kind, x) => ({
      ...modelGiven(model),
      image: imagePath(growth, kind, x),
      warm: imagePath(growth, kind, WARM_PIXELS),
    });
  },
};

function imagePath(growth: Growth, kind: string, pixels: number): string {
  return join(growth.folder, `image-${pixels}.${kind.toLowerCase()}`);
}

async function drawImage(growth: Growth, pixels: number): Promise<void> {
  const side = Math.sqrt(pixels);
  const image = await makeImage(SEED, side, side);
  const kinds = [
    ['JPEG', image.jpeg, image.jpegPixels],
    ['PNG', image.png, image.pngPixels],
  ] as const;
  for (const [kind, bytes, decoded] of kinds) {
    const path = imagePath(growth, kind, pixels);
    await writeFile(path, bytes);
    await writeFile(`${path}.means`, JSON.stringify(meansOf(bgrPlanes(decoded))));
  }
}

/** Of the three planes. */
function meansOf(planes: Float32Array): number[] {
  const length = planes.length / 3;
  return [0, 1, 2].map((plane) => {
    let sum = 0;
    for (let i = plane * length; i < (plane + 1) * length; i++) sum += planes[i] as number;
    return sum / length;
  });
}

export const open: OpenWork = async ({ given }) => {
  const { image: path = '', warm = '' } = given;
  const model = modelOf(given);
  const settings = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
  const runner = await openOnnx(model.path, 'growth', settings);
  const read = async (file: string): Promise<Inputs> =>
    new Map([[model.input, { kind: 'image', bytes: await readFile(file) }]]);
  const run = async (inputs: Inputs) => {
    const [outcome] = await runner.run([inputs]);
    if (!outcome?.ok) throw outcome?.error ?? new Error('no outcome');
    return outcome.outputs[0]?.data as Float32Array;
  };
  let inputs: Inputs | undefined;
  let means: Float32Array | undefined;
  return {
    warmUp: async () => run(await read(warm)),
    prepare: async () => {
      inputs = await read(path);
    },
    call: async () => {
      means = await run(inputs as Inputs);
    },
    verify: async () => {
      const expected = JSON.parse(await readFile(`${path}.means`, 'utf8')) as number[];
      // Sums of 16 million float32 in another order; a wrong plane is off by tens.
      const isNear = expected.every((mean, i) => Math.abs(mean - (means?.[i] ?? Number.NaN)) < 0.5);
      if (!isNear) assertSame(means ?? [], expected, 'the means');
    },
    release: () => {
      inputs = undefined;
    },
    close: () => runner.close(),
  };
};
