/** Lists the layers and operations that are converted, from the converters' own tables. */
interface SupportedOps {
  readonly caffe: readonly string[];
  readonly tensorflow: readonly string[];
}

export async function supportedOps(): Promise<SupportedOps> {
  const [{ LAYER_TYPES }, { DATA_LAYER_TYPES }, { OPS }] = await Promise.all([
    import('./caffe/layers/table.ts'),
    import('./caffe/data-layers.ts'),
    import('./tensorflow/ops/table.ts'),
  ]);
  return { caffe: [...LAYER_TYPES, ...DATA_LAYER_TYPES].sort(), tensorflow: Object.keys(OPS).sort() };
}

export function supportedOpsText({ caffe, tensorflow }: SupportedOps): string {
  return [
    `Caffe, ${caffe.length} layers:`,
    '',
    wrapped(caffe),
    '',
    `TensorFlow, ${tensorflow.length} operations:`,
    '',
    wrapped(tensorflow),
  ].join('\n');
}

const COLUMNS = 120;

function wrapped(names: readonly string[]): string {
  const lines: string[] = [];
  for (const name of names) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + name.length + 3 <= COLUMNS)
      lines[lines.length - 1] = `${line}, ${name}`;
    else {
      if (line !== undefined) lines[lines.length - 1] = `${line},`;
      lines.push(name);
    }
  }
  return lines.join('\n');
}
