/**
 * Lists the supported layers and operations from the converters' tables. `node convert/supported.ts` writes the list
 * to docs/reference/operators.md.
 */
import { readFile, writeFile } from 'node:fs/promises';

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

/** The document with the list between its marks. */
export function withOps(document: string, ops: SupportedOps): string {
  return document.replace(
    /<!-- ops -->[\s\S]*<!-- \/ops -->/,
    `<!-- ops -->\n${supportedOpsText(ops)}\n<!-- /ops -->`,
  );
}

if (import.meta.main) {
  const path = new URL('../docs/reference/operators.md', import.meta.url);
  await writeFile(path, withOps(await readFile(path, 'utf8'), await supportedOps()));
}
