/**
 * Collects everything that a converter cannot convert into one error, so that a user does not need ten attempts to
 * find ten operations.
 */
import { badModel, ServingError } from '../../lib/contract/errors.ts';

const SHOWN = 50;

interface Problem {
  /** Operation or layer type. */
  readonly op: string;
  /** Name of the node or layer. */
  readonly node: string;
  /** The problem: "is not supported", "needs a fixed channel count, got [N,?,3]". */
  readonly reason: string;
}

export class Problems {
  readonly found: Problem[] = [];

  /** The file the nodes are in, relative to the model's directory. */
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  add(op: string, node: string, reason: string): void {
    this.found.push({ op, node, reason });
  }

  /**
   * Runs the conversion of one node. A bad_model error becomes a problem of that node; others are thrown.
   * @param advice what the problem ends with
   */
  collect<T>(op: string, node: string, convert: () => T, advice = () => ''): T | undefined {
    try {
      return convert();
    } catch (error) {
      if (!(error instanceof ServingError) || error.code !== 'bad_model') throw error;
      this.add(op, node, `${error.message}${advice()}`);
      return undefined;
    }
  }

  /** @throws bad_model naming operation, node and file of every problem */
  throwIfAny(): void {
    if (this.found.length === 0) return;
    const lines = this.found
      .slice(0, SHOWN)
      .map(({ op, node, reason }) => `  ${op} (node "${node}"): ${reason}`);
    if (this.found.length > SHOWN) lines.push(`  and ${this.found.length - SHOWN} more`);
    const count = this.found.length === 1 ? 'one node' : `${this.found.length} nodes`;
    throw badModel(`${this.file}: ${count} cannot be converted:\n${lines.join('\n')}`);
  }
}

/** More shapes than inputs were written for another model. */
export function tooManyShapes(inputs: readonly { readonly name: string }[], shapes: number): string {
  const names = inputs.map(({ name }) => name).join(', ');
  return `has ${inputs.length} input${inputs.length === 1 ? '' : 's'} (${names}), but ${shapes} shapes are given`;
}

/** Reports an invalid size as a defect of the model, wherever it was found. @throws bad_model */
export function withValidSizes<T>(convert: () => T): T {
  try {
    return convert();
  } catch (error) {
    if (error instanceof ServingError && (error.code === 'bad_input' || error.code === 'too_large'))
      throw badModel(error.message, { cause: error });
    throw error;
  }
}
