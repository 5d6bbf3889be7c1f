/** What an import says of a model that it could not run, or whose inputs declare no shape. */
import type { CheckReport } from '../check/run.ts';

export function notRunNotes({ notRun, reference }: CheckReport, advice: string): string[] {
  if (notRun === undefined) return [];
  const other = reference ? '' : ', or give --reference';
  return [`no made-up input was accepted (${notRun}): ${advice}${other}`];
}

/** An input without a shape accepts any tensor, which gets a batch axis. */
export function shapelessNotes(names: readonly string[], advice: string): string[] {
  return names.map(
    (name) => `input "${name}" declares no shape: records run one by one, and it takes no images; ${advice}`,
  );
}

export function givenBy(name: string): string {
  return `--input "${name}:N,..." gives it one (a word is a free size)`;
}
