/**
 * In: the section `import` of a config. Out: the same as options of a conversion.
 * Trap: an empty section must give no options at all, for an ONNX model takes none.
 */
import type { ImportConfig } from '../lib/config/job.ts';
import type { ConvertOptions } from './conversion.ts';

export function convertOptions({
  inputs,
  outputs,
  constants,
  signature,
  tags,
}: ImportConfig): ConvertOptions {
  const shapes = Array.isArray(inputs) ? undefined : (inputs as ConvertOptions['inputShapes']);
  return {
    ...(shapes ? { inputShapes: shapes } : {}),
    ...(Array.isArray(inputs) ? { inputNames: inputs as readonly string[] } : {}),
    ...(outputs ? { outputNames: outputs } : {}),
    ...(constants ? { constants } : {}),
    ...(signature === undefined ? {} : { signature }),
    ...(tags ? { tags } : {}),
  };
}
