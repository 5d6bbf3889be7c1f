/** Nodes of standard operators that take the place of another node, as they lie in a file. */
import { tensorOf } from '../../graph/numbers.ts';
import type { Attributes } from '../../graph/value.ts';
import { bytes, type Chunk, message, text } from '../chunk.ts';
import { attributeChunk } from '../write.ts';

export class NewNodes {
  /** The content of each node. */
  readonly chunks: Chunk[] = [];
  readonly #fresh: () => string;

  /** @param fresh makes a name that no other value has */
  constructor(fresh: () => string) {
    this.#fresh = fresh;
  }

  name(): string {
    return this.#fresh();
  }

  /** A node as it is. */
  keep(content: Chunk): void {
    this.chunks.push(content);
  }

  /** @returns the output's name */
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
    this.keep(message([...names, text(4, operator), ...fields]));
    return output;
  }

  /** A float64 of rank 0. */
  number(value: number): string {
    return this.add('Constant', [], { value: { tensor: tensorOf('float64', [], [value]) } });
  }

  /** A list of int64. */
  places(values: readonly number[]): string {
    return this.add('Constant', [], { value: { tensor: tensorOf('int64', [values.length], values) } });
  }
}
