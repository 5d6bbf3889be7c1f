/** Where the shape, the rows and the dtype of a model's input are from: its file, the options, its format, or the import. */
import { isNumericDType } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import type { ConvertOptions } from '../source/convert-options.ts';
import type { ModelKind } from '../source/kinds.ts';

/** `format`: all inputs of this format are so. `assumed`: nothing says it, so compare the answers with --reference. */
type Origin = 'file' | 'options' | 'format' | 'import' | 'assumed';

export interface PortOrigin {
  /** Of the sizes behind the rows. Absent for an input without a shape. */
  readonly shape?: Origin;
  /** Of the number of rows; `import`: the import freed it. */
  readonly rows?: Origin;
  readonly dtype: Origin;
}

export interface Origins {
  readonly kind: ModelKind;
  readonly options: ConvertOptions;
  /** Whether the conversion freed a fixed number of rows. */
  readonly isFreed: boolean;
}

/** Formats whose inputs have one dtype, and whose rows are never fixed once they are converted. */
const OF_FORMAT: readonly ModelKind[] = ['caffe', 'bigdl', 'xgboost', 'lightgbm'];

export function originOf({ name, shape }: TensorSpec, isShapeless: boolean, origins: Origins): PortOrigin {
  const { kind, options, isFreed } = origins;
  // The sizes of an ONNX model are for its check.
  const given = kind === 'onnx' ? undefined : options.inputShapes?.[name];
  const [first] = given ?? [];
  const isTyped = typeof first === 'string' && (isNumericDType(first) || first === 'string');
  const isOfFormat = OF_FORMAT.includes(kind);
  const dtype = isTyped ? 'options' : isOfFormat ? 'format' : kind === 'pytorch' ? 'assumed' : 'file';
  if (isShapeless) return { dtype };
  const rows = isTyped ? given?.[1] : first;
  const isFree = typeof shape[0] === 'string';
  const isImports = isFree && (typeof rows === 'number' || isFreed || (given === undefined && isOfFormat));
  return {
    shape: given ? 'options' : 'file',
    rows: isImports ? 'import' : given ? 'options' : 'file',
    dtype,
  };
}

const TEXTS: Readonly<Record<keyof PortOrigin, Readonly<Partial<Record<Origin, string>>>>> = {
  shape: { options: 'shape as given' },
  rows: { import: 'rows freed by the import' },
  dtype: { options: 'dtype as given', format: 'dtype of the format', assumed: 'dtype assumed' },
};

/** What is not from the file, for a line of the report. */
export function originText(origin: PortOrigin | undefined): string {
  const parts = (['shape', 'rows', 'dtype'] as const).flatMap((key) => {
    const from = origin?.[key];
    return (from && TEXTS[key][from]) ?? [];
  });
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
