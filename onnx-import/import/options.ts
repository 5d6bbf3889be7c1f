/** Reads the options of a model's import, and finds those that have no effect on it. */
import { badConfig } from '../../lib/contract/errors.ts';
import type { Shape } from '../graph/value.ts';
import type { ConvertOptions } from '../source/convert-options.ts';
import { isOnnx, KINDS, type ModelKind } from '../source/kinds.ts';

/** Options that only SavedModels have. */
const OF_SAVED_MODELS = ['signature', 'tags'] as const;

/** Options that say what a file leaves open. */
const SIZES = ['inputShapes', 'shapesInOrder'];

/** Options that say which model of a folder is meant. */
const CHOICES = ['file', 'variant', 'before'];

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

/**
 * `--input x:4`: TensorFlow alone names a tensor by its place among the outputs of a node. Of other models it is input x with
 * the shape [4]; `x:0` stays a name, as no size is 0.
 */
export function withShapes(kind: ModelKind, convert: ConvertOptions): ConvertOptions {
  const { inputNames, inputShapes = {}, ...rest } = convert;
  if (kind.startsWith('tf_') || inputNames === undefined) return convert;
  const shapes: Record<string, Shape> = { ...inputShapes };
  const names = inputNames.map((text) => {
    const [, name, size] = /^(.+):([1-9])$/.exec(text) ?? [];
    if (name === undefined) return text;
    shapes[name] = [Number(size)];
    return name;
  });
  const isChoice = names.some((name) => !Object.hasOwn(shapes, name));
  return {
    ...rest,
    ...(Object.keys(shapes).length > 0 ? { inputShapes: shapes } : {}),
    ...(isChoice ? { inputNames: names } : {}),
  };
}

/** @throws bad_config */
export function assertUsed(kind: ModelKind, convert: ConvertOptions): void {
  const useless = uselessOptions(kind, convert);
  if (useless !== undefined) throw badConfig(useless);
}
