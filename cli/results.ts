/**
 * Formats a result in a few lines: name, shape, largest value and the first eight values. --json prints all values.
 */
import type { NamedTensor } from '../lib/contract/values.ts';
import { rankingOf, shortestHalf } from '../lib/pipeline/postprocess.ts';
import { valueText } from '../lib/pipeline/value-text.ts';
import type { Result } from '../sdk/index.ts';

const SHOWN = 8;

export function resultLines({ uri, outputs, filtered, value }: Result): string {
  if (value !== undefined) return `${uri}  ${valueText(value)}`;
  if (filtered !== undefined) return `${uri}  ${JSON.stringify(filtered)}`;
  const [only, second] = outputs;
  if (only && !second) return `${uri}  ${outputText(only)}`;
  return [uri, ...outputs.map((output) => `  ${outputText(output)}`)].join('\n');
}

function outputText(output: NamedTensor): string {
  const { name, dtype, shape, data } = output;
  const valueOf = (element: number | bigint) =>
    dtype === 'float16' ? shortestHalf(Number(element)) : Number(element);
  const numbers = dtype === 'string' ? undefined : Array.from(data as ArrayLike<number | bigint>, valueOf);
  const shown = numbers
    ? numbers.slice(0, SHOWN).map((value) => String(Number(value.toPrecision(6))))
    : (data as readonly string[]).slice(0, SHOWN).map((text) => JSON.stringify(text));
  const rest = data.length > SHOWN ? ', …' : '';
  return `${name} ${dtype}[${shape.join(',')}]${numbers ? largestText(output, numbers) : ''}  ${shown.join(', ')}${rest}`;
}

/** The class that a classifier selects: "largest 0.999 at 3". */
function largestText(output: NamedTensor, numbers: readonly number[]): string {
  if (numbers.length < 2) return '';
  const [at = 0] = rankingOf(output)(1);
  return `  largest ${Number((numbers[at] as number).toPrecision(6))} at ${at}`;
}
