/**
 * A mutant is one small bug: a piece of text of a source file and what stands in its place. The piece must occur exactly
 * once, so that a mutant never outlives the code that it breaks.
 */
import { transformSync } from 'esbuild';

export interface Bug {
  /** What no longer holds once the bug is in, as a sentence. */
  readonly guarantee: string;
  readonly find: string;
  readonly replace: string;
  /** Instead of those of its suite. */
  readonly tests?: readonly string[];
  /** Why no test catches it and none has to. A survivor without this fails the run. */
  readonly survives?: string;
}

/** Bugs of one source file. */
export interface Suite {
  /** From the root of the repository. */
  readonly file: string;
  /** Test files that could see the bugs, the likeliest and fastest first: the first failure ends the run. */
  readonly tests: readonly string[];
  /** Regular expression: titles of tests that need not run, such as the same cases on another Redis. Default none. */
  readonly skip?: string;
  readonly bugs: readonly Bug[];
}

export interface Mutant extends Bug {
  readonly file: string;
  readonly tests: readonly string[];
  readonly skip?: string | undefined;
}

export function mutantsOf(suites: readonly Suite[]): Mutant[] {
  return suites.flatMap(({ file, tests, skip, bugs }) => bugs.map((bug) => ({ tests, ...bug, file, skip })));
}

/**
 * @returns the file's text with the bug
 * @throws when the text to replace is not there, or there twice, or when the result is no TypeScript
 */
export function withBug(text: string, { file, find, replace, guarantee }: Mutant): string {
  const found = text.split(find).length - 1;
  if (found !== 1) {
    throw new Error(
      `${file}: the text to replace occurs ${found} times, expected once (${guarantee}):\n${find}`,
    );
  }
  if (find === replace) throw new Error(`${file}: the mutant changes nothing (${guarantee})`);
  const mutated = text.replace(find, () => replace);
  if (file.endsWith('.ts')) transformSync(mutated, { loader: 'ts', logLevel: 'silent' });
  return mutated;
}
