/** Remembers the last records of the queue for the page, beside the sink that saves their results: nothing more is written. */
import { MOST_RECORDS, type RecordFacts } from '../../console/api.ts';
import type { DType } from '../../lib/contract/tensor.ts';
import type { NamedTensor } from '../../lib/contract/values.ts';
import { float16Value } from '../../lib/pipeline/cast.ts';
import { rankingOf } from '../../lib/pipeline/postprocess.ts';
import type { Sink } from '../../lib/pipeline/serve.ts';

type FinishedRecord = Parameters<Sink['save']>[0][number];

const SHOWN_VALUES = 6;
const SHOWN_OUTPUTS = 3;
const SHOWN_CHARACTERS = 300;
/** More values are not searched for the largest. */
const MOST_SEARCHED = 100_000;

export class RecentRecords {
  /** The oldest first. */
  readonly #records: RecordFacts[] = [];
  readonly #now: () => number;

  /** @param now wall clock in ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** The newest first. */
  list(): RecordFacts[] {
    return this.#records.toReversed();
  }

  /** The same sink; what it has saved is remembered. */
  beside(sink: Sink): Sink {
    return {
      save: async (finished, model) => {
        // Before it is saved, because the memory of the outcomes may be used again afterwards.
        const facts = finished
          .slice(-MOST_RECORDS)
          .map((record) => [record.id, this.#facts(record, model)] as const);
        const unsaved = await sink.save(finished, model);
        this.#remember(facts.flatMap(([id, fact]) => (unsaved.includes(id) ? [] : [fact])));
        return unsaved;
      },
    };
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
    this.#records.splice(0, this.#records.length - MOST_RECORDS);
  }

  #facts({ uri, enqueue, outcome }: Omit<FinishedRecord, 'id'>, model: string): RecordFacts {
    const facts = { uri, identity: enqueue.identity, finishedAt: new Date(this.#now()).toISOString(), model };
    if (outcome.ok) return { ...facts, status: 'succeeded', result: resultText(outcome.outputs) };
    const { code, publicMessage } = outcome.error;
    return { ...facts, status: 'failed', code, error: publicMessage.slice(0, SHOWN_CHARACTERS) };
  }
}

/** The beginning of each output; a worker's value that is no tensor is read when somebody asks for it. */
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

/** Fractions are rounded for the eye; whole numbers are not. */
function shown(value: unknown, dtype: DType): string {
  if (dtype === 'bool') return String(value === 1);
  const number = dtype === 'float16' ? float16Value(value as number) : value;
  const isFraction = typeof number === 'number' && !Number.isInteger(number);
  return isFraction ? String(Number(number.toPrecision(4))) : String(number).slice(0, 40);
}
