/**
 * Formats a result in a few lines: name, shape, largest value and the first eight values. --json prints all values.
 */
import { elementAt } from '../lib/contract/present.ts';
import type { NamedTensor } from '../lib/contract/values.ts';
import { rankingOf, shortestHalf } from '../lib/pipeline/answer/postprocess.ts';
import { valueText } from '../lib/pipeline/answer/value-text.ts';
import { authorizedFetch } from '../sdk/access.ts';
import { request } from '../sdk/fetch.ts';
import { labelled, type ModelFacts, ServedModel } from '../sdk/http/served-model.ts';
import type { Result } from '../sdk/index.ts';
import type { Service } from './service.ts';

const SHOWN = 8;
const ASK_MS = 5_000;

/** @param model that made it, where that is known */
export function resultLines({ uri, filtered, value, ...result }: Result, model?: ModelFacts): string {
  const outputs = result.outputs.map((output) =>
    labelled(
      output,
      model?.outputs.find(({ name }) => name === output.name),
    ),
  );
  if (value !== undefined) return `${uri}  ${valueText(value)}`;
  if (filtered !== undefined) return `${uri}  ${JSON.stringify(filtered)}`;
  const [only, second] = outputs;
  if (only && !second) return `${uri}  ${outputText(only)}`;
  return [uri, ...outputs.map((output) => `  ${outputText(output)}`)].join('\n');
}

function outputText(output: NamedTensor): string {
  const { name, dtype, shape, data } = output;
  const numbers = numbersOf(output);
  const shown = numbers
    ? numbers.slice(0, SHOWN).map((value) => String(Number(value.toPrecision(6))))
    : (data as readonly string[]).slice(0, SHOWN).map((text) => JSON.stringify(text));
  const rest = data.length > SHOWN ? ', …' : '';
  return `${name} ${dtype}[${shape.join(',')}]${numbers ? largestText(output, numbers) : ''}  ${shown.join(', ')}${rest}`;
}

function numbersOf({ dtype, data }: NamedTensor): number[] | undefined {
  const valueOf = (element: number | bigint) =>
    dtype === 'float16' ? shortestHalf(Number(element)) : Number(element);
  return dtype === 'string' ? undefined : Array.from(data, valueOf);
}

/** The class that a classifier selects: "largest 0.999 at 3 (cat)". */
function largestText(output: NamedTensor, numbers: readonly number[]): string {
  if (numbers.length < 2) return '';
  const [at = 0] = rankingOf(output)(1);
  const { labels } = output;
  const label = labels ? ` (${labels[at % labels.length]})` : '';
  return `  largest ${Number(elementAt(numbers, at, 'numbers').toPrecision(6))} at ${at}${label}`;
}

/** The best class of each output whose classes have names, as the command line shows it. */
export function labelsText({ outputs }: Pick<Result, 'outputs'>): string {
  return outputs
    .filter(({ labels }) => labels)
    .map((output) => largestText(output, numbersOf(output) ?? []))
    .join('');
}

/**
 * Asks a service for the names of its outputs' classes, once for each version of its model. Without an answer, results
 * have no labels, and nothing fails.
 */
export function namesOfClasses({ http, access }: Service) {
  if (http === undefined) return async () => undefined;
  const send = authorizedFetch(http, access);
  // Without a name of the job, because --url says only where it is.
  const served = new ServedModel(
    undefined,
    async (path) => (await request(http + path, {}, ASK_MS, undefined, send)).body,
  );
  const known = new Map<string, Promise<ModelFacts | undefined>>();
  return (version: string) => {
    const facts = known.get(version) ?? served.of(version).catch(() => undefined);
    known.set(version, facts);
    return facts;
  };
}
