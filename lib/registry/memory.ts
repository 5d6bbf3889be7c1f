/** The memory that an open version of a model takes, so far as it is known before it is opened. */
import { badConfig } from '../contract/errors.ts';
import { tooLarge } from '../pipeline/named-models.ts';
import type { ModelPointer } from './download.ts';

/** Opening a model takes its bytes, and what its runs need. */
const RESERVE = 1.25;
/** The least that a session takes. */
const SESSION_BYTES = 2 * 1024 * 1024;

type Sized = Pick<ModelPointer, 'memoryBytes'> & { readonly files: readonly { readonly bytes: number }[] };

/** In bytes: what its import measured, or an estimate by its files. Never less than the files. */
export function memoryOf({ files, memoryBytes }: Sized): number {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return (
    Math.ceil(memoryBytes === undefined ? bytes * RESERVE : Math.max(bytes, memoryBytes)) + SESSION_BYTES
  );
}

/** The name and the budget of a further model. */
export interface NamedPlace {
  readonly name: string;
  readonly budgetBytes: number;
}

/**
 * @param beside the version that stays open beside it, for a canary
 * @throws bad_config for a version that would never find room
 */
export function assertFits({ name, budgetBytes }: NamedPlace, version: Sized, beside?: Sized): void {
  const bytes = memoryOf(version) + (beside ? memoryOf(beside) : 0);
  const what = beside ? `${name}, with the canary beside the version that serves,` : name;
  if (bytes > budgetBytes) throw badConfig(tooLarge(what, bytes, budgetBytes));
}
