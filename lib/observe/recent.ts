/** Remembers the last records of the queue whose results were stored, with the beginning of each: nothing more is written. */
import type { DType } from '../contract/tensor.ts';
import type { NamedTensor } from '../contract/values.ts';
import { numberText, rankingOf } from '../pipeline/answer/postprocess.ts';
import { float16Value } from '../pipeline/bind/cast.ts';
import type { FinishedRecord } from '../pipeline/decode.ts';
import type { Fact, Observer } from '../pipeline/observer.ts';

const SHOWN_VALUES = 6;
const SHOWN_OUTPUTS = 3;
const SHOWN_CHARACTERS = 300;
/** More values are not searched for the largest. */
const MOST_SEARCHED = 100_000;

interface RecentOptions {
  /** Records that are remembered. */
  readonly most: number;
  /** Wall clock in ms. */
  readonly now: () => number;
}

interface RecordFacts {
  readonly uri: string;
  readonly identity: string;
  readonly finishedAt: string;
  readonly model: string;
  readonly status: 'succeeded' | 'failed';
  readonly result?: string;
  readonly code?: string;
  readonly error?: string;
}

export class RecentRecords implements Observer {
  /** The oldest first. */
  readonly #records: RecordFacts[] = [];
  readonly #options: RecentOptions;

  constructor(options: RecentOptions) {
    this.#options = options;
  }

  /** The newest first. */
  list(): RecordFacts[] {
    return this.#records.toReversed();
  }

  recordsStored({ finished, unsaved, model }: Fact<'recordsStored'>): void {
    const stored = finished.slice(-this.#options.most).filter(({ id }) => !unsaved.includes(id));
    this.#remember(stored.map((record) => this.#facts(record, model)));
  }

  /** A replay: the record's result replaces its failure. */
  replace(record: Omit<FinishedRecord, 'id'>, model: string): void {
    const facts = this.#facts(record, model);
    const old = this.#records.findIndex(
      ({ uri, identity }) => uri === facts.uri && identity === facts.identity,
    );
    if (old !== -1) this.#records.splice(old, 1);
    this.#remember([facts]);
  }

  #remember(facts: readonly RecordFacts[]): void {
    this.#records.push(...facts);
    this.#records.splice(0, this.#records.length - this.#options.most);
  }

  #facts({ uri, enqueue, outcome }: Omit<FinishedRecord, 'id'>, model: string): RecordFacts {
    const facts = {
      uri,
      identity: enqueue.identity,
      finishedAt: new Date(this.#options.now()).toISOString(),
      model,
    };
    if (outcome.ok) return { ...facts, status: 'succeeded', result: resultText(outcome.outputs) };
    const { code, publicMessage } = outcome.error;
    return { ...facts, status: 'failed', code, error: publicMessage.slice(0, SHOWN_CHARACTERS) };
  }
}

/** The beginning of each output; a worker's value that is not a tensor is read on demand. */
function resultText(outputs: readonly NamedTensor[]): string {
  const texts = outputs.slice(0, SHOWN_OUTPUTS).map(({ name, shape, dtype, data, labels }) => {
    const best = largestOf(dtype, shape, data);
    if (best !== undefined) return `${name}: ${labels?.[best] ?? best} (${shown(data[best], dtype)})`;
    const values = Array.from(data.slice(0, SHOWN_VALUES) as ArrayLike<unknown>, (value) =>
      shown(value, dtype),
    );
    return `${name} [${shape.join(', ')}]: ${values.join(', ')}${data.length > SHOWN_VALUES ? ', …' : ''}`;
  });
  return texts.join('; ').slice(0, SHOWN_CHARACTERS);
}

/** The place of the largest of several scores, which is what most readers look for; undefined for other outputs. */
function largestOf(dtype: DType, shape: readonly number[], data: NamedTensor['data']): number | undefined {
  const isVector = shape.filter((size) => size !== 1).length === 1;
  if (!isVector || data.length > MOST_SEARCHED || (dtype !== 'float32' && dtype !== 'float64'))
    return undefined;
  const [best = 0] = rankingOf({ dtype, data })(1);
  return Number.isNaN(data[best]) ? undefined : best;
}

/** All digits, as in an answer: rounded, 0.99999 would be 1. */
function shown(value: unknown, dtype: DType): string {
  if (dtype === 'bool') return String(value === 1);
  if (typeof value !== 'number') return String(value).slice(0, 40);
  const number = dtype === 'float16' ? float16Value(value) : value;
  return Number.isFinite(number) && !Number.isInteger(number) ? numberText(value, dtype) : String(number);
}
