/**
 * Model size. In: a model in S3 (a stand-in whose objects are files). Out: what loading takes: download, check of the
 * digest, session, warm-up; and what `model push` takes: the check, then the upload.
 * Trap: a model of 2 GB wants several times that of disk and memory; where there is too little, the point says so.
 */
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { checkOnnx } from '../../../convert/check/check.ts';
import { readOnnxFacts } from '../../../convert/onnx/facts.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import { downloadModel, readPointer } from '../../../lib/registry/download.ts';
import { findModelFile } from '../../../lib/registry/onnx-file.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { openS3 } from '../../../lib/s3/objects.ts';
import { CPU, type Curve, type OpenWork, PEAK, TIME, type Work } from '../curve.ts';
import type { Growth } from '../growth.ts';
import { type LargeModel, largeModel } from '../models.ts';

const BUCKET = 'growth';
const IN_FILE = 'load, weights in the file';
const BESIDE = 'load, weights beside it';
const PUSH = 'push, weights beside it';
const MB = 1e6;
const XS = [5 * MB, 50 * MB, 500 * MB];
/** Over what one protobuf can hold. */
const LARGEST = 2_200 * MB;
const QUICK_XS = [5 * MB, 20 * MB, 80 * MB];
/** Of the model's size: made, uploaded, downloaded; and what a session and a check take. */
const DISK_TIMES = 4;
const MEMORY_TIMES = 4;

export const curve: Curve = {
  name: 'model',
  about: 'loading and publishing a model by its size',
  xLabel: 'bytes of the model',
  repeats: 2,
  series: [
    { name: IN_FILE, xs: XS, quickXs: QUICK_XS },
    { name: BESIDE, xs: [...XS, 1_000 * MB, LARGEST], quickXs: QUICK_XS },
    { name: PUSH, xs: [...XS, 1_000 * MB, LARGEST], quickXs: QUICK_XS },
  ],
  metrics: [
    TIME,
    { key: 'firstMs', label: 'download / check', unit: 'ms', atMost: 1.1 },
    { key: 'secondMs', label: 'open and warm up / upload', unit: 'ms', atMost: 1.1 },
    CPU,
    PEAK,
    { key: 'peakTimes', label: 'peak, of the model', unit: '' },
    { key: 'checkTimes', label: 'peak of the check’s process, of the model', unit: '' },
  ],
  async prepare(growth, points) {
    const objects = await growth.objects();
    const made = new Map<string, Promise<LargeModel>>();
    const modelOf = (x: number, beside: boolean) => {
      const name = `large-${x}-${beside ? 'beside' : 'in'}`;
      const model = made.get(name) ?? placed(growth, objects.place, name, x, beside);
      made.set(name, model);
      return model;
    };
    const largest = Math.max(...points.map(({ x }) => x));
    const room = await roomFor(growth, largest);
    return async (series, x, repeat) => {
      if (room && x === largest) return room;
      const { folder, bytes } = await modelOf(x, series !== IN_FILE);
      await objects.clear('pushed/');
      return {
        endpoint: objects.endpoint,
        folder,
        bytes: String(bytes),
        prefix: series === PUSH ? `pushed/${x}-${repeat}/` : `${folder.slice(growth.folder.length + 1)}/`,
        downloads: growth.folder,
        warm: `${folder.slice(growth.folder.length + 1)}/`,
      };
    };
  },
  derive: ({ peakBytes = Number.NaN, modelBytes = Number.NaN, checkBytes = Number.NaN }) => ({
    peakTimes: peakBytes / modelBytes,
    checkTimes: checkBytes / modelBytes,
  }),
};

async function roomFor(growth: Growth, largest: number): Promise<string | undefined> {
  const { bavail, bsize } = await statfs(growth.folder);
  const need = (times: number) => `${Math.round((times * largest) / MB)} MB`;
  if (bavail * bsize < DISK_TIMES * largest) return `the disk has less than ${need(DISK_TIMES)} free`;
  if (freemem() < MEMORY_TIMES * largest) return `the memory has less than ${need(MEMORY_TIMES)} free`;
  return undefined;
}

/** As `model push` would have left it. */
async function placed(
  growth: Growth,
  place: (key: string, path: string) => Promise<string>,
  name: string,
  size: number,
  beside: boolean,
): Promise<LargeModel> {
  const model = await largeModel(join(growth.folder, name), size, beside);
  for (const { path } of model.files) await place(`${name}/versions/v1/${path}`, join(model.folder, path));
  const pointer = `${model.folder}.json`;
  await writeFile(pointer, JSON.stringify({ version: 'v1', files: model.files }));
  await place(`${name}/current.json`, pointer);
  return model;
}

export const open: OpenWork = async ({ series, given }) => {
  const { endpoint = '', prefix = '', folder = '', downloads = '' } = given;
  const s3 = openS3({ endpoint, region: 'local' });
  const location = { bucket: BUCKET, prefix };
  // The SDK is loaded and the connection stands.
  await readPointer(s3, series === PUSH ? { bucket: BUCKET, prefix: given['warm'] ?? '' } : location);
  const facts: Record<string, number> = { modelBytes: Number(given['bytes']) };
  const work = series === PUSH ? pushing(folder) : await loading(downloads);
  return { ...work, once: true, facts: async () => facts };

  async function loading(root: string): Promise<Work> {
    const directory = await mkdtemp(join(root, 'downloads-'));
    let close: () => Promise<unknown> = async () => undefined;
    return {
      call: async () => {
        const begin = performance.now();
        const pointer = await readPointer(s3, location);
        const downloaded = await downloadModel(s3, location, pointer, directory);
        facts['firstMs'] = performance.now() - begin;
        const settings = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
        const runner = await openOnnx(await findModelFile(downloaded), pointer.version, settings);
        facts['secondMs'] = performance.now() - begin - facts['firstMs'];
        close = () => runner.close();
      },
      close: async () => {
        await close();
        await rm(directory, { recursive: true, force: true });
        s3.destroy();
      },
    };
  }

  /** What cli/model/push.ts does, without its words. */
  function pushing(directory: string): Work {
    return {
      call: async () => {
        const begin = performance.now();
        const file = await findModelFile(directory);
        const { shapelessInputs: shapeless } = await readOnnxFacts(file);
        const report = await checkOnnx(file, { shapeless });
        facts['checkBytes'] = report.measured.memoryPeakBytes;
        facts['firstMs'] = performance.now() - begin;
        await publishModel(s3, location, directory);
        facts['secondMs'] = performance.now() - begin - facts['firstMs'];
      },
      close: async () => s3.destroy(),
    };
  }
};
