import { ServingError } from '../../../../lib/contract/errors.ts';

/** Ends the conversion of one node. The error message puts the operation's name before `reason`. */
export function refuse(reason: string): never {
  throw new ServingError('bad_model', reason);
}
