/**
 * Turns the `import` section of a config into conversion options, finds options without effect on a model, and
 * rewords advice about command-line options for config.yaml. An empty section returns no options at all, because an
 * ONNX model takes none.
 */
import type { ImportConfig } from '../lib/config/job.ts';
import { badConfig } from '../lib/contract/errors.ts';
import type { ConvertOptions } from './conversion.ts';
import { isOnnx, KINDS, type ModelKind } from './kinds.ts';

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
  };
}

/** Options that only SavedModels have. */
const OF_SAVED_MODELS = ['signature', 'tags'] as const;

/** Options that say what a file leaves open. */
const SIZES = ['inputShapes', 'shapesInOrder'];

/** Options that say which model of a folder is meant. */
const CHOICES = ['file', 'variant'];

/** Explains which options have no effect; undefined when all have one. */
export function uselessOptions(kind: ModelKind, convert: ConvertOptions): string | undefined {
  const given = Object.keys(convert);
  // The sizes of an ONNX model are for its check, and a choice leaves it as it is.
  const changes = given.filter((name) => !SIZES.includes(name) && !CHOICES.includes(name));
  if (isOnnx(kind) && changes.length > 0) {
    return `an ONNX model is used unchanged; ${changes.join(', ')} cannot be changed here`;
  }
  if (kind !== 'xgboost' && given.includes('missing')) {
    return `missing: no effect; only a model of XGBoost has it, and this is a model of ${KINDS[kind].title}`;
  }
  const useless = kind === 'tf_saved_model' ? [] : OF_SAVED_MODELS.filter((name) => given.includes(name));
  if (useless.length === 0) return undefined;
  return `${useless.join(', ')}: no effect; only a SavedModel of TensorFlow has it, and this is a model of ${KINDS[kind].title}`;
}

/** @throws bad_config */
export function assertUsed(kind: ModelKind, convert: ConvertOptions): void {
  const useless = uselessOptions(kind, convert);
  if (useless !== undefined) throw badConfig(useless);
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
    .replaceAll(/--(file|variant)\b/g, 'import.$1 in config.yaml')
    .replaceAll('--signature', 'import.signature in config.yaml')
    .replaceAll('--missing', 'import.missing in config.yaml')
    .replaceAll('--tag', 'import.tags in config.yaml')
    .replaceAll('or give --reference', 'or try it with `cluster-serving model check --reference`');
}
