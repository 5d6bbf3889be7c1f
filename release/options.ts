/**
 * What a job's config says of the import and the verification of its model. An empty section `import` gives no options at
 * all, because an ONNX model takes none.
 */
import { axesOf, type ImportConfig, type JobConfig } from '../lib/config/job.ts';
import type { ConvertOptions, ProofOptions } from '../onnx-import/index.ts';

export function convertOptions({
  inputs,
  shapes: inOrder,
  outputs,
  constants,
  signature,
  tags,
  missing,
  file,
  variant,
  before,
}: ImportConfig): ConvertOptions {
  const shapes = Array.isArray(inputs) ? undefined : (inputs as ConvertOptions['inputShapes']);
  return {
    ...(shapes ? { inputShapes: shapes } : {}),
    ...(Array.isArray(inputs) ? { inputNames: inputs as readonly string[] } : {}),
    // A batch of one row, which becomes free where the model allows it.
    ...(inOrder ? { shapesInOrder: inOrder.map((shape) => [1, ...shape]) } : {}),
    ...(outputs ? { outputNames: outputs } : {}),
    ...(constants ? { constants } : {}),
    ...(signature === undefined ? {} : { signature }),
    ...(tags ? { tags } : {}),
    ...(missing === undefined ? {} : { missing }),
    ...(file === undefined ? {} : { file }),
    ...(variant === undefined ? {} : { variant }),
    ...(before === undefined ? {} : { before }),
  };
}

export function proofOptions(
  job: Pick<JobConfig, 'batchSize' | 'inputs' | 'outputs'>,
): Pick<ProofOptions, 'maxRows' | 'batchAxes'> {
  return { maxRows: job.batchSize, batchAxes: axesOf(job).batchAxes };
}

/** Rewords advice for `start` and `serverless deploy`, which have no such options, but config.yaml has. */
export function forConfig(text: string): string {
  return text
    .replaceAll(
      /--input ([^\s:]+):<shape>, like [^\s:]+:([\w,]+)/g,
      'import.inputs: {$1: [$2]} in config.yaml',
    )
    .replaceAll(/--input "([^"]+):N,\.\.\."/g, 'import.inputs: {$1: [N, ...]} in config.yaml')
    .replaceAll('--input name:shape', 'import.inputs: {name: [N, 3, 224, 224]} in config.yaml')
    .replaceAll(
      /--(inputs?|outputs?|constants?)\b/g,
      (_, name: string) => `import.${name.replace(/s?$/, 's')} in config.yaml`,
    )
    .replaceAll(/--(file|variant|before)\b/g, 'import.$1 in config.yaml')
    .replaceAll('--signature', 'import.signature in config.yaml')
    .replaceAll('--missing', 'import.missing in config.yaml')
    .replaceAll('--tag', 'import.tags in config.yaml')
    .replaceAll('or give --reference', 'or try it with `cluster-serving model check --reference`');
}
