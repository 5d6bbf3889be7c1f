import { ServingError } from '../../../lib/contract/errors.ts';

/** Ends the conversion of one node: the reason follows the name of its operation. */
export function refuse(reason: string): never {
  throw new ServingError('bad_model', reason);
}
