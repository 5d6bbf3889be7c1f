/** `predict --show-input`: the tensors that the model gets of a request, instead of its answer. */
import { resolve } from 'node:path';
import { decodeInstances } from '../../lib/codecs/instances.ts';
import type { OnnxRunner } from '../../lib/compose/onnx.ts';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import { valuesOf } from '../../lib/contract/tensor-values.ts';
import { readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { withVersionCopy } from '../../lib/registry/version-copy.ts';
import { openS3 } from '../../lib/s3/client.ts';
import { findRunning } from '../../local/service/data-folder.ts';
import { wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf, type Service, type ServiceValues } from '../service.ts';

export interface ShowValues extends ServiceValues {
  readonly config?: string | undefined;
}

interface ShownTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The least, the most and the mean, where there are numbers. */
  readonly least?: number;
  readonly most?: number;
  readonly mean?: number;
  /** All elements in row-major order; an integer beyond 2^53 is a text. */
  readonly data: readonly (number | string)[];
}

const SHOWN = 8;

/** @param bodies requests of POST /predict as JSON. @throws bad_request, bad_input as the service does; model_unavailable */
export async function showInputs(
  bodies: AsyncIterable<string>,
  service: Service,
  values: ShowValues,
  output: Output,
): Promise<number> {
  const { bucket, job: name, endpoint, region } = service;
  if (bucket === undefined) throw wrongUse('--show-input reads the model from S3: pass --stack, or --bucket');
  const s3 = openS3({ endpoint, region });
  const place = { s3, location: { bucket, prefix: modelPrefix(name) } };
  try {
    const job = await jobOf(name, values, output);
    const served = await readPointer(s3, place.location);
    const records = await withVersionCopy(place, served, async (directory) => {
      const { openOnnx } = await import('../../lib/compose/onnx.ts');
      const { modelSettings } = await import('../../lib/compose/model.ts');
      const settings = { ...modelSettings(job, 1), verification: served.verification };
      const runner = await openOnnx(await findModelFile(directory), served.version, settings);
      try {
        return await recordsOf(bodies, runner, job);
      } finally {
        await runner.close();
      }
    });
    const lines = records.flatMap((tensors, i) => tensors.map((tensor) => `${i}  ${lineOf(tensor)}`));
    output.answer({ version: served.version, records }, lines.join('\n'));
    return EXIT.ok;
  } finally {
    s3.destroy();
  }
}

async function recordsOf(
  bodies: AsyncIterable<string>,
  { inputs, image, names }: OnnxRunner,
  { inputAlreadyBatched }: JobConfig,
): Promise<ShownTensor[][]> {
  const { bindRecord } = await import('../../lib/pipeline/bind/bind.ts');
  const shown: ShownTensor[][] = [];
  for await (const body of bodies) {
    for (const record of decodeInstances(body)) {
      const { tensors } = await bindRecord(record, inputs, { inputAlreadyBatched, image, names });
      shown.push(tensors.map((tensor, i) => shownTensor(inputs[i]?.name ?? '', tensor)));
    }
  }
  return shown;
}

function shownTensor(name: string, tensor: Tensor): ShownTensor {
  const { dtype, shape } = tensor;
  const values = Array.from<number | bigint | string>(valuesOf(tensor));
  const data = values.map((value) =>
    typeof value === 'bigint' ? (Number.isSafeInteger(Number(value)) ? Number(value) : String(value)) : value,
  );
  if (dtype === 'string' || values.length === 0) return { name, dtype, shape, data };
  const numbers = values.map(Number);
  return {
    name,
    dtype,
    shape,
    least: numbers.reduce((a, b) => Math.min(a, b)),
    most: numbers.reduce((a, b) => Math.max(a, b)),
    mean: numbers.reduce((a, b) => a + b) / numbers.length,
    data,
  };
}

function lineOf({ name, dtype, shape, least, most, mean, data }: ShownTensor): string {
  const range = least === undefined ? '' : `  ${short(least)} to ${short(most)}, mean ${short(mean)}`;
  const first = data
    .slice(0, SHOWN)
    .map((value) => (typeof value === 'number' ? short(value) : JSON.stringify(value)));
  return `${name}  ${dtype} [${shape.join(', ')}]${range}:  ${first.join(' ')}${data.length > SHOWN ? ' …' : ''}`;
}

function short(value = Number.NaN): string {
  return String(Number(value.toPrecision(5)));
}

/** The settings of --config, else those with which the local service was started, else the defaults. */
async function jobOf(name: string, values: ShowValues, output: Output): Promise<JobConfig> {
  if (values.config !== undefined) {
    const { readConfig } = await import('../../lib/config/file.ts');
    return readConfig(resolve(values.config)).job;
  }
  const isElsewhere = values.stack !== undefined || values.url !== undefined;
  const record = isElsewhere ? undefined : (await findRunning(dataDirOf(values)))?.record;
  const { configsOf } = await import('../configs.ts');
  const own = configsOf(record?.startedWith['config']).find(({ job }) => job.jobName === name);
  if (!own && !record)
    output.note('note: with the default settings of pictures and batches; --config names those of the job');
  return own?.job ?? DEFAULT_JOB;
}
