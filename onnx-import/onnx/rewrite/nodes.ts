/** Nodes of standard operators that take the place of another node, as they lie in a file. */
import { tensorOf } from '../../graph/numbers.ts';
import type { Attributes } from '../../graph/value.ts';
import { bytes, type Chunk, message, text } from '../../wire/chunk.ts';
import { splitOperator } from '../opset.ts';
import { attributeChunk } from '../write.ts';

export class NewNodes {
  /** The content of each node. */
  readonly chunks: Chunk[] = [];
  readonly #fresh: () => string;
  /** Of the standard operators. */
  readonly opset: number;

  /** @param fresh makes a name that no other value has */
  constructor(fresh: () => string, opset: number) {
    this.#fresh = fresh;
    this.opset = opset;
  }

  name(): string {
    return this.#fresh();
  }

  /** A node as it is. */
  keep(content: Chunk): void {
    this.chunks.push(content);
  }

  /** @param operator with its domain, as in graphs under construction. @returns the output's name */
  add(
    operator: string,
    inputs: readonly string[],
    attributes: Attributes = {},
    output = this.name(),
  ): string {
    const fields = Object.entries(attributes).flatMap(([name, value]) =>
      value === undefined ? [] : [bytes(5, attributeChunk(name, value))],
    );
    const names = [...inputs.map((input) => text(1, input)), text(2, output), text(3, output)];
    const { domain, name } = splitOperator(operator);
    this.keep(message([...names, text(4, name), text(7, domain), ...fields]));
    return output;
  }

  /** The largest number of each row. Opset 18 takes axes as an input, and those before 11 have none from the end. */
  rowMaximum(x: string): string {
    if (this.opset >= 18) return this.add('ReduceMax', [x, this.places([-1])]);
    return this.add('ReduceMax', [x], { axes: [this.opset < 11 ? 1 : -1] });
  }

  /** A float64 of rank 0. */
  number(value: number): string {
    return this.add('Constant', [], { value: { tensor: tensorOf('float64', [], [value]) } });
  }

  /** A list of float64. */
  numbers(values: readonly number[]): string {
    return this.add('Constant', [], { value: { tensor: tensorOf('float64', [values.length], values) } });
  }

  /** An int64 of rank 0. */
  place(value: number): string {
    return this.add('Constant', [], { value: { tensor: tensorOf('int64', [], [value]) } });
  }

  /** A list of int64. */
  places(values: readonly number[]): string {
    return this.add('Constant', [], { value: { tensor: tensorOf('int64', [values.length], values) } });
  }
}
