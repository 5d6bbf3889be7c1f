/** Says of a model that ended its process what it was doing, and what to do about it. */
import { writeSync } from 'node:fs';
import { formatShape, type Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import { graphsIn, readModel } from '../batching/model.ts';

const MARK = '\u0001';
const MOST_VALUES = 8;
const MOST_NODES = 5;
const STDERR = 2;

/** Writes each run to stderr before it begins: nothing that is sent later would arrive. */
export function traceRun(file: string, inputs: readonly TensorSpec[], feeds: readonly Tensor[]): void {
  const shown = feeds.map(({ dtype, shape, data }, i) => {
    const values = Array.from({ length: Math.min(data.length, MOST_VALUES) }, (_, at) => String(data[at]));
    const more = data.length > MOST_VALUES ? ', …' : '';
    return `${inputs[i]?.name} ${dtype} ${formatShape(shape)} of ${values.join(', ')}${more}`;
  });
  const what = feeds.length === 0 ? `opening ${file}` : `running ${file} with ${shown.join('; ')}`;
  writeSync(STDERR, `${MARK}${what}\n`);
}

/** @param errors what the process wrote, with the runs */
export function crashText(signal: NodeJS.Signals, errors: string, file: string | undefined): string {
  const lines = errors.split('\n').filter((line) => line.trim() !== '');
  const last = lines.findLast((line) => line.startsWith(MARK))?.slice(MARK.length);
  const others = lines.filter((line) => !line.startsWith(MARK)).join(' ');
  const [doing, said] = [last && ` while ${last}`, others && `: ${others}`];
  return `onnxruntime ended its process (${signal})${doing ?? ''}${said}; ${adviceFor(signal, file)}`;
}

function adviceFor(signal: NodeJS.Signals, file: string | undefined): string {
  if (signal === 'SIGKILL') return 'most likely the memory of this machine was not enough; try one with more';
  if (signal !== 'SIGFPE')
    return 'try another export of the model, or its float32 version, with a newer opset';
  const nodes = file === undefined ? [] : dividingNodes(file);
  const where = nodes.length === 0 ? '' : ` in ${nodes.join(' or ')}`;
  return `a whole number was divided by 0, or the smallest one by -1${where}; let the model divide float32, or keep such divisors from it`;
}

function dividingNodes(file: string): string[] {
  const nodes = [...graphsIn(readModel(file).graph)].flatMap((graph) => graph.nodes);
  const dividing = nodes.filter(({ operator }) => operator === 'Div' || operator === 'Mod');
  const named = dividing.map(({ operator, name, outputs }) => `${operator} (node "${name || outputs[0]}")`);
  return named.length > MOST_NODES ? [...named.slice(0, MOST_NODES), 'others'] : named;
}
