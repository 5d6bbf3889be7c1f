/**
 * Gives each captured record the place that it had in its run: bits of an answer may follow the rows of a run and the record's row. Records
 * of other places fill a run up, and where there are none, copies of one of them.
 */
import type { CaptureForm } from '../../lib/contract/capture.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Inputs, RunPlace } from '../../lib/contract/values.ts';

export interface Item<T> {
  readonly inputs: Inputs;
  readonly place: RunPlace | undefined;
  readonly form: CaptureForm | undefined;
  readonly about: T;
}

export interface PackedRun<T> {
  readonly form: CaptureForm | undefined;
  readonly records: readonly Inputs[];
  /** The items among them, with the index of each. */
  readonly items: readonly (readonly [index: number, item: Item<T>])[];
}

/** Items that wait for others. */
const MOST_WAITING = 2_048;

export class PackedRuns<T> {
  /** By size, form and shapes: the item of each row. */
  readonly #open = new Map<string, Map<number, Item<T>>>();
  #waiting = 0;

  /** @returns the run that has no room for the item, or one that has waited long */
  add(item: Item<T>): PackedRun<T> | undefined {
    const { place, inputs, form } = item;
    if (!place || form === 'exact') return { form, records: [inputs], items: [[0, item]] };
    const key = `${place.rows} ${form} ${shapesOf(inputs)}`;
    const rows = this.#open.get(key);
    const isTaken = rows?.has(place.row) ?? false;
    const closed = isTaken ? this.#close(key) : this.#oldest();
    const slots = this.#open.get(key) ?? new Map<number, Item<T>>();
    slots.set(place.row, item);
    this.#open.set(key, slots);
    this.#waiting++;
    return closed;
  }

  *rest(): Generator<PackedRun<T>> {
    for (const key of this.#open.keys()) {
      const run = this.#close(key);
      if (run) yield run;
    }
  }

  #oldest(): PackedRun<T> | undefined {
    const [oldest] = this.#open.keys();
    return this.#waiting < MOST_WAITING || oldest === undefined ? undefined : this.#close(oldest);
  }

  #close(key: string): PackedRun<T> | undefined {
    const slots = this.#open.get(key);
    this.#open.delete(key);
    const [first] = slots?.values() ?? [];
    if (!slots || !first) return undefined;
    this.#waiting -= slots.size;
    const { rows = 1 } = first.place ?? {};
    const records = Array.from({ length: rows }, (_, row) => (slots.get(row) ?? first).inputs);
    return { form: first.form, records, items: [...slots] };
  }
}

/** Records of other shapes do not share a run. */
function shapesOf(inputs: Inputs): string {
  const shapes = Array.from(inputs, ([name, value]) => {
    if (value.kind === 'tensor') return `${name}${value.tensor.shape.join('x')}`;
    return value.kind === 'json' ? name + nestOf(value.value) : name + value.kind;
  });
  return shapes.join(' ');
}

function nestOf(value: unknown): string {
  return Array.isArray(value) && value.length > 0
    ? `${value.length}x${nestOf(elementAt(value, 0, 'value'))}`
    : '';
}
