/** Describes a model's inputs and outputs for the page, which makes its form from them. */
import type { Part, PortFacts } from '../../console/api.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { namedModelsPrefix } from '../../lib/contract/names.ts';
import type { ModelNames, TensorSpec } from '../../lib/contract/values.ts';
import { mayHaveClasses, rowShape } from '../../lib/pipeline/batch/batch-axes.ts';
import { imageSettings } from '../../lib/pipeline/bind/image-choice.ts';
import { listModelNames } from '../../lib/registry/model-names.ts';
import type { S3Client } from '../../lib/s3/objects.ts';

type Settings = Pick<JobConfig, 'image' | 'inputAlreadyBatched'>;

/** An input of this rank with this many channels takes pictures; others of the rank take numbers first. */
const CHANNELS: readonly (number | string | undefined)[] = [1, 3];

export function inputFacts(
  inputs: readonly TensorSpec[],
  names: ModelNames,
  settings: Settings,
): PortFacts[] {
  return inputs.map((spec) => {
    const { name, dtype, shape, optional } = spec;
    const row = settings.inputAlreadyBatched ? shape : rowShape(spec);
    const image = imageOf(spec, settings);
    const takes = spec.isText || dtype === 'string' ? 'text' : image ? 'image' : 'numbers';
    const columns = named(names.columns, name);
    return {
      name,
      dtype,
      shape,
      row: spec.isText ? [] : row,
      takes,
      ...(image && { image }),
      ...(optional && { optional }),
      ...(columns && { names: columns }),
    };
  });
}

export function outputFacts(outputs: readonly TensorSpec[], names: ModelNames): PortFacts[] {
  return outputs.map((spec) => {
    const { name, dtype, shape } = spec;
    const labels = mayHaveClasses(spec) ? named(names.labels, name) : undefined;
    return { name, dtype, shape, row: rowShape(spec), takes: 'numbers', ...(labels && { names: labels }) };
  });
}

/** How records run where the verification has no note about it. */
export function sharing(separable: boolean): string {
  return separable ? 'records share runs' : 'records run one by one';
}

function named(lists: ModelNames['columns'], name: string): readonly string[] | undefined {
  return Object.hasOwn(lists, name) ? lists[name] : undefined;
}

function imageOf(spec: TensorSpec, { image }: Settings): PortFacts['image'] {
  const row = rowShape(spec);
  if (spec.dtype === 'string' || row.length !== 3) return undefined;
  const { layout, width, height, channels } = imageSettings(spec, image);
  const depth = layout === 'chw' ? row[0] : row[2];
  if (typeof depth === 'number' && !CHANNELS.includes(depth)) return undefined;
  if (typeof depth === 'string' && Object.keys(image).length === 0) return undefined;
  return { width: width ?? 0, height: height ?? 0, isGrey: channels === 'grey' };
}

/** The names of the further models of a job, as they are in S3. */
export async function furtherModels(s3: S3Client, bucket: string, job: string): Promise<Part<string[]>> {
  try {
    return (await listModelNames(s3, { bucket, prefix: namedModelsPrefix(job) })).toSorted();
  } catch (error) {
    return { unavailable: ServingError.from(error).publicMessage };
  }
}
